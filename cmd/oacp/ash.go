package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/ash"
	"github.com/oacp-go/oacp/turn"
)

func newAshCommand(s *streams) *cli.Command {
	return &cli.Command{
		Name:     "ash",
		Category: categoryTurns,
		Usage:    "serve or query an agent over the Ash bridge protocol",
		Description: `The Ash bridge protocol is lines of JSON over a Unix socket: a host sends
queries, the bridge streams what its agent shows and says when the turn is done.`,
		Subcommands: []*cli.Command{newAshServeCommand(s), newAshQueryCommand(s)},
		Flags:       []cli.Flag{jsonFlag(new(bool))},
		Action: func(*cli.Context) error {
			return usageErrorf("ash needs a command of its own: serve or query").withHint("see oacp help ash")
		},
	}
}

type ashServeOptions struct {
	driver driverOptions
	json   bool
}

func newAshServeCommand(s *streams) *cli.Command {
	var o ashServeOptions
	return &cli.Command{
		Name:      "serve",
		Usage:     "be the bridge to an agent, on a socket",
		ArgsUsage: "[--socket FILE] [--driver DRIVER] [-- COMMAND…]",
		Description: `The socket is made for this user alone, and removed in the end. A host that
starts the bridge itself names it in ASH_BRIDGE_SOCKET. serve goes on until a host
says shutdown or it is told to stop, which is no failure. With OACP_AGENT and
OACP_WORKSPACE set, as under oacp run, claude and codex have the tools of oacp mcp.

EXAMPLES:
   oacp ash serve --socket /tmp/ash-1.sock -- cat
   oacp ash serve --driver claude --allow edits
   oacp ash serve --driver echo`,
		Flags: slices.Concat([]cli.Flag{jsonFlag(&o.json)}, o.driver.flags("listen on `FILE` (default: ASH_BRIDGE_SOCKET, or a new one below /tmp)")),
		Action: func(c *cli.Context) error {
			before, command := positionalsAndRest(c)
			if len(before) > 0 {
				return usageErrorf("unexpected argument %s", quote(before[0])).withHint("the command goes behind --")
			}
			o.driver.command = command
			return runAshServe(c.Context, o, s)
		},
	}
}

