package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Kind is a way of reaching an agent.
type Kind struct {
	// Name is what settings and command lines call it.
	Name string
	// Summary says in a few words what it reaches.
	Summary string
	// Command, Socket and Model report which Options the kind uses. Model stands for Model, Allow,
	// MayRun, Args and MCP; all kinds except echo use Dir, Env and Grace.
	Command, Socket, Model bool
	// Images reports that the kind uses the images of a Request, and Restrains that it guarantees PermitNothing.
	Images, Restrains bool
	// NamesSessions reports that the caller may choose the name of a new session.
	NamesSessions bool

	// New returns a driver of this kind.
	New func(Options) Driver
}

// Kinds returns all kinds of driver. The first is the default.
func Kinds() []Kind {
	return []Kind{
		{Name: "exec", Summary: "a command for each turn", Command: true, New: NewExec},
		{Name: "ash", Summary: "an Ash bridge", Command: true, Socket: true, NamesSessions: true, New: NewAsh},
		{Name: "claude", Summary: "Claude Code", Command: true, Model: true, Images: true, Restrains: true, New: NewClaude},
		{Name: "codex", Summary: "Codex", Command: true, Model: true, Restrains: true, New: NewCodex},
		{Name: "acp", Summary: "any ACP program", Command: true, Model: true, New: NewACP},
		{Name: "echo", Summary: "no agent at all", Restrains: true, New: func(Options) Driver { return NewEcho() }},
	}
}

// KindNames returns the names of all Kinds.
func KindNames() []string {
	var names []string
	for _, kind := range Kinds() {
		names = append(names, kind.Name)
	}
	return names
}

// FindKind returns the kind with the name. The empty name means the first of Kinds.
func FindKind(name string) (Kind, error) {
	for _, kind := range Kinds() {
		if kind.Name == name || name == "" {
			return kind, nil
		}
	}
	return Kind{}, fmt.Errorf("there is no driver %q; there are %s", name, strings.Join(KindNames(), ", "))
}

// Check returns an error if the options lack what the kind needs, or if they grant nothing and the kind cannot guarantee
// that.
func (k Kind) Check(options Options) error {
	switch {
	case k.Socket && options.Socket == "" && len(options.Command) == 0:
		return errors.New("neither a socket nor a command is given for the Ash bridge")
	case (k.Name == "exec" || k.Name == "acp") && len(options.Command) == 0:
		return errors.New("no command is given for the agent")
	case options.Allow == PermitNothing && !k.Restrains:
		return fmt.Errorf("--allow none: the driver %s cannot keep its program from doing what the program's own settings permit; --allow own leaves it to them", k.Name)
	case options.Allow == PermitNothing && (len(options.Args) > 0 || len(options.Command) > 1):
		return errors.New("--allow none: further arguments of the program could permit something; leave them out, or use --allow own")
	}
	return nil
}

// echo is an agent that answers each prompt with the prompt. It needs no program and no model, so
// people can try out turns with it.
type echo struct{}

// NewEcho returns the driver of an agent that answers each prompt with the prompt.
func NewEcho() Driver { return echo{} }

func (echo) Start(context.Context) error { return nil }

func (echo) Turn(ctx context.Context, request Request, observe func(Event)) (Result, error) {
	begin := time.Now()
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	out := newOutput(observe)
	out.add(request.Prompt)
	result := out.result()
	result.Duration = time.Since(begin)
	return result, nil
}

// SessionID returns "": an echo remembers nothing.
func (echo) SessionID() string { return "" }

func (echo) Stop(context.Context) error { return nil }
