package ash

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// patience is how long a test waits for an event that must come. It does not limit a test that
// passes.
const patience = time.Minute

// turns is a handler that runs queries and resumes with one function.
type turns func(ctx context.Context, c command, send Send) error

func (t turns) Query(ctx context.Context, query Query, send Send) error {
	return t(ctx, command{name: "query", Query: query}, send)
}

func (t turns) Resume(ctx context.Context, sessionID string, send Send) error {
	return t(ctx, command{name: "resume", Query: Query{SessionID: sessionID}}, send)
}

// echo answers a query with its prompt.
func echo(_ context.Context, c command, send Send) error {
	if c.name != "query" {
		return nil
	}
	data, err := json.Marshal(c.Prompt)
	if err != nil {
		return err
	}
	return send(data)
}

// untilStopped reports that it has started and runs until its context ends.
func untilStopped(ctx context.Context, _ command, send Send) error {
	if err := send(json.RawMessage(`"started"`)); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func socketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ash")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "ash-test.sock")
}

// serve runs a server until the test ends and checks that it ends without error.
func serve(t testing.TB, handler Handler) string {
	t.Helper()
	return serveWithin(t, handler, writePatience)
}

// serveWithin is serve with another limit for hosts that read nothing.
func serveWithin(t testing.TB, handler Handler, writeTimeout time.Duration) string {
	t.Helper()
	path := socketPath(t)
	server, err := Listen(path, handler)
	if err != nil {
		t.Fatal(err)
	}
	server.writeTimeout = writeTimeout
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := receive(t, served, "the end of the server"); err != nil {
			t.Errorf("Serve: %v", err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the server left its socket behind: %v", err)
		}
	})
	return path
}

func connect(t testing.TB, path string) *Client {
	t.Helper()
	return connectWithin(t, path, connectTimeout)
}

// connectWithin is connect with another limit for the bridge's ready.
func connectWithin(t testing.TB, path string, readyTimeout time.Duration) *Client {
	t.Helper()
	client, err := newClient(path, readyTimeout).connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return client
}

// query runs a turn to its end and returns what it yielded.
func query(client *Client, prompt string) (messages []string, err error) {
	for data, err := range client.Query(context.Background(), Query{Prompt: prompt, SessionID: "s1"}) {
		if err != nil {
			return messages, err
		}
		messages = append(messages, string(data))
	}
	return messages, nil
}

// receive waits for something that must come.
func receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(patience):
		t.Fatalf("timed out waiting for %s", what)
		panic("unreachable")
	}
}

// wire is the raw end of a connection: it exchanges lines and does not decode them.
type wire struct {
	t     testing.TB
	conn  *net.UnixConn
	lines *bufio.Reader
}

func newWire(t testing.TB, conn net.Conn) *wire {
	t.Helper()
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &wire{t: t, conn: conn.(*net.UnixConn), lines: bufio.NewReaderSize(conn, 1<<20)}
}

// dialWire connects to a server and reads its ready.
func dialWire(t testing.TB, path string) *wire {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, conn)
	w.want(`{"ev":"ready"}`)
	return w
}

func (w *wire) send(text string) {
	w.t.Helper()
	if _, err := w.conn.Write([]byte(text)); err != nil {
		w.t.Fatalf("send: %v", err)
	}
}

func (w *wire) want(line string) {
	w.t.Helper()
	got, err := w.lines.ReadString('\n')
	if err != nil || got != line+"\n" {
		w.t.Fatalf("on the wire\n got %q, error %v\nwant %q", got, err, line+"\n")
	}
}

// wantEnd checks that the other end has closed the connection.
func (w *wire) wantEnd() {
	w.t.Helper()
	if got, err := w.lines.ReadString('\n'); err == nil || got != "" || errors.Is(err, os.ErrDeadlineExceeded) {
		w.t.Fatalf("on the wire: got %q, error %v, want the end", got, err)
	}
}

// fakeBridge listens at a new path and plays a bridge to one connection after another.
func fakeBridge(t testing.TB, play ...func(*wire)) string {
	t.Helper()
	path := socketPath(t)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	played := make(chan struct{})
	go func() {
		defer close(played)
		for _, act := range play {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			w := &wire{t: t, conn: conn.(*net.UnixConn), lines: bufio.NewReader(conn)}
			_ = conn.SetDeadline(time.Now().Add(patience))
			act(w)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		receive(t, played, "the end of the fake bridge")
	})
	return path
}
