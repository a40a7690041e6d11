package ash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// ended collects the causes for which turns ended.
func ended(causes chan<- error) turns {
	return func(ctx context.Context, c command, send Send) error {
		err := untilStopped(ctx, c, send)
		causes <- err
		return err
	}
}

func TestServerBytewise(t *testing.T) {
	w := dialWire(t, serve(t, turns(echo)))
	for _, b := range []byte(`{"cmd":"query","prompt":"é€😀","sessionId":"ß"}` + "\r\n") {
		w.send(string([]byte{b}))
	}
	w.want(`{"ev":"message","data":"é€😀"}`)
	w.want(`{"ev":"done","sessionId":"ß"}`)
}

func TestServerOverlongLine(t *testing.T) {
	causes := make(chan error, 1)
	w := dialWire(t, serve(t, ended(causes)))
	w.send(`{"cmd":"query","prompt":"","sessionId":"s1"}` + "\n")
	w.want(`{"ev":"message","data":"started"}`)
	megabyte := bytes.Repeat([]byte("x"), 1<<20)
	for range 60 {
		if _, err := w.conn.Write(megabyte); err != nil {
			break // the server closed the connection
		}
	}
	if err := receive(t, causes, "the end of the turn"); !errors.Is(err, ErrConnectionLost) {
		t.Errorf("the turn ended because of %v, want %v", err, ErrConnectionLost)
	}
}

func TestServerGarbage(t *testing.T) {
	w := dialWire(t, serve(t, turns(echo)))
	w.send("\x00\xff\xfe\n\xed\xa0\x80\n")
	w.want(`{"ev":"error","error":"bad line: not valid UTF-8"}`)
	w.want(`{"ev":"error","error":"bad line: not valid UTF-8"}`)
	w.send(`{"cmd":"query","prompt":"x","sessionId":"s1"}` + "\n")
	w.want(`{"ev":"message","data":"x"}`)
	w.want(`{"ev":"done","sessionId":"s1"}`)
}

func TestServerHalfLine(t *testing.T) {
	ran := make(chan struct{}, 1)
	path := serve(t, turns(func(context.Context, command, Send) error {
		ran <- struct{}{}
		return nil
	}))
	w := dialWire(t, path)
	w.send(`{"cmd":"query","prompt":"x","sessionId":"s1"}`) // a whole line without its line feed
	if err := w.conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	w.wantEnd()
	if len(ran) > 0 {
		t.Error("a line without a line feed started a turn")
	}
}

func TestServerPeerVanishes(t *testing.T) {
	causes := make(chan error, 1)
	path := serve(t, ended(causes))
	w := dialWire(t, path)
	w.send(`{"cmd":"query","prompt":"","sessionId":"s1"}` + "\n")
	w.want(`{"ev":"message","data":"started"}`)
	if err := w.conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, causes, "the end of the turn"); !errors.Is(err, ErrConnectionLost) {
		t.Errorf("the turn ended because of %v, want %v", err, ErrConnectionLost)
	}
}

// TestServerReturningPeer checks that a host that lost its connection can query the same session
// again, however long its abandoned turn takes to end.
func TestServerReturningPeer(t *testing.T) {
	aborted, release := make(chan struct{}), make(chan struct{})
	path := serve(t, turns(func(ctx context.Context, c command, send Send) error {
		if c.name == "resume" {
			return send(json.RawMessage(`"resumed"`))
		}
		err := untilStopped(ctx, c, send)
		close(aborted)
		<-release
		return err
	}))
	first := dialWire(t, path)
	first.send(`{"cmd":"query","prompt":"","sessionId":"s1"}` + "\n")
	first.want(`{"ev":"message","data":"started"}`)
	if err := first.conn.Close(); err != nil {
		t.Fatal(err)
	}
	second := dialWire(t, path)
	second.send(`{"cmd":"resume","sessionId":"s1"}` + "\n")
	receive(t, aborted, "the end of the first turn")
	close(release)
	second.want(`{"ev":"message","data":"resumed"}`)
	second.want(`{"ev":"done","sessionId":"s1"}`)
}

func TestServerSecondConnection(t *testing.T) {
	causes := make(chan error, 2)
	path := serve(t, ended(causes))
	first, second := dialWire(t, path), dialWire(t, path)
	first.send(`{"cmd":"query","prompt":"","sessionId":"s1"}` + "\n")
	first.want(`{"ev":"message","data":"started"}`)

	second.send(`{"cmd":"query","prompt":"","sessionId":"s1"}` + "\n")
	second.want(`{"ev":"error","error":"a query is already running in session \"s1\""}`)
	second.want(`{"ev":"done","sessionId":"s1"}`)

	second.send(`{"cmd":"query","prompt":"","sessionId":"s2"}` + "\n")
	second.want(`{"ev":"message","data":"started"}`)
	second.send(`{"cmd":"interrupt"}` + "\n")
	second.want(`{"ev":"done","sessionId":"s2"}`)
	if err := receive(t, causes, "the end of the second turn"); !errors.Is(err, ErrInterrupted) {
		t.Errorf("the turn ended because of %v, want %v", err, ErrInterrupted)
	}
	if len(causes) > 0 {
		t.Error("the interrupt ended the first connection's turn too")
	}
	first.send(`{"cmd":"interrupt"}` + "\n")
	first.want(`{"ev":"done","sessionId":"s1"}`)
}

