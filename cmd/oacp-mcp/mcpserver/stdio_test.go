package mcpserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/cmd/oacp-mcp/mcpserver"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// What a child process of the tests reads from its environment.
const (
	childAgent     = "OACP_MCPSERVER_TEST_AGENT"
	childWorkspace = "OACP_MCPSERVER_TEST_WORKSPACE"
	childBridge    = "OACP_MCPSERVER_TEST_BRIDGE"
)

// serveAsChild is the whole program of a child: a server on standard input and output.
func serveAsChild() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := serveStandardStreams(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serveStandardStreams(ctx context.Context) (err error) {
	w, err := mailbox.Open(os.Getenv(childWorkspace), &mailbox.Options{NoSync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := os.MkdirAll(filepath.Dir(os.Getenv(childBridge)), 0o700); err != nil {
		return err
	}
	s, err := mcpserver.New(mcpserver.Options{
		Agent: schema.AgentName(os.Getenv(childAgent)), Workspace: w,
		Bridge: &bridge.Location{Path: os.Getenv(childBridge), Run: bridge.Run{ID: 1}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.ServeStream(ctx, os.Stdin, os.Stdout)
}

// child prepares a server process for an agent.
func (r *room) child(t testing.TB, agent schema.AgentName) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), childAgent+"="+string(agent), childWorkspace+"="+r.workspace.Dir(), childBridge+"="+r.bridge.Path)
	command.Stderr = os.Stderr
	return command
}

// TestProcesses lets two agents talk through two server processes, one of which is killed between
// an answer and the next call.
func TestProcesses(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude := connect(t, &mcp.CommandTransport{Command: r.child(t, "claude")})
	claude.call(t, "send_to_agent", arguments{"to": "codex", "message_type": "task", "content": "one"}, nil)
	claude.call(t, "send_message", arguments{"to": "codex", "type": "question", "subject": "S", "body": "B"}, nil)

	command := r.child(t, "codex")
	codex := connect(t, &mcp.CommandTransport{Command: command})
	var lost, got received
	var before, after inbox
	codex.call(t, "receive_messages", nil, &lost)
	codex.call(t, "list_inbox", nil, &before)
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Ignore the error of the killed process.
	_ = codex.session.Close()

	codex = connect(t, &mcp.CommandTransport{Command: r.child(t, "codex")})
	codex.call(t, "receive_messages", nil, &got)
	codex.call(t, "list_inbox", nil, &after)
	if len(lost.Messages) != 1 || len(got.Messages) != 1 || got.LastID != lost.LastID {
		t.Errorf("before and after the kill came %+v and %+v, want the same message", lost, got)
	}
	if before.Total != 1 || after.Total != 1 {
		t.Errorf("before and after the kill %d and %d messages waited, want 1", before.Total, after.Total)
	}
	for _, c := range []*client{claude, codex} {
		if err := c.session.Close(); err != nil {
			t.Errorf("a server did not end by itself when its input ended: %v", err)
		}
	}
}

// TestTermination checks that a server ends with status 0 on SIGTERM, even if its input stays open.
func TestTermination(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no signal that ends a process")
	}
	command := newRoom(t, "claude", "codex").child(t, "codex")
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if _, err := io.WriteString(in, initialize); err != nil || !lines.Scan() {
		t.Fatalf("the server does not answer: %v, %v", err, lines.Err())
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if lines.Scan() {
		t.Errorf("after SIGTERM came %q, want nothing", lines.Text())
	}
	if err := command.Wait(); err != nil {
		t.Errorf("the server ended with %v, want status 0", err)
	}
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n"

// TestLines checks that every line of output is one answer, and that protocol errors do not end the
// conversation.
func TestLines(t *testing.T) {
	s := newRoom(t, "claude", "codex").server(t, "codex")
	in, send := io.Pipe()
	receive, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := s.ServeStream(t.Context(), in, out)
		served <- errors.Join(err, out.Close())
	}()
	lines := bufio.NewScanner(receive)
	lines.Buffer(nil, 1<<20)
	for _, step := range []struct{ send, want string }{
		{initialize, `"serverInfo":`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\n", `"send_to_agent"`},
		{`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"list_inbox"}}` + "\n", `{"total":0,"messages":[]}`},
		{`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"list_outbox"}}` + "\n", `"code":-32602`},
		{`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"list_inbox","arguments":[1]}}` + "\n", `not a JSON object`},
		{`{"jsonrpc":"2.0","id":6,"method":"none"}` + "\n", `"code":-32601`},
		{"{}\n", `"id":null,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":7,"method":"ping"}` + "\n", `"id":7`},
	} {
		if _, err := io.WriteString(send, step.send); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() {
			t.Fatalf("after %s the server ended: %v", step.send, lines.Err())
		}
		wantText(t, step.send, lines.Text(), step.want)
	}
	if err := send.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Errorf("at the end of the input the server gave %v, want nothing", err)
	}
}
