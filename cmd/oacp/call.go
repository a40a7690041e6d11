package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A call is one run of a command.
type call struct {
	*command.Streams
	ctx   context.Context
	flags *cli.Context
	// words are the arguments that are not flags.
	words []string
	// place selects the workspace.
	place command.Workspace
	// The flags that most commands have: --json, --quiet, --agent and --sync.
	asJSON, quiet bool
	agent         schema.AgentName
	sync          command.Sync

	workspace *mailbox.Workspace // the open one
	// acting is the agent that the command acts for, if actsFor has recorded one.
	acting schema.AgentName
	// waited ends what the command records about its wait.
	waited func()
}

// newCall returns a call for a command to embed. Its flags fill it in.
func newCall(s *command.Streams) *call { return &call{Streams: s, waited: func() {}} }

// flagsWith adds --json and the flags that name a workspace.
func (c *call) flagsWith(flags ...cli.Flag) []cli.Flag {
	return append(append(flags, c.jsonFlag()), c.place.Flags()...)
}

func (c *call) jsonFlag() cli.Flag { return command.JSONFlag(&c.asJSON) }

// agentFlag returns the flag --agent.
func (c *call) agentFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "agent", Usage: usage, Destination: (*string)(&c.agent)}
}

// anyNumber is the limit for a command that takes any number of arguments.
const anyNumber = 1 << 30

// action returns the action of a command that takes at most the given number of arguments.
func (c *call) action(most int, run func() error) cli.ActionFunc {
	return func(flags *cli.Context) error {
		c.ctx, c.flags, c.words = flags.Context, flags, command.Positionals(flags)
		if err := command.AtMost(flags, most); err != nil {
			return err
		}
		return run()
	}
}

// inWorkspace is action for a command that uses a workspace.
func (c *call) inWorkspace(most int, run func(*mailbox.Workspace) error) cli.ActionFunc {
	return c.action(most, func() error { return c.with(nil, run) })
}

// ofProject is action for a command whose only argument, if any, names the project.
func (c *call) ofProject(run func() error) cli.ActionFunc {
	return c.action(anyNumber, func() error {
		if err := c.place.TakeProject(c.words); err != nil {
			return err
		}
		return run()
	})
}

// inProject is ofProject for a command that uses a workspace.
func (c *call) inProject(run func(*mailbox.Workspace) error) cli.ActionFunc {
	return c.ofProject(func() error { return c.with(nil, run) })
}

// nameOf returns the name of the flag with a destination.
func (c *call) nameOf(destination any) string {
	at := slices.IndexFunc(c.flags.Command.Flags, func(f cli.Flag) bool { return command.Destination(f) == destination })
	if at < 0 {
		return ""
	}
	return c.flags.Command.Flags[at].Names()[0]
}

// given reports whether the command line has the flag with a destination, whatever its value.
func (c *call) given(destination any) bool { return c.flags.IsSet(c.nameOf(destination)) }

// needsCommand is an action that reports a missing or unknown subcommand.
func needsCommand(c *cli.Context) error {
	var names []string
	for _, sub := range c.Command.Subcommands {
		names = append(names, sub.Name)
	}
	if rest := command.Positionals(c); len(rest) > 0 {
		return command.UnknownCommand(names, rest[0], c.Command.HelpName)
	}
	return failure.Usagef("%s needs a command of its own: %s", c.Command.Name, spelling.Join(names)).WithHint("see oacp help " + c.Command.Name)
}

// with opens the workspace, calls use and closes it.
func (c *call) with(options *mailbox.Options, use func(*mailbox.Workspace) error) error {
	return c.place.With(c.Streams, options, func(w *mailbox.Workspace) error {
		c.workspace = w
		err := use(w)
		c.waited()
		if err == nil {
			c.announce()
		}
		return err
	})
}

// announce tells the agent for which the command acted of new messages, of each once, unless a session or runner gets them
// anyway or the command has listed them.
func (c *call) announce() {
	if c.acting == "" || c.asJSON || c.quiet || slices.Contains([]string{"inbox", "owed", "decide"}, c.flags.Command.Name) {
		return
	}
	_, inSession := c.Streams.Caller().Session(c.workspace)
	runs, err := track.IsRunning(c.workspace, c.acting)
	if inSession || runs || err != nil {
		return
	}
	acts, err := client.For(c.workspace, c.acting, c.Caller())
	if err != nil {
		return
	}
	told := acts.Announce(context.WithoutCancel(c.ctx)) // a wait may have ended
	if len(told) == 0 {
		return
	}
	const most = 3
	line, next := spelling.Plural(len(told), "new message"), showsNew(c.workspace, c.acting)
	for i, m := range told[:min(most, len(told))] {
		line += fmt.Sprintf("%s %s from %s", [...]string{":", ","}[min(i, 1)], m.Type, m.From)
	}
	if more := len(told) - most; more > 0 {
		line += fmt.Sprintf(" and %d more", more)
	}
	if c.Getenv("OACP_AGENT") != string(c.acting) {
		next += " --agent " + string(c.acting)
	}
	_ = c.Out.Flush() // who flushes it next gets the error
	c.Tell("%s; %s\n", visible.Line(line), next)
}

// showsNew is the command that shows an agent its new mail.
func showsNew(w *mailbox.Workspace, agent schema.AgentName) string {
	if project.IsPerson(w, agent) {
		return "oacp decide"
	}
	return "oacp next"
}

