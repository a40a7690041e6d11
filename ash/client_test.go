package ash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"
)

const queryLine = `{"cmd":"query","prompt":"hello","sessionId":"s1"}`

// wantLine is wire.want for a fake bridge's goroutine, which must not end the test.
func (w *wire) wantLine(want string) {
	got, err := w.lines.ReadString('\n')
	if err != nil || got != want+"\n" {
		w.t.Errorf("the bridge read\n got %q, error %v\nwant %q", got, err, want+"\n")
	}
}

func (w *wire) say(lines ...string) {
	if _, err := w.conn.Write([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		w.t.Errorf("the client left before %q: %v", lines, err)
	}
}

// untilGone reads until the client closes the connection.
func (w *wire) untilGone() { _, _ = w.lines.WriteTo(discard{}) }

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func TestConnectNobodyListens(t *testing.T) {
	path := socketPath(t)
	if _, err := Connect(context.Background(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Connect: got %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := Connect(context.Background(), strings.Repeat("x", 200)); !errors.Is(err, ErrSocketPath) {
		t.Errorf("Connect: got %v, want %v", err, ErrSocketPath)
	}
}

func TestConnectNotReady(t *testing.T) {
	for name, test := range map[string]struct {
		play func(*wire)
		want error
	}{
		"close":        {func(*wire) {}, ErrClosed},
		"half a ready": {func(w *wire) { _, _ = w.conn.Write([]byte(`{"ev":"rea`)) }, ErrClosed},
		"garbage":      {func(w *wire) { w.say("R"); w.untilGone() }, errBadLine},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := Connect(context.Background(), fakeBridge(t, test.play))
			if client != nil || !errors.Is(err, test.want) {
				t.Errorf("Connect: got %v, want %v", err, test.want)
			}
		})
	}
}

func TestConnectCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("changed my mind")
	path := fakeBridge(t, func(w *wire) { cancel(reason); w.untilGone() })
	if _, err := Connect(ctx, path); !errors.Is(err, reason) {
		t.Errorf("Connect: got %v, want %v", err, reason)
	}
}

// TestReadyOnce checks that a host can reconnect to a bridge that says ready only on its first
// connection.
func TestReadyOnce(t *testing.T) {
	answer := func(w *wire) {
		w.wantLine(queryLine)
		w.say(`{"ev":"done","sessionId":"s1"}`)
		w.untilGone()
	}
	path := fakeBridge(t, func(w *wire) { w.say(`{"ev":"ready"}`); w.untilGone() }, answer)
	client := connect(t, path)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if _, err := query(connectWithin(t, path, time.Millisecond), "hello"); err != nil {
		t.Errorf("without waiting for ready: %v", err)
	}
}

