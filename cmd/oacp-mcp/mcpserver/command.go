package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/live/setup"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

type mcpOptions struct {
	workspace command.Workspace
	agent     string
	plugin    bool
	listen    string
	tokenFile string
	log       command.BridgeLog
}

// mcpTokenVariable holds the token of an HTTP server.
const mcpTokenVariable = "OACP_MCP_TOKEN"

// NewCommand returns the command "oacp mcp".
func NewCommand(s *command.Streams) *cli.Command {
	var o mcpOptions
	return &cli.Command{
		Name:      "mcp",
		Category:  command.CategoryTurns,
		Usage:     "serve the mailbox as MCP tools",
		ArgsUsage: "[PROJECT] --agent AGENT",
		Description: `The tools send as AGENT and read the mail of AGENT. A client starts the command and
talks to it on standard input and output. With --listen the command serves streamable
HTTP to clients of this machine that present the token from --token-file or
$OACP_MCP_TOKEN.

There are also tools for a bridge log: --bridge, or that of the run --run-id of the
repository, or of its latest run. Without these flags and without a run, there are
none. With --bridge or --run-id the command also works without a workspace, with the
bridge tools only. After SIGTERM or ^C, the command exits with status 0.

oacp setup registers the command with claude and codex.

EXAMPLES:
   oacp mcp --agent claude
   oacp mcp --agent claude --listen 127.0.0.1:7007 --token-file token`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "act for `AGENT` (default: $OACP_AGENT)", Destination: &o.agent},
			&cli.StringFlag{Name: "listen", Category: command.Rare, Usage: "serve HTTP at `ADDRESS`, such as 127.0.0.1:7007; port 0 picks a free port", Destination: &o.listen},
			&cli.StringFlag{Name: "token-file", Category: command.Rare, Usage: "clients must present the token in `FILE`", Destination: &o.tokenFile},
			&cli.BoolFlag{Name: "plugin", Category: command.Rare, Usage: "this is the plugin of AGENT's program: $OACP_AGENT has precedence, and oacp setup", Destination: &o.plugin},
		}, append(o.log.Flags(), o.workspace.Flags()...)...),
		Action: func(c *cli.Context) error {
			if err := o.workspace.TakeProject(command.Positionals(c)); err != nil {
				return err
			}
			if o.listen == "" && o.tokenFile != "" {
				return failure.Usagef("--token-file requires --listen")
			}
			if err := o.log.Check(); err != nil {
				return err
			}
			if o.plugin {
				return o.runPlugin(c.Context, s)
			}
			return runMCP(c.Context, o, s)
		},
	}
}

func runMCP(ctx context.Context, o mcpOptions, s *command.Streams) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	location, err := o.log.Select(s)
	if err != nil {
		return err
	}
	err = o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		agent, err := client.Viewer(w, schema.AgentName(o.agent), s.Caller())
		if err != nil {
			return err
		}
		options := Options{Agent: agent, Workspace: w, AsPerson: s.AsPerson}
		if !location.Missing { // a model would mistake a log that nobody reads for mail
			options.Bridge = &location
		}
		return o.serve(ctx, options, s)
	})
	if errors.Is(err, mailbox.ErrNoWorkspace) && o.log.Given() {
		return o.serve(ctx, Options{Agent: schema.AgentName(o.agent), Bridge: &location}, s)
	}
	return err
}

// runPlugin serves a session of the program that AGENT is named after, which has the plugin. The server has tools only if the workspace has the agent and
// oacp setup has not registered another: it must not fail, as the program starts it in each folder.
func (o mcpOptions) runPlugin(ctx context.Context, s *command.Streams) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	in := *s
	in.Dir = cmp.Or(s.Getenv("CLAUDE_PROJECT_DIR"), s.Dir) // the other may be the folder of the plugin
	options := Options{Agent: schema.AgentName(o.agent)}
	err := o.workspace.With(&in, nil, func(w *mailbox.Workspace) error {
		agent, known := live.AgentOf(w, s.Getenv, options.Agent)
		if known && !(setup.Options{Program: live.Program(o.agent), Getenv: s.Getenv}).IsSetUp(in.Dir) {
			w.ViewAs(agent)
			options = Options{Agent: agent, Workspace: w}
		}
		return o.serve(ctx, options, s)
	})
	if errors.Is(err, mailbox.ErrNoWorkspace) {
		return o.serve(ctx, options, s)
	}
	return err
}

func (o mcpOptions) serve(ctx context.Context, options Options, s *command.Streams) (err error) {
	options.Version = command.BuildVersion().Version
	options.Warn = func(err error) { s.Warn(err.Error()) }
	if o.listen == "" { // otherwise the clients are elsewhere
		options.Caller = process.Caller(s.Getenv).Process
	}
	server, err := New(options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if o.listen != "" {
		return o.serveHTTP(ctx, server, s)
	}
	return server.ServeStream(ctx, os.Stdin, os.Stdout)
}

func (o mcpOptions) serveHTTP(ctx context.Context, server *Server, s *command.Streams) error {
	token, err := o.token(s)
	if err != nil {
		return err
	}
	listener, err := server.Listen(o.listen, token)
	if errors.Is(err, ErrRemoteAddress) {
		return failure.Usagef("--listen: %w", err).WithHint("listen on 127.0.0.1")
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "OK: %s\n", listener.URL())
	if err := s.Out.Flush(); err != nil {
		return errors.Join(err, listener.Close())
	}
	return listener.Serve(ctx)
}

// token returns the token in the file or the environment variable.
func (o mcpOptions) token(s *command.Streams) (string, error) {
	if o.tokenFile == "" {
		token := s.Getenv(mcpTokenVariable)
		if token == "" {
			return "", failure.Usagef("--listen needs a token").WithHint("name a file with --token-file, or set $" + mcpTokenVariable)
		}
		return token, nil
	}
	file, err := os.Open(o.tokenFile)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	defer file.Close() // opened for reading: closing cannot lose anything
	text, err := io.ReadAll(io.LimitReader(file, 4<<10))
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
