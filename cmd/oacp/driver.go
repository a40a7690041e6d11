package main

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

// driverOptions say how to reach an agent.
type driverOptions struct {
	name, socket, model, allow string

	command []string
}

// permissionSummary lists the values of --allow.
const permissionSummary = "none (what their own settings say), edits (of files in their folder), or all"

// oacpTools makes oacp mcp the server of an agent's tools if the driver passes tools on. It warns if
// the agent gets none because the program is missing.
func oacpTools(s *command.Streams, driver string, arguments ...string) map[string]agent.MCPServer {
	if kind, err := agent.FindKind(driver); err != nil || !kind.Model {
		return nil
	}
	program, err := os.Executable()
	if err == nil && command.FindSeparate("mcp") == "" {
		err = errors.New("the program oacp-mcp is neither next to oacp nor on the PATH")
	}
	if err != nil {
		s.Warn(driver + " runs without the tools of oacp: " + err.Error())
		return nil
	}
	return map[string]agent.MCPServer{"oacp": {Command: append([]string{program, "mcp"}, arguments...)}}
}

// afterDashes is the hint for a command in any other place.
const afterDashes = "the command of the agent goes after --, as in: oacp run --agent codex -- ./agent.sh"

// checkOrder returns an error if the words after "--", the agent's command, begin with a flag.
func checkOrder(words []string) error {
	if len(words) == 0 || !strings.HasPrefix(words[0], "-") {
		return nil
	}
	flag, _, _ := strings.Cut(words[0], "=")
	return failure.Usagef("%s comes after --, where the command of the agent begins", visible.Line(flag)).WithHint(afterDashes)
}

// flags returns the flags. Socket says what the command does with --socket.
func (o *driverOptions) flags(socket string) []cli.Flag {
	var kinds []string
	for _, kind := range agent.Kinds() {
		kinds = append(kinds, kind.Name+" ("+kind.Summary+")")
	}
	last := len(kinds) - 1
	summary := strings.Join(kinds[:last], ", ") + " or " + kinds[last]
	return []cli.Flag{
		&cli.StringFlag{Name: "driver", Usage: "run the agent with `DRIVER`: " + summary, Destination: &o.name},
		&cli.StringFlag{Name: "socket", Category: command.Rare, Usage: socket, Destination: &o.socket},
		&cli.StringFlag{Name: "model", Category: command.Rare, Usage: "use `MODEL` with claude and codex", Destination: &o.model},
		&cli.StringFlag{Name: "allow", Usage: "let claude and codex do without asking what `PERMISSION` says: " + permissionSummary, Destination: &o.allow},
	}
}

// turnTimeout parses the value of --timeout.
func turnTimeout(text string) (time.Duration, error) {
	timeout, err := schema.ParseDuration(text)
	if err == nil && timeout == 0 {
		err = errors.New("want a duration above 0")
	}
	if err != nil {
		return 0, failure.Usagef("--timeout: %w", err)
	}
	return timeout, nil
}

// override replaces settings of the workspace with those of the command line.
func (o *driverOptions) override(settings *turn.Settings) error {
	permission, err := agent.ParsePermission(o.allow)
	if err != nil {
		return failure.Usagef("--allow: %w", err)
	}
	names := agent.KindNames()
	switch {
	case o.name != "" && !slices.Contains(names, o.name):
		return failure.Usagef("there is no driver %s", visible.Quote(o.name)).
			WithHint(spelling.DidYouMean(names, o.name, "there are "+strings.Join(names, ", ")))
	case o.name != "":
		settings.SetDriver(o.name)
	case o.socket != "":
		settings.SetDriver("ash")
	case len(o.command) > 0:
		settings.SetDriver("exec")
	}
	kind, err := agent.FindKind(settings.Driver)
	if err != nil {
		return failure.Usagef("%w", err)
	}
	switch {
	case o.socket != "" && !kind.Socket:
		return failure.Usagef("--socket is for an Ash bridge, and the driver is %s", kind.Name)
	case len(o.command) > 0 && !kind.Command:
		return failure.Usagef("the driver %s takes no command, and there is one after --", kind.Name)
	case (o.model != "" || o.allow != "") && !kind.Model:
		return failure.Usagef("--model and --allow are for claude and codex, and the driver is %s", kind.Name)
	}
	settings.Socket = cmp.Or(o.socket, settings.Socket)
	settings.Model = cmp.Or(o.model, settings.Model)
	if o.allow != "" {
		settings.Allow = permission
	}
	if len(o.command) > 0 {
		settings.Command = o.command
	}
	return nil
}