// TestServerPipelined checks that commands sent without waiting are answered in order and that an
// interrupt for one turn never ends the next.
func TestServerPipelined(t *testing.T) {
	w := dialWire(t, serve(t, turns(func(ctx context.Context, c command, send Send) error {
		if c.name == "resume" {
			return untilStopped(ctx, c, send)
		}
		return errors.Join(echo(ctx, c, send), ctx.Err())
	})))
	for range 50 {
		w.send(`{"cmd":"resume","sessionId":"s1"}` + "\n")
		w.want(`{"ev":"message","data":"started"}`)
		w.send(`{"cmd":"interrupt"}` + "\n" + `{"cmd":"interrupt"}` + "\n")
		w.want(`{"ev":"done","sessionId":"s1"}`)
		w.send(`{"cmd":"interrupt"}` + "\n" + `{"cmd":"query","prompt":"x","sessionId":"s1"}` + "\n")
		w.want(`{"ev":"message","data":"x"}`)
		w.want(`{"ev":"done","sessionId":"s1"}`)
	}
}

func TestServerShutdownEndsAllTurns(t *testing.T) {
	causes := make(chan error, 2)
	path := serve(t, ended(causes))
	first, second := dialWire(t, path), dialWire(t, path)
	first.send(`{"cmd":"query","prompt":"","sessionId":"s1"}` + "\n")
	first.want(`{"ev":"message","data":"started"}`)
	second.send(`{"cmd":"shutdown"}` + "\n")
	second.wantEnd()
	first.want(`{"ev":"error","error":"the bridge is shutting down"}`)
	first.want(`{"ev":"done","sessionId":"s1"}`)
	first.wantEnd()
	if err := receive(t, causes, "the end of the turn"); !errors.Is(err, ErrShutdown) {
		t.Errorf("the turn ended because of %v, want %v", err, ErrShutdown)
	}
}

// TestServeWaits checks that Serve waits for its handlers and that their last messages are sent.
func TestServeWaits(t *testing.T) {
	stopped, release := make(chan struct{}), make(chan struct{})
	path := socketPath(t)
	server, err := Listen(path, turns(func(ctx context.Context, c command, send Send) error {
		_ = untilStopped(ctx, c, send)
		close(stopped)
		<-release
		return send(json.RawMessage(`"finished"`))
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	w := dialWire(t, path)
	w.send(`{"cmd":"query","prompt":"","sessionId":"s1"}` + "\n")
	w.want(`{"ev":"message","data":"started"}`)
	cancel()
	receive(t, stopped, "the end of the turn's context")
	select {
	case err := <-served:
		t.Errorf("Serve returned %v while a handler was running", err)
	default:
	}
	close(release)
	w.want(`{"ev":"message","data":"finished"}`)
	w.want(`{"ev":"done","sessionId":"s1"}`)
	w.wantEnd()
	if err := receive(t, served, "the end of Serve"); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// TestServerPeerStopsReading checks that a host that reads nothing loses its connection and does
// not delay others.
func TestServerPeerStopsReading(t *testing.T) {
	causes := make(chan error, 1)
	path := serveWithin(t, turns(func(ctx context.Context, c command, send Send) error {
		if c.name == "resume" {
			return nil
		}
		data := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
		for {
			if err := send(data); err != nil {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return err
			}
		}
	}), 50*time.Millisecond)
	stuck, other := dialWire(t, path), dialWire(t, path)
	stuck.send(`{"cmd":"query","prompt":"","sessionId":"s1"}` + "\n")
	other.send(`{"cmd":"resume","sessionId":"s2"}` + "\n")
	other.want(`{"ev":"done","sessionId":"s2"}`)
	if err := receive(t, causes, "the end of the turn"); !errors.Is(err, ErrConnectionLost) {
		t.Errorf("the turn ended because of %v, want %v", err, ErrConnectionLost)
	}
}

func TestServerSend(t *testing.T) {
	var late Send
	w := dialWire(t, serve(t, turns(func(_ context.Context, c command, send Send) error {
		if c.name == "resume" {
			if late(json.RawMessage(`"late"`)) == nil {
				return errors.New("a message was sent after its turn")
			}
			return nil
		}
		late = send
		if send(json.RawMessage(`{`)) == nil {
			return errors.New("a message that is not JSON was sent")
		}
		if err := send(json.RawMessage(`"` + strings.Repeat("x", MaxLine) + `"`)); !errors.Is(err, errLineTooLong) {
			return err
		}
		return send(json.RawMessage("{\n  \"a\": 1\n}"))
	})))
	w.send(`{"cmd":"query","prompt":"","sessionId":"s1"}` + "\n")
	w.want(`{"ev":"message","data":{   "a": 1 }}`)
	w.want(`{"ev":"done","sessionId":"s1"}`)
	w.send(`{"cmd":"resume","sessionId":"s1"}` + "\n")
	w.want(`{"ev":"done","sessionId":"s1"}`)
}

// TestServerManyPeers checks the server with many hosts that connect, query and leave in every way
// at once.
func TestServerManyPeers(t *testing.T) {
	path := serve(t, turns(echo))
	errs := make(chan error, 8)
	for i := range cap(errs) {
		go func() {
			for range 20 {
				conn, err := net.Dial("unix", path)
				if err != nil {
					errs <- err
					return
				}
				if i%2 == 0 {
					_, _ = conn.Write([]byte(`{"cmd":"query","prompt":"x","sessionId":"other"}` + "\n{"))
				}
				if err := conn.Close(); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	w := dialWire(t, path)
	for range 100 {
		w.send(`{"cmd":"query","prompt":"x","sessionId":"s1"}` + "\n")
		w.want(`{"ev":"message","data":"x"}`)
		w.want(`{"ev":"done","sessionId":"s1"}`)
	}
	for range cap(errs) {
		if err := receive(t, errs, "a host"); err != nil {
			t.Error(err)
		}
	}
}
