package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mcpserver"
	"github.com/oacp-go/oacp/schema"
)

type mcpOptions struct {
	workspace   workspaceOptions
	agent       string
	listen      string
	tokenFile   string
	allowRemote bool
	log         logOptions
	json        bool
}

// mcpTokenVariable holds the token of an HTTP server.
const mcpTokenVariable = "OACP_MCP_TOKEN"

func newMCPCommand(s *streams) *cli.Command {
	var o mcpOptions
	return &cli.Command{
		Name:      "mcp",
		Category:  categoryMessages,
		Usage:     "offer mailbox and bridge to an agent as MCP tools",
		ArgsUsage: "[PROJECT] --agent AGENT",
		Description: `The tools act for AGENT: what they send comes from it, what they receive is its
own. A client starts the command and talks to it on standard input and output;
with --listen it answers over streamable HTTP instead, to whoever has the token
that is in --token-file, or in $OACP_MCP_TOKEN, or is made and shown once.

The bridge log is that of --bridge, or of the repository's run --run-id, or of
its latest run; where there is none, the first message sent makes run 1. With
--bridge or --run-id no workspace is needed, and without one the mailbox tools
are left out. Told to stop, the command leaves nothing half done and exits with
status 0.

EXAMPLES:
   claude mcp add oacp -- oacp mcp --agent claude
   codex mcp add oacp -- oacp mcp --agent codex
   oacp mcp --agent claude --listen 127.0.0.1:7007 --token-file token`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "act for `AGENT` (default: see oacp help)", Destination: &o.agent},
			&cli.StringFlag{Name: "listen", Usage: "answer over HTTP at `ADDRESS`, such as 127.0.0.1:7007; port 0 takes a free one", Destination: &o.listen},
			&cli.StringFlag{Name: "token-file", Usage: "clients must present the token in `FILE`", Destination: &o.tokenFile},
			&cli.BoolFlag{Name: "allow-remote", Usage: "permit an address that other machines can reach; there is no encryption", Destination: &o.allowRemote},
			jsonFlag(&o.json),
		}, append(o.log.flags(), o.workspace.flags()...)...),
		Action: func(c *cli.Context) error {
			if err := o.workspace.takeProject(positionals(c)); err != nil {
				return err
			}
			if o.listen == "" && (o.tokenFile != "" || o.allowRemote || o.json) {
				return usageErrorf("--token-file, --allow-remote and --json go with --listen")
			}
			if err := o.log.check(c); err != nil {
				return err
			}
			return runMCP(c.Context, o, s)
		},
	}
}

func runMCP(ctx context.Context, o mcpOptions, s *streams) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	log, err := o.bridgeLog(s)
	if err != nil {
		return err
	}
	err = o.workspace.with(s, nil, func(w *mailbox.Workspace) error {
		agent, err := agentOf(w, o.agent, s)
		if err != nil {
			return err
		}
		return o.serve(ctx, mcpserver.Options{Agent: agent, Workspace: w, Bridge: &log}, s)
	})
	if errors.Is(err, mailbox.ErrNoWorkspace) && o.log.given() {
		return o.serve(ctx, mcpserver.Options{Agent: schema.AgentName(o.agent), Bridge: &log}, s)
	}
	return err
}

// bridgeLog returns the bridge log that the flags mean.
func (o mcpOptions) bridgeLog(s *streams) (mcpserver.BridgeLog, error) {
	if o.log.file != "" {
		return mcpserver.FileLog(o.log.file)
	}
	root, repository, err := o.log.runs(s)
	if err != nil {
		return mcpserver.BridgeLog{}, err
	}
	return mcpserver.RunLog(root, repository, o.log.runID)
}

func (o mcpOptions) serve(ctx context.Context, options mcpserver.Options, s *streams) (err error) {
	options.Version = buildVersion().Version
	options.Warn = func(err error) { warn(s, err.Error()) }
	server, err := mcpserver.New(options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if o.listen != "" {
		return o.serveHTTP(ctx, server, options.Agent, s)
	}
	in, ok := s.in.(io.ReadCloser)
	if !ok {
		in = io.NopCloser(s.in)
	}
	return server.ServeStream(ctx, in, flushingWriter{s.out})
}

func (o mcpOptions) serveHTTP(ctx context.Context, server *mcpserver.Server, agent schema.AgentName, s *streams) error {
	token, made, err := o.token(s)
	if err != nil {
		return err
	}
	listener, err := server.Listen(mcpserver.HTTPOptions{Address: o.listen, Token: token, AllowRemote: o.allowRemote})
	if errors.Is(err, mcpserver.ErrRemoteAddress) {
		return usageErrorf("--listen: %w", err).withHint("listen on 127.0.0.1, or say --allow-remote")
	}
	if err != nil {
		return err
	}
	answer := listeningJSON{URL: listener.URL(), Agent: agent}
	if made {
		answer.Token = token
	}
	if err := answer.print(o.json, s); err != nil {
		return errors.Join(err, listener.Close())
	}
	return listener.Serve(ctx)
}

// listeningJSON says where an HTTP server is. The token is there when it was
// made now, so that nobody else can know it.
type listeningJSON struct {
	URL   string           `json:"url"`
	Agent schema.AgentName `json:"agent"`
	Token string           `json:"token,omitempty"`
}

func (a listeningJSON) print(asJSON bool, s *streams) error {
	if asJSON {
		return errors.Join(writeJSONLine(s.out, a), s.out.Flush())
	}
	fmt.Fprintf(s.out, "OK: %s\n", a.URL)
	if a.Token != "" {
		// Not to standard output: that is what ends up in files.
		fmt.Fprintf(s.err, "oacp: the token, shown this once: %s\n", a.Token)
	}
	return s.out.Flush()
}

// token returns what clients have to present, and whether it was made now.
func (o mcpOptions) token(s *streams) (token string, made bool, err error) {
	switch given := s.getenv(mcpTokenVariable); {
	case o.tokenFile != "":
		text, err := readInput(o.tokenFile, s)
		if err != nil {
			return "", false, fmt.Errorf("token: %w", err)
		}
		return strings.TrimSpace(text), false, nil
	case given != "":
		return given, false, nil
	}
	return mcpserver.NewToken(), true, nil
}

// flushingWriter lets every answer out at once.
type flushingWriter struct{ out *bufio.Writer }

func (w flushingWriter) Write(data []byte) (int, error) {
	n, err := w.out.Write(data)
	return n, errors.Join(err, w.out.Flush())
}
