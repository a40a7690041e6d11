package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/ash"
)

// scripted is a handler that sends the given messages and returns the given error.
type scripted struct {
	messages []string
	err      error
	// hang waits for the end of the turn's context.
	hang    bool
	queries []ash.Query
	// unknown is the answer to resume.
	unknown error
}

func (s *scripted) Query(ctx context.Context, query ash.Query, send ash.Send) error {
	s.queries = append(s.queries, query)
	for _, message := range s.messages {
		if err := send(json.RawMessage(message)); err != nil {
			return err
		}
	}
	if s.hang {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return s.err
}

func (s *scripted) Resume(context.Context, string, ash.Send) error { return s.unknown }

// serve runs a bridge until the test ends and returns the path of its socket.
func serve(t *testing.T, handler ash.Handler) string {
	t.Helper()
	// Socket paths are short, and test folders are not.
	dir, err := os.MkdirTemp("", "ash")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	server, err := ash.Listen(filepath.Join(dir, "s"), handler)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- server.Serve(context.Background()) }()
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), <-ended); err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	return server.SocketPath()
}

func TestAshUnavailable(t *testing.T) {
	nobody := filepath.Join(t.TempDir(), "s")
	tests := []struct {
		name    string
		options Options
		want    string
	}{
		{"no options", Options{}, "it is empty"},
		{"no listener", Options{Socket: nobody}, nobody},
		{"bridge command missing", Options{Command: []string{"no-such-bridge"}}, "no-such-bridge"},
		{"bridge command fails", Options{Command: helperCommand(t, "fail")}, "exit status 3: it broke"},
		{"working folder missing", Options{Command: helperCommand(t, "bridge"), Dir: "/no/such/folder"}, "folder"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			driver := NewAsh(test.options)
			err := driver.Start(impatient(t))
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Start = %v, want ErrUnavailable and %q", err, test.want)
			}
			if _, err := driver.Turn(impatient(t), Request{}, nil); !errors.Is(err, ErrUnavailable) {
				t.Errorf("Turn = %v, want ErrUnavailable", err)
			}
			if err := driver.Stop(t.Context()); err != nil {
				t.Errorf("Stop = %v, want no error", err)
			}
		})
	}
}

func TestAshTurn(t *testing.T) {
	// The odd spacing and the big number would not survive decoding.
	messages := []string{
		`{"type": "assistant",  "text":"hi", "n":12345678901234567890}`,
		`{"type":"result","subtype":"success","result":"hi there","session_id":"sdk-1","usage":{"output_tokens":2}}`,
	}
	handler := &scripted{messages: messages}
	driver := started(t, NewAsh(Options{Socket: serve(t, handler), Session: "conv-1"}))
	if got := driver.SessionID(); got != "conv-1" {
		t.Errorf("session %q before the turn, want conv-1", got)
	}
	for range 2 {
		var raw []string
		result, err := driver.Turn(impatient(t), Request{Prompt: "hello\x00"}, func(e Event) { raw = append(raw, string(e.Raw)) })
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(raw, messages) {
			t.Errorf("events %q, want %q", raw, messages)
		}
		if result.Text != "hi there" || result.SessionID != "sdk-1" || driver.SessionID() != "sdk-1" || result.Usage.OutputTokens != 2 {
			t.Errorf("result %+v, want the answer, sdk-1 and 2 tokens", result)
		}
	}
	for _, query := range handler.queries {
		if query.Prompt != "hello" || query.SessionID != "conv-1" {
			t.Errorf("query %+v, want the prompt and conv-1", query)
		}
	}
}

func TestAshFailures(t *testing.T) {
	t.Run("reported", func(t *testing.T) {
		driver := started(t, NewAsh(Options{Socket: serve(t, &scripted{messages: []string{`{"type":"assistant","text":"oh"}`}, err: errors.New("no credit")})}))
		result, err := driver.Turn(impatient(t), Request{Prompt: "x"}, nil)
		var reported *ReportedError
		if !errors.As(err, &reported) || !strings.Contains(err.Error(), "no credit") || result.Tail != "oh\n" {
			t.Errorf("error %v with tail %q, want a ReportedError and the output", err, result.Tail)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		driver := started(t, NewAsh(Options{Socket: serve(t, &scripted{messages: []string{`{"type":"assistant","text":"x"}`}, hang: true})}))
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(impatient(t))
		defer cancel(nil)
		if _, err := driver.Turn(ctx, Request{}, func(Event) { cancel(enough) }); !errors.Is(err, enough) {
			t.Errorf("error %v, want the cause", err)
		}
	})
}

// TestAshClosedBetweenTurns checks that a turn on a connection that was closed is not begun, and that the
// driver can be started again.
func TestAshClosedBetweenTurns(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	// The first connection is closed between turns, the second answers.
	served, connected, closed := make(chan error, 1), make(chan struct{}), make(chan struct{})
	go func() { served <- serveTwice(listener, connected, closed) }()
	driver := started(t, NewAsh(Options{Socket: listener.Addr().String(), Session: "s"}))
	close(connected)
	<-closed
	if _, err := driver.Turn(impatient(t), Request{Prompt: "x"}, nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("error %v, want ErrUnavailable", err)
	}
	if err := errors.Join(driver.Stop(t.Context()), driver.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	result, err := driver.Turn(impatient(t), Request{Prompt: "x"}, nil)
	if err != nil || result.Text != "again\n" {
		t.Errorf("result %+v, error %v, want the answer of the second connection", result, err)
	}
	if err := errors.Join(driver.Stop(t.Context()), <-served); err != nil {
		t.Error(err)
	}
}

func serveTwice(listener net.Listener, connected <-chan struct{}, closed chan<- struct{}) error {
	for i := range 2 {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(conn, `{"ev":"ready"}`); err != nil {
			return err
		}
		<-connected
		if i == 1 {
			if _, err := conn.Read(make([]byte, 4096)); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(conn, `{"ev":"message","data":{"type":"assistant","text":"again"}}`+"\n"+`{"ev":"done","sessionId":"s"}`); err != nil {
				return err
			}
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				return errors.New("the driver sent more than the query")
			}
		}
		if err := conn.Close(); err != nil {
			return err
		}
		if i == 0 {
			close(closed)
		}
	}
	return nil
}

// TestAshLosesBridge checks that a turn fails if the bridge ends during a query, and that the query
// is sent once.
func TestAshLosesBridge(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("listens on %v", again), func(t *testing.T) {
			listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			queries := make(chan int, 1)
			go func() { queries <- dieOfQueries(listener, again) }()
			driver := started(t, NewAsh(Options{Socket: listener.Addr().String(), Session: "s"}))
			if _, err := driver.Turn(impatient(t), Request{Prompt: "x"}, nil); !errors.Is(err, ash.ErrClosed) || errors.Is(err, ErrUnavailable) {
				t.Errorf("error %v, want a lost connection that is not ErrUnavailable", err)
			}
			if err := errors.Join(driver.Stop(t.Context()), listener.Close()); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			if got := <-queries; got != 1 {
				t.Errorf("the bridge was asked %d times, want once", got)
			}
		})
	}
}

