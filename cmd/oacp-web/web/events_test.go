package web

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
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

// TestEvents checks that an arrival and a new agent reach an open page.
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
	var got string
	for !strings.Contains(got, "anna") && lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			got += " " + data
		}
	}
	if !strings.Contains(got, "anna") {
		t.Errorf("the events are %q (%v)", got, lines.Err())
	}
	stop()
	for lines.Scan() { // until the stream ends
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestDeafClient checks that the events for a client that never reads are dropped, and do not hold up others.
func TestDeafClient(t *testing.T) {
	var h hub
	deaf, awake := h.join(), h.join()
	for i := range 3 * backlog {
		h.tell(fmt.Sprint(i))
		if got := <-awake; got != fmt.Sprint(i) {
			t.Fatalf("the client that reads gets %q, want %d", got, i)
		}
	}
	count := 0
	for range deaf { // it was closed
		count++
	}
	if count != backlog || len(h.streams) != 1 {
		t.Errorf("%d events wait for the other, in %d streams, want %d, 1", count, len(h.streams), backlog)
	}
	h.leave(deaf)
	h.leave(awake)
	var streams []chan string
	for range maxStreams {
		streams = append(streams, h.join())
	}
	if h.join() != nil {
		t.Errorf("there are more than %d streams", maxStreams)
	}
	for _, s := range streams {
		h.leave(s)
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
	agents, err := w.Agents()
	if err != nil {
		t.Fatal(err)
	}
	paths, seen := server.watched(agents), make(map[string]sighting)
	look(paths, seen)
	if got := look(paths, seen); len(got) != 0 {
		t.Errorf("nothing has changed, but look returns %q", got)
	}
	mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	if got := strings.Join(look(paths, seen), " "); got != "claude codex" {
		t.Errorf("look returns %q, want claude codex", got)
	}
}