// TestQueryFaults checks that bridges that violate the protocol make a query neither hang nor
// succeed.
func TestQueryFaults(t *testing.T) {
	for name, test := range map[string]struct {
		play func(*wire)
		want []error
	}{
		"vanishes":        {func(*wire) {}, []error{ErrClosed}},
		"half a line":     {func(w *wire) { _, _ = w.conn.Write([]byte(`{"ev":"done","sessionId":"s1"}`)) }, []error{ErrClosed}},
		"garbage":         {func(w *wire) { w.say("garbage"); w.untilGone() }, []error{ErrClosed, errBadLine}},
		"cmd and ev":      {func(w *wire) { w.say(`{"cmd":"x","ev":"done","sessionId":"s1"}`); w.untilGone() }, []error{ErrClosed, errBadLine}},
		"case":            {func(w *wire) { w.say(`{"EV":"done","sessionId":"s1"}`); w.untilGone() }, []error{ErrClosed, errBadLine}},
		"error, no done":  {func(w *wire) { w.say(`{"ev":"error","error":"no"}`); w.untilGone() }, []error{Error{Text: "no"}, ErrNoDone}},
		"error, then end": {func(w *wire) { w.say(`{"ev":"error","error":"no"}`) }, []error{Error{Text: "no"}, ErrClosed}},
		"60 MiB": {func(w *wire) {
			megabyte := bytes.Repeat([]byte("x"), 1<<20)
			for range 60 {
				if _, err := w.conn.Write(megabyte); err != nil {
					return
				}
			}
			w.t.Error("the client took 60 MiB without a line feed")
		}, []error{ErrClosed, errLineTooLong}},
	} {
		t.Run(name, func(t *testing.T) {
			path := fakeBridge(t, func(w *wire) {
				w.say(`{"ev":"ready"}`)
				w.wantLine(queryLine)
				w.say(`{"ev":"message","data":1}`)
				test.play(w)
			}, func(w *wire) {
				w.say(`{"ev":"ready"}`)
				w.wantLine(queryLine)
				w.say(`{"ev":"done","sessionId":"s1"}`)
				w.untilGone()
			})
			client := connect(t, path)
			client.settle = 30 * time.Millisecond
			messages, err := query(client, "hello")
			for _, want := range test.want {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
			if !slices.Equal(messages, []string{"1"}) {
				t.Errorf("got %q, want the message before the fault", messages)
			}
			if _, err := query(client, "hello"); !errors.Is(err, ErrClosed) {
				t.Errorf("the next query: got %v, want %v", err, ErrClosed)
			}
			if messages, err := query(connect(t, path), "hello"); err != nil || len(messages) > 0 {
				t.Errorf("on a new connection: got %q, error %v", messages, err)
			}
		})
	}
}

// TestAssumeReady checks that a host may query a bridge that never says ready.
func TestAssumeReady(t *testing.T) {
	path := fakeBridge(t, func(w *wire) {
		w.wantLine(queryLine)
		w.say(`{"ev":"done","sessionId":"s1"}`)
		w.untilGone()
	})
	client := connectWithin(t, path, time.Millisecond)
	for _, err := range client.Query(context.Background(), Query{Prompt: "hello", SessionID: "s1"}) {
		t.Errorf("error %v, want the turn to end without a message", err)
	}
}

// TestDoneOfAnotherSession checks that a done with any id ends the turn and that the client reports
// the id.
func TestDoneOfAnotherSession(t *testing.T) {
	path := fakeBridge(t, func(w *wire) {
		w.say(`{"ev":"ready"}`)
		w.wantLine(queryLine)
		w.say(`{"ev":"done","sessionId":"given-by-the-bridge"}`)
		w.untilGone()
	})
	client := connect(t, path)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, err := range client.Query(ctx, Query{Prompt: "hello", SessionID: "s1"}) {
		t.Fatalf("error %v, want the turn to end without a message", err)
	}
	if got := client.SessionID(); got != "given-by-the-bridge" {
		t.Errorf("the session is %q, want the id of the done", got)
	}
}

// TestLateDone checks that a done that comes some time after its error ends the failed query, not
// the next one of the same session.
func TestLateDone(t *testing.T) {
	seen := make(chan struct{})
	path := fakeBridge(t, func(w *wire) {
		w.say(`{"ev":"ready"}`)
		w.wantLine(queryLine)
		w.say(`{"ev":"error","error":"no"}`, `{"ev":"message","data":"after the error"}`)
		<-seen
		w.say(`{"ev":"done","sessionId":"s1"}`)
		w.wantLine(queryLine)
		w.say(`{"ev":"message","data":"new"}`, `{"ev":"done","sessionId":"s1"}`)
		w.untilGone()
	})
	client := connect(t, path)
	var last error
	for _, err := range client.Query(context.Background(), Query{Prompt: "hello", SessionID: "s1"}) {
		if last = err; err == nil {
			close(seen)
		}
	}
	if !errors.Is(last, Error{Text: "no"}) {
		t.Errorf("got %v, want the bridge's error", last)
	}
	messages, err := query(client, "hello")
	if err != nil || !slices.Equal(messages, []string{`"new"`}) {
		t.Errorf("the next query: got %q, error %v", messages, err)
	}
}

func TestClientAgainstServer(t *testing.T) {
	client := connect(t, serve(t, turns(echo)))
	for _, prompt := range []string{"hello", "", "é€😀\u2028\n", strings.Repeat("x", 3<<20)} {
		messages, err := query(client, prompt)
		want, marshalErr := json.Marshal(prompt)
		if err != nil || marshalErr != nil || !slices.Equal(messages, []string{string(want)}) {
			t.Errorf("query %.20q: got %.40q, error %v", prompt, messages, err)
		}
	}
}

func TestQueryNotSent(t *testing.T) {
	client := connect(t, serve(t, turns(echo)))
	if _, err := query(client, "\xff"); err == nil || errors.Is(err, ErrClosed) {
		t.Errorf("a prompt that is not UTF-8: got %v", err)
	}
	if _, err := query(client, strings.Repeat("x", MaxLine)); !errors.Is(err, errLineTooLong) {
		t.Errorf("a prompt too long: got %v, want %v", err, errLineTooLong)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range client.Query(ctx, Query{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: got %v", err)
		}
	}
	if _, err := query(client, "hello"); err != nil {
		t.Errorf("the next query: %v", err)
	}
}

// TestQueryAbandoned checks that leaving the range or ending the context interrupts the turn and
// leaves the connection usable.
func TestQueryAbandoned(t *testing.T) {
	causes := make(chan error, 1)
	client := connect(t, serve(t, ended(causes)))
	for range 3 {
		for _, err := range client.Query(context.Background(), Query{SessionID: "s1"}) {
			if err != nil {
				t.Error(err)
			}
			if _, err := query(client, "another"); !errors.Is(err, errBusy) {
				t.Errorf("a query within a query: got %v, want %v", err, errBusy)
			}
			break
		}
		if err := receive(t, causes, "the end of the turn"); !errors.Is(err, ErrInterrupted) {
			t.Errorf("left: the turn ended because of %v, want %v", err, ErrInterrupted)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var last error
		for _, err := range client.Query(ctx, Query{SessionID: "s1"}) {
			last = err
			cancel()
		}
		cancel()
		if !errors.Is(last, context.Canceled) || errors.Is(last, ErrNoDone) {
			t.Errorf("cancelled: got %v, want %v", last, context.Canceled)
		}
		if err := receive(t, causes, "the end of the turn"); !errors.Is(err, ErrInterrupted) {
			t.Errorf("cancelled: the turn ended because of %v, want %v", err, ErrInterrupted)
		}
	}
}

// TestQueryAbandonedDeafBridge checks that a bridge that ignores interrupts loses its connection.
func TestQueryAbandonedDeafBridge(t *testing.T) {
	path := fakeBridge(t, func(w *wire) {
		w.say(`{"ev":"ready"}`)
		w.wantLine(queryLine)
		w.say(`{"ev":"message","data":1}`)
		w.wantLine(`{"cmd":"interrupt"}`)
		w.untilGone()
	})
	client := connect(t, path)
	client.settle = 30 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last error
	for _, err := range client.Query(ctx, Query{Prompt: "hello", SessionID: "s1"}) {
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) || !errors.Is(last, ErrNoDone) {
		t.Errorf("got %v, want %v and %v", last, context.Canceled, ErrNoDone)
	}
	if _, err := query(client, "hello"); !errors.Is(err, ErrClosed) {
		t.Errorf("the next query: got %v, want %v", err, ErrClosed)
	}
}

// TestBridgeReadsNothing checks that a bridge that does not read cannot block a query beyond its
// context.
func TestBridgeReadsNothing(t *testing.T) {
	for _, name := range []string{"write timeout", "context"} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			path := fakeBridge(t, func(w *wire) { w.say(`{"ev":"ready"}`); <-over })
			defer close(over)
			client := connect(t, path)
			ctx := context.Background()
			want := ErrClosed
			if name == "write timeout" {
				client.out.hurry(30 * time.Millisecond)
			} else {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 30*time.Millisecond)
				defer cancel()
				want = context.DeadlineExceeded
			}
			for _, err := range client.Query(ctx, Query{Prompt: strings.Repeat("x", 8<<20)}) {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
		})
	}
}