// dieOfQueries closes every connection after its first data, and stops listening unless again is
// set. It returns the number of queries.
func dieOfQueries(listener net.Listener, again bool) (queries int) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return queries
		}
		_, _ = fmt.Fprintln(conn, `{"ev":"ready"}`) // reading reports the error
		if n, _ := conn.Read(make([]byte, 4096)); n > 0 {
			queries++
		}
		if !again {
			_ = listener.Close()
		}
		_ = conn.Close()
	}
}

// TestAshAdoptsSession checks that the next turn uses the session id that the bridge chose.
func TestAshAdoptsSession(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	served := make(chan error, 1)
	go func() { served <- nameSession(listener) }()
	driver := started(t, NewAsh(Options{Socket: listener.Addr().String(), Session: "mine"}))
	for range 2 {
		result, err := driver.Turn(impatient(t), Request{Prompt: "x"}, nil)
		if err != nil || result.SessionID != "theirs" || driver.SessionID() != "theirs" {
			t.Errorf("result %+v, error %v, want the bridge's session", result, err)
		}
	}
	if err := errors.Join(driver.Stop(t.Context()), <-served); err != nil {
		t.Error(err)
	}
}

// nameSession answers two queries with the session id theirs.
func nameSession(listener net.Listener) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(conn, `{"ev":"ready"}`); err != nil {
		return err
	}
	buffer := make([]byte, 4096)
	for _, want := range []string{"mine", "theirs"} {
		n, err := conn.Read(buffer)
		if err != nil {
			return err
		}
		if !strings.Contains(string(buffer[:n]), `"sessionId":"`+want+`"`) {
			err = fmt.Errorf("the bridge read %s, want the session %s", buffer[:n], want)
		}
		if _, sayErr := fmt.Fprintln(conn, `{"ev":"done","sessionId":"theirs"}`); err != nil || sayErr != nil {
			return errors.Join(err, sayErr)
		}
	}
	return conn.Close()
}

// TestAshSpawn runs real bridge processes. The second one dies in each turn and is restarted.
func TestAshSpawn(t *testing.T) {
	driver := started(t, NewAsh(Options{Command: helperCommand(t, "bridge")}))
	for _, prompt := range []string{"one", "two"} {
		if result, err := driver.Turn(impatient(t), Request{Prompt: prompt}, nil); err != nil || result.Text != prompt {
			t.Errorf("answer %q, error %v, want %q", result.Text, err, prompt)
		}
	}
	dir := t.TempDir()
	script := "#!/bin/sh\nexec '" + strings.Join(helperCommand(t, "bridge"), "' '") + "'\n"
	if err := os.WriteFile(filepath.Join(dir, "bridge.sh"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	beside := started(t, NewAsh(Options{Command: []string{"./bridge.sh"}, Dir: dir}))
	if result, err := beside.Turn(impatient(t), Request{Prompt: "three"}, nil); err != nil || result.Text != "three" {
		t.Errorf("answer %q of a bridge in its own folder, error %v, want three", result.Text, err)
	}
	killing := []string{"sh", "-c", `echo out of memory >&2; exec "$@"`, "sh"}
	killed := started(t, NewAsh(Options{Command: append(killing, helperCommand(t, "bridge", "sh", "-c", "kill -KILL $PPID")...)}))
	result, err := killed.Turn(impatient(t), Request{Prompt: "x"}, nil)
	if !errors.Is(err, ash.ErrBridgeExited) || !strings.HasSuffix(err.Error(), ": out of memory") || result.Tail != "out of memory\n" {
		t.Errorf("error %v, tail %q, want an error that says that the bridge ended, and its last words", err, result.Tail)
	}
	dying := started(t, NewAsh(Options{Command: helperCommand(t, "bridge", helperCommand(t, "fail")...)}))
	_, err = dying.Turn(impatient(t), Request{Prompt: "x"}, nil)
	var reported *ReportedError
	if !errors.As(err, &reported) || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error %v, want the agent's error as the bridge reported it", err)
	}
}
