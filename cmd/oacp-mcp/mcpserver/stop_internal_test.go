package mcpserver

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
)

type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// TestStopWithACallUnderWay checks that a server that is stopped answers what it can within its
// patience, and cancels the rest.
func TestStopWithACallUnderWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.jsonl")
	s, err := New(Options{Agent: "claude", Bridge: &bridge.Location{Path: path}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.patience = time.Millisecond
	// Another process stops in the middle of writing to the log.
	lock := durable.NewLock(path + ".lock")
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	}()
	callAndStop(t, s, io.Discard, `{"name":"send_to_agent","arguments":{"to":"codex","message_type":"chat","content":"c"}}`)
}

// callAndStop stops a server after it has read the call of a tool.
func callAndStop(t *testing.T, s *Server, out io.Writer, call string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	in, send := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- s.ServeStream(ctx, in, discard{out})
	}()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` + call + `}`,
		`{"jsonrpc":"2.0","id":3,"method":"ping"}`,
	} {
		if _, err := io.WriteString(send, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

// TestStopEndsWaits checks that a server that is stopped answers the calls that wait for messages.
func TestStopEndsWaits(t *testing.T) {
	w := mailboxtest.New(t, "claude", "codex")
	dir := w.Dir()
	for tool, want := range map[string]string{"next_message": `{"pending":false}`, "receive_messages": "No new messages"} {
		s, err := New(Options{Agent: "claude", Workspace: w, Bridge: &bridge.Location{Path: filepath.Join(dir, "bridge.jsonl")}})
		if err != nil {
			t.Fatal(err)
		}
		s.patience = time.Hour
		var out bytes.Buffer
		callAndStop(t, s, &out, `{"name":"`+tool+`","arguments":{"wait_seconds":480}}`)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: the server wrote %s, want the answer %q", tool, out.String(), want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
