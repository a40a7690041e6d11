package mcpserver

import (
	"context"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
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
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	in, send := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- s.ServeStream(ctx, in, discard{io.Discard})
	}()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"send_to_agent","arguments":{"to":"codex","message_type":"chat","content":"c"}}}`,
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