// TestCloseDuringQuery checks that Close ends a query from within its loop and from elsewhere, even
// while messages arrive.
func TestCloseDuringQuery(t *testing.T) {
	flood := turns(func(_ context.Context, _ command, send Send) error {
		for {
			if err := send(json.RawMessage(`1`)); err != nil {
				return err
			}
		}
	})
	path := serve(t, flood)
	for _, within := range []bool{true, false} {
		client := connect(t, path)
		closed := make(chan error, 1)
		var last error
		started := false
		for _, err := range client.Query(context.Background(), Query{SessionID: "s1"}) {
			last = err
			if started {
				continue
			}
			started = true
			if within {
				closed <- client.Close()
			} else {
				go func() { closed <- client.Close() }()
			}
		}
		if !errors.Is(last, ErrClosed) {
			t.Errorf("the query: got %v, want %v", last, ErrClosed)
		}
		if err := receive(t, closed, "Close"); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := client.Shutdown(context.Background()); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed client: got %v, want %v", err, ErrClosed)
		}
	}
}

func TestShutdownUnanswered(t *testing.T) {
	path := fakeBridge(t, func(w *wire) { w.say(`{"ev":"ready"}`); w.wantLine(`{"cmd":"shutdown"}`); w.untilGone() })
	client := connect(t, path)
	client.stopTimeout = 30 * time.Millisecond
	if err := client.Shutdown(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: got %v, want %v", err, context.DeadlineExceeded)
	}
}
