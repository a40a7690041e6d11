package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/ash"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/turn"
)

func newAshCommand(s *command.Streams) *cli.Command {
	c := newCall(s)
	return &cli.Command{
		Name:     "ash",
		Category: command.CategoryBridge,
		Usage:    "serve or query an agent by socket",
		Description: `The Ash bridge protocol is JSON lines over a Unix socket: a host sends queries, and the
bridge streams the agent's messages and reports the end of the turn. See docs/ash.md.`,
		Subcommands: []*cli.Command{newAshServeCommand(s), newAshQueryCommand(s)},
		Flags:       []cli.Flag{c.jsonFlag()},
		Action:      needsCommand,
	}
}

// An ashServeCall is a call of ash serve.
type ashServeCall struct {
	*call
	driverFlags
}

func newAshServeCommand(s *command.Streams) *cli.Command {
	c := &ashServeCall{call: newCall(s)}
	return &cli.Command{
		Name:      "serve",
		Usage:     "serve an agent on a socket",
		ArgsUsage: "[--socket FILE] [--driver DRIVER] [-- COMMAND…]",
		Description: `Only the current user can connect to the socket. A host that starts the bridge passes
the path in ASH_BRIDGE_SOCKET. serve runs until a host sends shutdown, or until SIGINT
or SIGTERM; it then removes the socket and exits with status 0. With OACP_AGENT and
OACP_WORKSPACE set, as under oacp run, claude, codex and acp have the tools of oacp mcp.

EXAMPLES:
   oacp ash serve --socket /tmp/ash-1.sock -- cat
   oacp ash serve --driver claude --allow edits
   oacp ash serve --driver echo`,
		Flags:  append(c.driverFlags.flags("listen on `FILE` (default: ASH_BRIDGE_SOCKET, or a new one below /tmp)"), c.jsonFlag()),
		Action: c.action(anyNumber, c.run),
	}
}

func (c *ashServeCall) run() error {
	before, after := command.PositionalsAndRest(c.call.flags)
	if len(before) > 0 {
		return failure.Usagef("unexpected argument %s", visible.Quote(before[0])).WithHint("the command goes after --")
	}
	if err := checkOrder(after); err != nil {
		return err
	}
	// --socket is where the bridge listens, not where its agent is.
	socket := cmp.Or(c.socket, c.Getenv("ASH_BRIDGE_SOCKET"), ash.NewSocketPath())
	settings := turn.Settings{}
	if err := c.override(c.call, &settings, "", after); err != nil {
		return err
	}
	if workspace, name := c.Getenv("OACP_WORKSPACE"), c.Getenv("OACP_AGENT"); workspace != "" && name != "" {
		settings.MCP = oacpTools(c.Streams, settings.Driver, "--agent", name, "--dir", workspace)
	}
	if settings.Driver == "ash" {
		return failure.Usagef("--driver ash reaches a bridge, which hosts can connect to themselves").WithHint("give a command after --, or --driver claude")
	}
	kind, options, err := settings.Agent()
	if err != nil {
		return failure.Usagef("%w", err).WithHint("give a command after --, or --driver echo")
	}
	defer c.catchSignals()()
	// An agent that cannot be started is an error now, not when a host asks for a turn.
	driver := kind.New(options)
	if err := errors.Join(driver.Start(c.ctx), driver.Stop(context.WithoutCancel(c.ctx))); err != nil {
		return err
	}
	bridge := agent.NewAshHandler(kind, options)
	server, err := ash.Listen(socket, bridge)
	if err != nil {
		return err
	}
	if c.asJSON {
		err = command.WriteJSONLine(c.Out, map[string]string{"socket": server.SocketPath()})
	} else {
		c.Printf("listening on %s\n", visible.Line(server.SocketPath()))
	}
	if err = errors.Join(err, c.Out.Flush()); err != nil {
		return errors.Join(err, server.Close())
	}
	return errors.Join(server.Serve(c.ctx), bridge.Stop(context.WithoutCancel(c.ctx)))
}

// An ashQueryCall is a call of ash query.
type ashQueryCall struct {
	*call
	socket, session string
}

func newAshQueryCommand(s *command.Streams) *cli.Command {
	c := &ashQueryCall{call: newCall(s)}
	return &cli.Command{
		Name:      "query",
		Usage:     "send a prompt to an agent and print the answer",
		ArgsUsage: "PROMPT --socket FILE",
		Description: `If PROMPT is -, query reads standard input. It prints the answer as it arrives; --json
prints the agent's own messages instead, one per line, byte for byte. Ctrl-C interrupts
the turn.

EXAMPLES:
   oacp ash query "What is in this folder?" --socket /tmp/ash-1.sock
   oacp ash query - --socket /tmp/ash-1.sock --json`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "socket", Usage: "the bridge listens on `FILE`", Destination: &c.socket},
			&cli.StringFlag{Name: "session", Usage: "start or continue the session `NAME`", Destination: &c.session},
			c.jsonFlag(),
		},
		Action: c.action(anyNumber, c.run),
	}
}

func (c *ashQueryCall) run() (err error) {
	switch {
	case len(c.words) != 1:
		return failure.Usagef("needs one PROMPT")
	case c.socket == "":
		return failure.Usagef("needs --socket").WithHint("oacp ash serve prints where it listens")
	}
	prompt := c.words[0]
	if prompt == "-" {
		// The codec refuses what is too long for a line of the protocol.
		data, err := io.ReadAll(io.LimitReader(c.In, ash.MaxLine+1))
		if err != nil {
			return fmt.Errorf("reading the prompt: %w", err)
		}
		prompt = string(data)
	}
	defer c.catchSignals()()
	driver := agent.NewAsh(agent.Options{Socket: c.socket, Session: c.session})
	defer func() { err = errors.Join(err, driver.Stop(context.WithoutCancel(c.ctx))) }()
	if err := driver.Start(c.ctx); err != nil {
		return err
	}
	var printErr error
	_, err = driver.Turn(c.ctx, agent.Request{Prompt: prompt}, func(e agent.Event) {
		said := e.Text
		switch {
		case c.asJSON:
			said = string(e.Raw)
		case c.OutTerminal:
			said = visible.Lines(said)
		}
		if said != "" {
			_, err := c.Out.WriteString(strings.TrimSuffix(said, "\n") + "\n")
			printErr = errors.Join(printErr, err, c.Out.Flush())
		}
	})
	return errors.Join(err, printErr)
}