func runAshServe(ctx context.Context, o ashServeOptions, s *streams) error {
	settings, err := o.settings(s)
	if err != nil {
		return err
	}
	newDriver, err := settings.NewDriver()
	if err != nil {
		return usageErrorf("%w", err).withHint("name a command behind --, or --driver echo")
	}
	socket := o.driver.socket
	if socket == "" {
		socket = s.getenv("ASH_BRIDGE_SOCKET")
	}
	if socket == "" {
		socket = ash.NewSocketPath()
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	if err := checkAvailable(ctx, newDriver("", "")); err != nil {
		return err
	}
	bridge := agent.NewBridge(func(session string) agent.Driver { return newDriver("", session) })
	server, err := ash.Listen(socket, bridge, nil)
	if err != nil {
		return err
	}
	if o.json {
		err = writeJSONLine(s.out, map[string]string{"socket": server.SocketPath()})
	} else {
		_, err = fmt.Fprintf(s.out, "listening on %s\n", escapeLine(server.SocketPath()))
	}
	if err = errors.Join(err, s.out.Flush()); err != nil {
		return errors.Join(err, server.Close())
	}
	return errors.Join(server.Serve(ctx), bridge.Stop(context.WithoutCancel(ctx)))
}

// settings describe the agent. One that works for a mailbox, as under run, is
// given the tools of oacp mcp.
func (o ashServeOptions) settings(s *streams) (settings turn.Settings, err error) {
	reach := o.driver
	reach.socket = "" // where the bridge listens, not where its agent is
	if err := reach.override(&settings); err != nil {
		return settings, err
	}
	workspace, name := s.getenv("OACP_WORKSPACE"), s.getenv("OACP_AGENT")
	if workspace == "" || name == "" {
		return settings, nil
	}
	program, err := os.Executable()
	settings.MCP = oacpTools(program, "--agent", name, "--dir", workspace)
	return settings, err
}

// checkAvailable finds out whether the agent can be started, before a host
// asks for a turn.
func checkAvailable(ctx context.Context, driver agent.Driver) error {
	return errors.Join(driver.Start(ctx), driver.Stop(context.WithoutCancel(ctx)))
}

type ashQueryOptions struct {
	prompt  string
	socket  string
	session string
	timeout time.Duration
	json    bool
}

func newAshQueryCommand(s *streams) *cli.Command {
	var o ashQueryOptions
	return &cli.Command{
		Name:      "query",
		Usage:     "give the agent behind a bridge a turn, and print what it says",
		ArgsUsage: "PROMPT --socket FILE",
		Description: `A PROMPT of - is read from standard input. The answer is printed as it comes;
--json prints the agent's own messages instead, a line each, byte for byte. ^C
interrupts the turn; whatever else ends the command breaks it off at once.

EXAMPLES:
   oacp ash query "What is in this folder?" --socket /tmp/ash-1.sock
   oacp ash query - --socket /tmp/ash-1.sock --json`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "socket", Usage: "the bridge listens on `FILE`", Destination: &o.socket},
			&cli.StringFlag{Name: "session", Usage: "start or continue the session `NAME`", Destination: &o.session},
			&cli.DurationFlag{Name: "timeout", Usage: "give the turn up after `TIME`", DefaultText: "never", Destination: &o.timeout},
			jsonFlag(&o.json),
		},
		Action: func(c *cli.Context) error {
			args := positionals(c)
			if c.IsSet("timeout") && o.timeout <= 0 {
				return usageErrorf("--timeout: a turn needs some time")
			}
			if len(args) != 1 {
				return usageErrorf("needs one PROMPT")
			}
			if o.socket == "" {
				return usageErrorf("needs --socket").withHint("oacp ash serve prints where it listens")
			}
			o.prompt = args[0]
			return runAshQuery(c.Context, o, s)
		},
	}
}

func runAshQuery(ctx context.Context, o ashQueryOptions, s *streams) (err error) {
	if o.prompt == "-" {
		// The codec refuses what is too long for a line of the protocol.
		data, err := io.ReadAll(io.LimitReader(s.in, ash.MaxLine+1))
		if err != nil {
			return fmt.Errorf("reading the prompt: %w", err)
		}
		o.prompt = string(data)
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("the turn has not ended after %v: %w", o.timeout, context.DeadlineExceeded))
		defer cancel()
	}
	greeted := new(atomic.Bool)
	greeted.Store(true) // perhaps: the bridge may have said ready to another client
	driver := agent.NewAsh(agent.Options{Socket: o.socket, Session: o.session, Greeted: greeted})
	defer breakOff(ctx, driver)()
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

// breakOff has the driver's turn end at once when the context does, unless that
// was ^C, after which the bridge has a moment to end it well. The function
// returned must be called.
func breakOff(ctx context.Context, driver *agent.Ash) func() {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		var told *signalError
		if cause := context.Cause(ctx); !errors.As(cause, &told) || told.signal != syscall.SIGINT {
			_ = driver.Stop(ctx) // the turn tells of the end of its connection
		}
	})
	return func() {
		if !stop() {
			<-over
		}
	}
}

func (o ashQueryOptions) print(e agent.Event, s *streams) error {
	said := e.Text
	switch {
	case o.json:
		said = string(e.Raw)
	case s.outTerminal:
		said = escapeLines(said)
	}
	if said == "" {
		return nil
	}
	if !strings.HasSuffix(said, "\n") {
		said += "\n"
	}
	_, err := s.out.WriteString(said)
	return errors.Join(err, s.out.Flush())
}
