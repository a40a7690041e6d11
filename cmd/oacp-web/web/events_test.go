package web

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
)

// startServing serves in the background until the caller calls stop.
func startServing(t *testing.T, l *Listener) (served <-chan error, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Serve(ctx) }()
	t.Cleanup(cancel)
	return done, cancel
}

// TestEvents checks that an arrival reaches an open page.
func TestEvents(t *testing.T) {
	w := newWorkspace(t)
	server, err := New(w, Options{Person: "anna", Warn: func(err error) { t.Log(err) }})
	if err != nil {
		t.Fatal(err)
	}
	l, err := server.Listen(Listen{Address: "127.0.0.1:0"}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	served, stop := startServing(t, l)
	b := &browser{t: t, handler: l.guard, guard: l.guard, server: server, header: http.Header{"Host": {l.listener.Addr().String()}}}
	b.login()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, l.guard.origin+"/events", nil)
	r.AddCookie(b.cookies[0])
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(answer, err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	ask(t, w, "Deploy?", "It is green.")
	for lines.Scan() && lines.Text() != "event: change" {
	}
	if lines.Text() != "event: change" {
		t.Errorf("the stream ends with %q (%v)", lines.Text(), lines.Err())
	}
	stop()
	for lines.Scan() { // until the stream ends
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestDeafClient checks that a client that never reads holds up nobody, and that the number of clients is bounded.
func TestDeafClient(t *testing.T) {
	var h hub
	deaf, awake := h.join(), h.join()
	for range 10 {
		h.tell()
		<-awake
	}
	if len(deaf) != 1 {
		t.Errorf("%d events wait for the other, want 1", len(deaf))
	}
	for len(h.streams) < maxStreams {
		if h.join() == nil {
			t.Fatalf("there are only %d streams", len(h.streams))
		}
	}
	if h.join() != nil {
		t.Errorf("there are more than %d streams", maxStreams)
	}
	if h.leave(deaf); h.join() == nil {
		t.Error("a stream that ended keeps its place")
	}
}

// A pipeListener accepts one end of a pipe, which buffers nothing.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.conns) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070} }

// TestStuckConnection checks that a connection that takes no bytes ends after the time for a write.
func TestStuckConnection(t *testing.T) {
	defer func(was time.Duration) { streamTimeout = was }(streamTimeout)
	streamTimeout = 50 * time.Millisecond
	w := newWorkspace(t)
	server, err := New(w, Options{Person: "anna", Warn: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	pipes := &pipeListener{conns: make(chan net.Conn, 1)}
	l := server.on(pipes, place{local: true}, func(string) {})
	b := &browser{t: t, handler: l.guard, guard: l.guard, server: server, header: http.Header{}}
	b.login()
	ended := make(chan struct{})
	inner := l.http.Handler
	l.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { defer close(ended); inner.ServeHTTP(w, r) })
	served, stop := startServing(t, l)
	client, conn := net.Pipe()
	defer client.Close()
	pipes.conns <- conn
	cookie := b.cookies[0]
	if _, err := fmt.Fprintf(client, "GET /events HTTP/1.1\r\nHost: %s\r\nCookie: %s=%s\r\n\r\n", address, cookie.Name, cookie.Value); err != nil {
		t.Fatal(err)
	}
	<-ended
	if len(server.hub.streams) != 0 {
		t.Errorf("%d streams are left", len(server.hub.streams))
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestLook(t *testing.T) {
	w := newWorkspace(t)
	server, err := New(w, Options{Warn: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	seen := look(server.watched())
	if now := look(server.watched()); now != seen {
		t.Errorf("nothing has changed, but look sees\n%s\ninstead of\n%s", now, seen)
	}
	mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	if look(server.watched()) == seen {
		t.Error("look does not see a message")
	}
}
