package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/ash"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/turn"
)

func newAshCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:     "ash",
		Category: command.CategoryBridge,
		Usage:    "serve or query an agent behind a socket",
		Description: `The Ash bridge protocol is JSON lines over a Unix socket: a host sends queries, and the
bridge streams the agent's messages and reports the end of the turn. See docs/ash.md.`,
		Subcommands: []*cli.Command{newAshServeCommand(s), newAshQueryCommand(s)},
		Flags:       []cli.Flag{command.JSONFlag(new(bool))},
		Action: func(c *cli.Context) error {
			return needsCommand(c, "ash", "serve", "query")
		},
	}
}

func newAshServeCommand(s *command.Streams) *cli.Command {
	var o driverOptions
	var asJSON bool
	return &cli.Command{
		Name:      "serve",
		Usage:     "serve an agent on a socket",
		ArgsUsage: "[--socket FILE] [--driver DRIVER] [-- COMMAND…]",
		Description: `Only the current user can connect to the socket. A host that starts the bridge passes
the path in ASH_BRIDGE_SOCKET. serve runs until a host sends shutdown, or until SIGINT
or SIGTERM; it then removes the socket and exits with status 0. With OACP_AGENT and
OACP_WORKSPACE set, as under oacp run, claude and codex have the tools of oacp mcp.

EXAMPLES:
   oacp ash serve --socket /tmp/ash-1.sock -- cat
   oacp ash serve --driver claude --allow edits
   oacp ash serve --driver echo`,
		Flags: append(o.flags("listen on `FILE` (default: ASH_BRIDGE_SOCKET, or a new one below /tmp)"),
			command.JSONFlag(&asJSON)),
		Action: func(c *cli.Context) error {
			var before []string
			if before, o.command = command.PositionalsAndRest(c); len(before) > 0 {
				return failure.Usagef("unexpected argument %s", visible.Quote(before[0])).WithHint("the command goes after --")
			}
			if err := checkOrder(o.command); err != nil {
				return err
			}
			return runAshServe(c.Context, o, asJSON, s)
		},
	}
}

func runAshServe(ctx context.Context, o driverOptions, asJSON bool, s *command.Streams) error {
	socket := cmp.Or(o.socket, s.Getenv("ASH_BRIDGE_SOCKET"), ash.NewSocketPath())
	o.socket = "" // where the bridge listens, not where its agent is
	settings := turn.Settings{Partial: true}
	if err := o.override(&settings); err != nil {
		return err
	}
	if workspace, name := s.Getenv("OACP_WORKSPACE"), s.Getenv("OACP_AGENT"); workspace != "" && name != "" {
		settings.MCP = oacpTools(s, settings.Driver, "--agent", name, "--dir", workspace)
	}
	if settings.Driver == "ash" {
		return failure.Usagef("--driver ash reaches a bridge, which hosts can connect to themselves").WithHint("give a command after --, or --driver claude")
	}
	newDriver, err := settings.NewDriver()
	if err != nil {
		return failure.Usagef("%w", err).WithHint("give a command after --, or --driver echo")
	}
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	// Find out whether the agent can be started before a host asks for a turn.
	driver := newDriver("", "")
	if err := errors.Join(driver.Start(ctx), driver.Stop(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	bridge := agent.NewAshHandler(func(session string) agent.Driver { return newDriver("", session) })
	server, err := ash.Listen(socket, bridge)
	if err != nil {
		return err
	}
	if asJSON {
		err = command.WriteJSONLine(s.Out, map[string]string{"socket": server.SocketPath()})
	} else {
		_, err = fmt.Fprintf(s.Out, "listening on %s\n", visible.Line(server.SocketPath()))
	}
	if err = errors.Join(err, s.Out.Flush()); err != nil {
		return errors.Join(err, server.Close())
	}
	return errors.Join(server.Serve(ctx), bridge.Stop(context.WithoutCancel(ctx)))
}

type ashQueryOptions struct {
	prompt, socket, session string
	timeout                 time.Duration
	json                    bool
}

func newAshQueryCommand(s *command.Streams) *cli.Command {
	var o ashQueryOptions
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
			&cli.StringFlag{Name: "socket", Usage: "the bridge listens on `FILE`", Destination: &o.socket},
			&cli.StringFlag{Name: "session", Usage: "start or continue the session `NAME`", Destination: &o.session},
			&cli.StringFlag{Name: "timeout", Usage: "stop the turn after `TIME` (default: never)"},
			command.JSONFlag(&o.json),
		},
		Action: func(c *cli.Context) error {
			args := command.Positionals(c)
			if c.IsSet("timeout") {
				var err error
				if o.timeout, err = turnTimeout(c.String("timeout")); err != nil {
					return err
				}
			}
			switch {
			case len(args) != 1:
				return failure.Usagef("needs one PROMPT")
			case o.socket == "":
				return failure.Usagef("needs --socket").WithHint("oacp ash serve prints where it listens")
			}
			o.prompt = args[0]
			return runAshQuery(c.Context, o, s)
		},
	}
}

func runAshQuery(ctx context.Context, o ashQueryOptions, s *command.Streams) (err error) {
	if o.prompt == "-" {
		// The codec refuses what is too long for a line of the protocol.
		data, err := io.ReadAll(io.LimitReader(s.In, ash.MaxLine+1))
		if err != nil {
			return fmt.Errorf("reading the prompt: %w", err)
		}
		o.prompt = string(data)
	}
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	if o.timeout > 0 {
		late := fmt.Errorf("the turn has not ended after %v: %w", o.timeout, context.DeadlineExceeded)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, late)
		defer cancel()
	}
	greeted := new(atomic.Bool)
	greeted.Store(true) // perhaps: the bridge may have said ready to another client
	driver := agent.NewAsh(agent.Options{Socket: o.socket, Session: o.session, Greeted: greeted})
	defer func() { err = errors.Join(err, driver.Stop(context.WithoutCancel(ctx))) }()
	if err := driver.Start(ctx); err != nil {
		return err
	}
	var printErr error
	_, err = driver.Turn(ctx, agent.Request{Prompt: o.prompt}, func(e agent.Event) {
		printErr = errors.Join(printErr, o.print(e, s))
	})
	return errors.Join(err, printErr)
}

func (o ashQueryOptions) print(e agent.Event, s *command.Streams) error {
	said := e.Text
	switch {
	case o.json:
		said = string(e.Raw)
	case s.OutTerminal:
		said = visible.Lines(said)
	}
	if said == "" {
		return nil
	}
	_, err := s.Out.WriteString(strings.TrimSuffix(said, "\n") + "\n")
	return errors.Join(err, s.Out.Flush())
}