// as returns the client of the agent that the command acts for: the named one, or the one that the environment names. It
// records that the agent did something.
func (c *call) as(name schema.AgentName) (*client.Client, error) {
	acts, err := client.As(c.workspace, name, c.Caller())
	if err == nil {
		_, err = c.actsFor(acts.Agent(), nil)
	}
	return acts, err
}

// views returns the agent whose mail the command shows, and records that it did something.
func (c *call) views(name schema.AgentName) (schema.AgentName, error) {
	return c.actsFor(client.Viewer(c.workspace, name, c.Caller()))
}

// actsFor records that the agent did something, and returns its arguments, which are results of package client. If the environment names another agent, that one only looks, and actsFor records nothing.
func (c *call) actsFor(agent schema.AgentName, err error) (schema.AgentName, error) {
	if own, ownErr := project.InferAgent(c.workspace, c.Getenv); err == nil && (ownErr != nil || own == agent) {
		c.acting = agent
		name := c.flags.Command.Name
		c.waited = track.NoteCommand(c.workspace, agent, "oacp "+name, name == "next" || c.flags.IsSet("wait"), c.Now)
	}
	return agent, err
}

// answer prints the answer as JSON with --json, and otherwise calls print.
func (c *call) answer(answer any, print func()) error { return c.Answer(c.asJSON, answer, print) }

// only returns the only argument, or the error missing if there is none.
func (c *call) only(missing error) (string, error) {
	if len(c.words) == 0 || c.words[0] == "" {
		return "", missing
	}
	return c.words[0], nil
}

// catchSignals makes signals end the context of the call, until the caller calls stop.
func (c *call) catchSignals() (stop func()) {
	before := c.ctx
	ctx, release := command.UntilSignal(before)
	c.ctx = ctx
	return func() {
		release()
		c.ctx = before
	}
}

// synchronizer returns what --sync asks for, or nil.
func (c *call) synchronizer(workspaces ...*mailbox.Workspace) (*command.Synchronizer, error) {
	return c.sync.Open(c.ctx, c.Streams, workspaces...)
}

// lessGarbageCollection speeds up a command that reads much and ends soon, until the caller calls reset.
func lessGarbageCollection() (reset func()) {
	before := debug.SetGCPercent(400)
	return func() { debug.SetGCPercent(before) }
}

// An envelope holds the first fields of an answer about a workspace.
type envelope struct {
	Project   string `json:"project"`
	Workspace string `json:"workspace"`
}

func envelopeOf(w *mailbox.Workspace) envelope { return envelope{project.Name(w), w.Dir()} }

// recipients are encoded as in a message file: one name as a string, several as an array.
type recipients []schema.AgentName

func (r recipients) MarshalJSON() ([]byte, error) {
	if len(r) == 1 {
		return json.Marshal(r[0])
	}
	return json.Marshal(append([]schema.AgentName{}, r...))
}

// A head holds the fields of a message that answers contain.
type head struct {
	ID             schema.ID             `json:"id"`
	From           schema.AgentName      `json:"from"`
	To             recipients            `json:"to"`
	Type           schema.Type           `json:"type"`
	Priority       schema.Priority       `json:"priority"`
	Subject        string                `json:"subject"`
	CreatedAt      schema.Timestamp      `json:"created_at_utc"`
	ExpiresAt      schema.Timestamp      `json:"expires_at,omitempty"`
	ConversationID schema.ConversationID `json:"conversation_id,omitempty"`
}

func headOf(m *schema.Message) head {
	return head{m.ID, m.From, m.To, m.Type, m.Priority, m.Subject, m.CreatedAt, m.ExpiresAt, m.ConversationID}
}

// withKeys returns the JSON object of a value, followed by the keys of more.
func withKeys(value, more any) (json.RawMessage, error) {
	var first, second bytes.Buffer
	if err := errors.Join(command.WriteJSONLine(&first, value), command.WriteJSONLine(&second, more)); err != nil {
		return nil, err
	}
	object := bytes.TrimSuffix(bytes.TrimSpace(first.Bytes()), []byte("}"))
	return append(append(object, ','), bytes.TrimPrefix(second.Bytes(), []byte("{"))...), nil
}

// readInput returns the text of a file, or of standard input for "-". It returns an error for a text
// that is larger than a message may be.
func readInput(name string, s *command.Streams) (text string, err error) {
	input := s.In
	if name == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer file.Close() // nothing was written, so the error does not matter
		input = file
	}
	data, err := io.ReadAll(io.LimitReader(input, schema.MaxFileSize+1))
	if err != nil {
		return "", failure.WithHint(fmt.Errorf("reading %s: %w", name, err), "name a file, or - for standard input")
	}
	if len(data) > schema.MaxFileSize {
		return "", fmt.Errorf("%s is larger than a message may be (%d bytes)", name, schema.MaxFileSize)
	}
	return string(data), nil
}

// confirm asks a question on a terminal, unless the user has said yes. A program that calls the
// command has consented with its flags.
func (c *call) confirm(yes bool, question string) error {
	if yes || !c.InTerminal || !c.ErrTerminal {
		return nil
	}
	c.Tell("%s [y/N] ", visible.Line(question))
	line, err := bufio.NewReader(c.In).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err != nil || answer != "y" && answer != "yes" {
		return failure.ErrReported
	}
	return nil
}

// warnUnreadable prints a warning if the error only reports unreadable files, and returns its text. It
// returns other errors.
func warnUnreadable(err error, s *command.Streams) (unreadable string, other error) {
	incomplete, other := mailbox.SplitUnreadable(err)
	if incomplete == nil {
		return "", other
	}
	unreadable = failure.OneLine(incomplete.Error())
	s.Warn("there may be more: " + unreadable)
	return unreadable, nil
}
