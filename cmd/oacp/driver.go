package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/sibling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

// oacpTools returns oacp mcp as the MCP server of an agent, or nil for a driver without a model. If the
// program is missing, it warns and returns nil.
func oacpTools(s *command.Streams, driver string, arguments ...string) map[string]agent.MCPServer {
	if kind, err := agent.FindKind(driver); err != nil || !kind.Model {
		return nil
	}
	program, err := os.Executable()
	if err == nil && sibling.Find("mcp") == "" {
		err = errors.New("the program oacp-mcp is neither next to oacp nor on the PATH")
	}
	if err != nil {
		s.Warn(driver + " runs without the tools of oacp: " + err.Error())
		return nil
	}
	return map[string]agent.MCPServer{"oacp": {Command: append([]string{program, "mcp"}, arguments...)}}
}

// afterDashes is the hint for a command line in which the agent's command is elsewhere.
const afterDashes = "the command of the agent goes after --, as in: oacp run --agent codex -- ./agent.sh"

// checkOrder returns an error if the words after "--", the agent's command, begin with a flag.
func checkOrder(words []string) error {
	if len(words) == 0 || !strings.HasPrefix(words[0], "-") {
		return nil
	}
	flag, _, _ := strings.Cut(words[0], "=")
	return failure.Usagef("%s comes after --, where the command of the agent begins", visible.Line(flag)).WithHint(afterDashes)
}

// shellSyntax matches a word that means something to a shell.
var shellSyntax = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([|&;<>]|[0-9]>)\S*$|^\S*;$|^\S*(\*|\$[A-Za-z_{(])\S*$`)
})

// noteCommand notes syntax of a shell in the agent's command, which no shell reads, and warns about flags of run in it.
func (c *runCall) noteCommand(command []string) {
	isShell := func(word string) bool {
		return slices.Contains([]string{"sh", "bash", "dash", "ksh", "zsh", "fish"}, filepath.Base(word))
	}
	syntax, line := "", make([]string, len(command))
	for i, word := range command {
		line[i] = visible.ShellCommand(word)
		if i > 0 && shellSyntax().MatchString(word) {
			syntax, line[i] = cmp.Or(syntax, word), word
		}
		if word == "--reply" && !c.reply || word == "--once" && !c.once {
			c.Warn(word + " after -- belongs to the command, not to oacp run")
		}
	}
	if syntax != "" && !slices.ContainsFunc(command, isShell) {
		c.Note(fmt.Sprintf("no shell reads the command, so %s has no special meaning; to use a shell: -- %s",
			visible.Quote(syntax), visible.ShellCommand("sh", "-c", strings.Join(line, " "))))
	}
}

// driverFlags say how to reach an agent.
type driverFlags struct {
	inheritFlags
	driver, socket, model string
	allow                 agent.Permission
}

// flags returns the flags. The usage of --socket depends on the command.
func (f *driverFlags) flags(socket string) []cli.Flag {
	var kinds []string
	for _, kind := range agent.Kinds() {
		kinds = append(kinds, kind.Name+" ("+kind.Summary+")")
	}
	last := len(kinds) - 1
	summary := strings.Join(kinds[:last], ", ") + " or " + kinds[last]
	return append(f.inheritFlags.flags(),
		&cli.GenericFlag{Name: "driver", Usage: "run the agent with `DRIVER`: " + summary, Value: command.OneOf(&f.driver, "driver", agent.KindNames()...)},
		&cli.StringFlag{Name: "socket", Category: command.Rare, Usage: socket, Destination: &f.socket},
		&cli.StringFlag{Name: "model", Category: command.Rare, Usage: "use `MODEL` with claude, codex, acp and ash", Destination: &f.model},
		allowFlag(&f.allow, "claude, codex and acp"))
}

// allowFlag returns --allow, which is for some agents.
func allowFlag(to *agent.Permission, agents string) cli.Flag {
	return &cli.GenericFlag{Name: "allow", Usage: "`PERMISSION` is what " + agents + " may do without asking: none, own (what they are set to), edits (in their folder), or all",
		Value: command.OneOf(to, "permission", agent.PermitNothing, agent.PermitOwn, agent.PermitEdits, agent.PermitAll)}
}

// inheritFlags say which variables programs have.
type inheritFlags struct {
	cleanEnv bool
	env      variables
}

// variables are the values of --env, which may have commas.
type variables []string

// Set adds a value.
func (v *variables) Set(text string) error {
	*v = append(*v, text)
	return agent.CheckVariable(text)
}

func (v *variables) String() string { return strings.Join(*v, " ") }

func (f *inheritFlags) flags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "clean-env", Category: command.Rare, Usage: "pass only variables such as PATH to programs", Destination: &f.cleanEnv},
		&cli.GenericFlag{Name: "env", Value: &f.env, Category: command.Rare, Usage: "also pass `NAME`, or NAME=VALUE; may be repeated"},
	}
}

// override replaces what is inherited by what the flags say.
func (f *inheritFlags) override(c *call, inherit *agent.Inherit) {
	if c.given(&f.cleanEnv) {
		inherit.Clean = f.cleanEnv
	}
	if len(f.env) > 0 {
		inherit.Add = f.env
	}
}

// turnTimeout parses the limit of a turn.
func turnTimeout(text string) (time.Duration, error) {
	timeout, err := schema.ParseDuration(text)
	if err == nil && timeout == 0 {
		err = errors.New("want a duration above 0")
	}
	return timeout, err
}

// override replaces settings by those of the flags and of the command. The socket is that of an Ash bridge.
func (f *driverFlags) override(c *call, settings *turn.Settings, socket string, command []string) error {
	switch {
	case f.driver != "":
		settings.SetDriver(f.driver)
	case socket != "":
		settings.SetDriver("ash")
	case len(command) > 0:
		settings.SetDriver("exec")
	}
	kind, err := agent.FindKind(settings.Driver)
	if err != nil {
		return failure.Usagef("%w", err)
	}
	switch {
	case socket != "" && !kind.Socket:
		return failure.Usagef("--socket is for an Ash bridge, and the driver is %s", kind.Name)
	case len(command) > 0 && !kind.Command:
		return failure.Usagef("the driver %s takes no command, and there is one after --", kind.Name)
	case (f.model != "" && !kind.Socket || f.allow != "") && !kind.Model:
		return failure.Usagef("--model and --allow are for claude, codex and acp, and the driver is %s", kind.Name)
	}
	settings.Socket = cmp.Or(socket, settings.Socket)
	settings.Model = cmp.Or(f.model, settings.Model)
	settings.Allow = cmp.Or(f.allow, settings.Allow)
	if len(command) > 0 {
		settings.Command = command
	}
	f.inheritFlags.override(c, &settings.Inherit)
	for name, isGiven := range map[string]bool{
		"socket": socket != "", "model": f.model != "", "allow": f.allow != "", "command": len(command) > 0, "env": len(f.env) > 0,
	} {
		if isGiven {
			settings.Override(name)
		}
	}
	return nil
}
