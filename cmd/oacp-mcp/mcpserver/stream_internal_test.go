package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/oacp-go/oacp/internal/durable"
)

// TestCallsInTurn: one call of a tool is handed on at a time, other messages are not kept back by it, and a call
// that is given up before its turn is not carried out.
func TestCallsInTurn(t *testing.T) {
	var out bytes.Buffer
	call := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call"}` + "\n" }
	s := newStream(io.NopCloser(strings.NewReader(call("1")+call("2")+call("3")+
		`{"jsonrpc":"2.0","id":4,"method":"ping"}`+"\n"+
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`+"\n")), &out)
	ctx := context.Background()
	connection, err := s.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	read := func(id any, method string) *jsonrpc.Request {
		t.Helper()
		message, err := connection.Read(ctx)
		request, ok := message.(*jsonrpc.Request)
		if err != nil || !ok || request.ID.Raw() != id || request.Method != method {
			t.Fatalf("got %+v, %v, want %s with the id %v", message, err, method, id)
		}
		return request
	}
	answer := func(r *jsonrpc.Request) {
		t.Helper()
		if err := connection.Write(ctx, &jsonrpc.Response{ID: r.ID, Result: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	first := read(int64(1), methodCall)
	ping := read(int64(4), "ping")
	read(nil, methodCancelled)
	answer(ping)
	answer(first)
	answer(read(int64(3), methodCall))
	if message, err := connection.Read(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("got %+v, %v, want the end", message, err)
	}
	if got, want := strings.Count(out.String(), "\n"), 3; got != want {
		t.Errorf("got %d answers, want %d: %s", got, want, out.String())
	}
	if err := connection.Close(); err != nil {
		t.Error(err)
	}
}

// TestStreamIsStopped: a stream whose calls do not end is left when it is told to end.
func TestStreamIsStopped(t *testing.T) {
	s := newStream(io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)), io.Discard)
	ctx, stop := context.WithCancel(context.Background())
	connection, err := s.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Read(ctx); err != nil {
		t.Fatal(err)
	}
	stop()
	if message, err := connection.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v, want %v", message, err, context.Canceled)
	}
	if err := connection.Close(); err != nil {
		t.Error(err)
	}
	if message, err := connection.Read(context.Background()); !errors.Is(err, io.EOF) {
		t.Errorf("after Close: got %+v, %v, want the end", message, err)
	}
}

// writerFunc is a client that does something when it gets an answer.
type writerFunc func(text []byte) (int, error)

func (f writerFunc) Write(text []byte) (int, error) { return f(text) }

// TestIDUsedAgain: a client that has read an answer may use its id again, before the server knows that it was written.
func TestIDUsedAgain(t *testing.T) {
	ctx := context.Background()
	call, err := parseMessage([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`))
	if err != nil {
		t.Fatal(err)
	}
	var s *stream
	calls := 1
	s = newStream(io.NopCloser(strings.NewReader("")), writerFunc(func(text []byte) (int, error) {
		// The client has the answer now, and the server is still in the middle of writing it.
		if s.idle() {
			t.Error("an answer that is being written counts as written")
		}
		if calls++; calls == 2 {
			if err := s.admit(call, nil); err != nil {
				t.Errorf("the id of an answered call: got %v, want it taken", err)
			}
			s.queue = append(s.queue, call)
		}
		return len(text), nil
	}))
	if err := s.admit(call, nil); err != nil {
		t.Fatal(err)
	}
	s.queue = append(s.queue, call)
	for range 2 {
		request, ok := s.next().(*jsonrpc.Request)
		if !ok {
			t.Fatal("no call was handed on, want two after another")
		}
		if again := s.next(); again != nil {
			t.Errorf("got %+v while a call is under way", again)
		}
		if err := s.Write(ctx, &jsonrpc.Response{ID: request.ID, Result: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	if !s.idle() {
		t.Error("both calls are answered, and the stream waits for more")
	}
}

// TestCancelledInItsBatch: a call that is given up in the line that it came in is not carried out, and its batch is
// answered without it.
func TestCancelledInItsBatch(t *testing.T) {
	var out bytes.Buffer
	s := newStream(io.NopCloser(strings.NewReader("")), &out)
	s.batches = true
	err := s.take(inputLine{text: []byte(`[{"jsonrpc":"2.0","id":1,"method":"tools/call"},{"jsonrpc":"2.0","id":2,"method":"ping"},` +
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]`)})
	if err != nil {
		t.Fatal(err)
	}
	for message := s.next(); message != nil; message = s.next() {
		request, ok := message.(*jsonrpc.Request)
		if !ok || request.Method == methodCall {
			t.Fatalf("got %+v, want the call given up", message)
		}
		if !request.IsCall() {
			continue
		}
		if err := s.Write(context.Background(), &jsonrpc.Response{ID: request.ID, Result: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.Count(out.String(), "\n"), 1; got != want || !s.idle() {
		t.Errorf("got %d answers, want %d: %s", got, want, out.String())
	}
}

// TestStopWithACallUnderWay: a server that is told to end answers what it can within its patience, and cancels the rest.
func TestStopWithACallUnderWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.jsonl")
	s, err := New(Options{Agent: "claude", Bridge: &BridgeLog{Path: path}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.patience = time.Millisecond
	// Another process is in the middle of writing into the log, and stays there.
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
		served <- s.ServeStream(ctx, in, writerFunc(func(text []byte) (int, error) { return len(text), nil }))
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
