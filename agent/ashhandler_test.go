package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/ash"
	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// hostOf serves the bridge and returns a client of it.
func hostOf(t *testing.T, bridge *AshHandler) *ash.Client {
	t.Helper()
	client, err := ash.Connect(t.Context(), serve(t, bridge))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), bridge.Stop(context.Background())); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return client
}

func query(t *testing.T, client *ash.Client, q ash.Query) (messages []string, err error) {
	t.Helper()
	for raw, err := range client.Query(impatient(t), q) {
		if err != nil {
			return messages, err
		}
		messages = append(messages, string(raw))
	}
	return messages, nil
}

// handlerOf returns a handler whose sessions have drivers of newDriver.
func handlerOf(newDriver func(session string) Driver) *AshHandler {
	return NewAshHandler(Kind{New: func(o Options) Driver { return newDriver(o.Session) }}, Options{})
}

func TestAshHandlerOfPlainOutput(t *testing.T) {
	var made []string
	client := hostOf(t, handlerOf(func(session string) Driver {
		made = append(made, session)
		return NewExec(Options{Command: helperCommand(t, "cat")})
	}))
	for range 2 {
		messages, err := query(t, client, ash.Query{SessionID: "s1", Blocks: json.RawMessage(`[{"type":"text","text":"one"},{"type":"text","text":"two"}]`)})
		if err != nil {
			t.Fatal(err)
		}
		fold := &sdkFold{said: newOutput(nil)}
		for _, raw := range messages {
			fold.add(readClaude([]byte(raw)))
		}
		result, err := fold.finish()
		if err != nil || result.Text != "one\ntwo" || result.SessionID != "s1" || len(messages) < 2 {
			t.Errorf("messages %q make %+v, %v, want the prompt, s1, and an assistant message before the result", messages, result, err)
		}
	}
	if strings.Join(made, " ") != "s1" {
		t.Errorf("drivers were made for %q, want one for s1", made)
	}
}

// TestAshHandlerSendsLines checks that output in arbitrary pieces is sent line by line.
func TestAshHandlerSendsLines(t *testing.T) {
	var sent []string
	relay := newSDKRelay("s", NewEcho(), func(data json.RawMessage) error {
		var m claudeMessage
		err := json.Unmarshal(data, &m)
		sent = append(sent, m.text())
		return err
	})
	long := strings.Repeat("x", maxUnsent)
	for _, event := range []Event{{Text: "one, "}, {Text: "still one\ntw"}, {Text: "noise", Error: true}, {Text: "o\n"}, {Text: "\n"}, {Text: long}, {Text: "y"}, {Text: "the rest"}} {
		relay.event(event)
	}
	relay.say(len(relay.unsent))
	want := []string{"one, still one\n", "two\n", "\n", long + "y", "the rest"}
	if relay.err != nil || !slices.Equal(sent, want) {
		t.Errorf("messages are %.60q, error %v, want %.60q", sent, relay.err, want)
	}
}

func TestAshHandlerPassesRawEvents(t *testing.T) {
	const message = `{"type":"result",  "result":"hi","n":1e400}`
	var sent []string
	relay := newSDKRelay("s", NewClaude(Options{}), func(data json.RawMessage) error {
		sent = append(sent, string(data))
		return nil
	})
	relay.event(Event{Raw: []byte(message)})
	if err := relay.finish(Result{Text: "hi"}); err != nil || len(sent) != 1 || sent[0] != message {
		t.Errorf("messages %q, error %v, want only %q", sent, err, message)
	}
}

// TestAshHandlerResume checks that resume continues a session that the agent knows, by its own id, and
// refuses one that nobody knows instead of beginning another.
func TestAshHandlerResume(t *testing.T) {
	var made []string
	gone := false
	handler := handlerOf(func(session string) Driver {
		made = append(made, session)
		return &forgetful{foreign{session: session, stopped: new(int)}, &gone}
	})
	client := hostOf(t, handler)
	resume := func(session string) error { return handler.Resume(impatient(t), session, nil) }
	refused := func(name string, want ...string) {
		t.Helper()
		made = nil
		if err := resume(name); err == nil || !strings.Contains(err.Error(), "does not know the session") {
			t.Errorf("resume of %s: error %v, want one that says that the session is unknown", name, err)
		}
		if !slices.Equal(made, want) {
			t.Errorf("resume of %s made drivers for %q, want %q", name, made, want)
		}
	}
	refused("mine", "mine") // this bridge was started after the session began
	if err := resume("thread-7"); err != nil {
		t.Errorf("resume of the agent's own session: %v", err)
	}
	if _, err := query(t, client, ash.Query{Prompt: "x", SessionID: "mine"}); err != nil {
		t.Errorf("a query does not begin a session: %v", err)
	}
	if err := resume("mine"); err != nil {
		t.Errorf("resume of a session with a query: %v", err)
	}
	// The agent loses the session while no driver runs.
	if _, err := query(t, client, ash.Query{Prompt: "fail", SessionID: "mine"}); err == nil {
		t.Error("the turn did not fail")
	}
	gone = true
	refused("mine", "thread-7")
	if _, err := query(t, client, ash.Query{Prompt: "x", SessionID: "mine"}); err != nil {
		t.Errorf("a query does not begin a session after the refusal: %v", err)
	}
}

// forgetful is a foreign that has no sessions but thread-7, and not even that if it is gone.
type forgetful struct {
	foreign
	gone *bool
}

func (f *forgetful) Start(context.Context) error {
	if f.session != "" && (f.session != "thread-7" || *f.gone) {
		return fmt.Errorf("%w: %s", ErrUnknownSession, f.session)
	}
	return nil
}

// TestAshHandlerRestart runs the real programs behind a bridge, and then behind another one that knows
// nothing of the first. A session continues by the program's own id alone.
func TestAshHandlerRestart(t *testing.T) {
	t.Parallel()
	withPrograms(t, func(t *testing.T, p realProgram) {
		if p.has("forgets") {
			t.Skip("the program knows no session that another process began")
		}
		answers := modelstub.Answers(t, modelstub.Reply{Text: "one"}, modelstub.Reply{Text: "two"})
		driver, server := p.create(t, answers, nil)
		newDriver := func(session string) Driver { return p.resume(driver, session) }
		old := handlerOf(newDriver)
		messages, err := query(t, hostOf(t, old), ash.Query{Prompt: "the first prompt", SessionID: "mine"})
		if err != nil {
			t.Fatal(err)
		}
		fold := &sdkFold{said: newOutput(nil)}
		for _, raw := range messages {
			fold.add(readClaude([]byte(raw)))
		}
		if err := old.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		after := handlerOf(newDriver)
		host := hostOf(t, after)
		if err := after.Resume(impatient(t), "mine", nil); err == nil {
			t.Error("the new bridge resumes a name that only the old one knew")
		}
		if err := after.Resume(impatient(t), fold.session, nil); err != nil {
			t.Fatalf("resume of %s: %v", fold.session, err)
		}
		if _, err := query(t, host, ash.Query{Prompt: "the second prompt", SessionID: fold.session}); err != nil {
			t.Fatal(err)
		}
		asked := server.Requests()
		if got := asked[len(asked)-1].Prompts; len(got) != 2 || !strings.Contains(got[0], "the first prompt") {
			t.Errorf("the model was shown the prompts %q, want both turns'", got)
		}
	})
}

// foreign is a driver whose raw events are not SDK messages, and which fails if the prompt says so.
type foreign struct {
	echo
	session string
	stopped *int
}

func (f *foreign) SessionID() string          { return f.session }
func (f *foreign) Stop(context.Context) error { *f.stopped++; return nil }

func (f *foreign) Turn(_ context.Context, request Request, observe func(Event)) (Result, error) {
	if f.session == "" {
		f.session = "thread-7"
	}
	observe(Event{Raw: json.RawMessage(`{"method":"item/completed"}`), Text: "half of it"})
	observe(Event{Raw: json.RawMessage(`{"method":"thread/tokenUsage/updated"}`)})
	if request.Prompt == "fail" {
		return Result{}, errors.New("it failed")
	}
	return Result{Text: "all of it", Usage: Usage{InputTokens: 3, OutputTokens: 4}}, nil
}

// foreignBridge knows the sessions that its drivers began and records what it was asked for.
func foreignBridge(made *[]string, stopped *int) *AshHandler {
	return handlerOf(func(session string) Driver {
		*made = append(*made, session)
		if session != "thread-7" {
			session = ""
		}
		return &foreign{session: session, stopped: stopped}
	})
}

func TestAshHandlerOfForeignEvents(t *testing.T) {
	var made []string
	client := hostOf(t, foreignBridge(&made, new(int)))
	messages, err := query(t, client, ash.Query{Prompt: "x", SessionID: "s"})
	want := []string{
		`{"type":"assistant","session_id":"thread-7","message":{"role":"assistant","content":[{"type":"text","text":"half of it\n"}]}}`,
		`{"type":"result","subtype":"success","session_id":"thread-7","result":"all of it","usage":{"input_tokens":3,"output_tokens":4}}`,
	}
	if err != nil || !slices.Equal(messages, want) {
		t.Errorf("messages are\n%s\n%v, want\n%s", strings.Join(messages, "\n"), err, strings.Join(want, "\n"))
	}
}

// TestAshHandlerRemembersSessions checks that a conversation continues after a failed turn and after
// its driver was stopped to make room for others.
func TestAshHandlerRemembersSessions(t *testing.T) {
	var made []string
	stopped := 0
	client := hostOf(t, foreignBridge(&made, &stopped))
	for _, prompt := range []string{"x", "fail", "x"} {
		if _, err := query(t, client, ash.Query{Prompt: prompt, SessionID: "s"}); (err != nil) != (prompt == "fail") {
			t.Errorf("%s: error %v", prompt, err)
		}
	}
	if got := strings.Join(made, " "); got != "s thread-7" || stopped != 1 {
		t.Errorf("drivers were made for %q and %d stopped, want s, stopped, and then its own thread-7", got, stopped)
	}
	for i := range maxIdleDrivers {
		if _, err := query(t, client, ash.Query{Prompt: "x", SessionID: fmt.Sprint("other", i)}); err != nil {
			t.Error(err)
		}
	}
	if stopped != 2 {
		t.Errorf("%d drivers were stopped, want 2: the one that failed and the one that was idle longest", stopped)
	}
	if _, err := query(t, client, ash.Query{Prompt: "x", SessionID: "s"}); err != nil || made[len(made)-1] != "thread-7" {
		t.Errorf("error %v, and a driver was made for %q, want thread-7", err, made[len(made)-1])
	}
}

func TestAshHandlerErrors(t *testing.T) {
	command := helperCommand(t, "fail")
	handler := handlerOf(func(session string) Driver {
		if session == "missing" {
			return NewExec(Options{Command: []string{"no-such-agent"}})
		}
		return NewExec(Options{Command: command})
	})
	client := hostOf(t, handler)
	tests := []struct {
		name  string
		query ash.Query
		want  string
	}{
		{"agent missing", ash.Query{SessionID: "missing"}, "no-such-agent"},
		{"turn fails", ash.Query{SessionID: "s"}, "exit status 3"},
		{"turn fails again", ash.Query{SessionID: "s"}, "exit status 3"},
		{"picture", ash.Query{SessionID: "s", Blocks: json.RawMessage(`[{"type":"image"}]`)}, "image"},
		{"unknown blocks", ash.Query{SessionID: "s", Blocks: json.RawMessage(`[1]`)}, "content blocks"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var reported ash.Error
			if _, err := query(t, client, test.query); !errors.As(err, &reported) || !strings.Contains(reported.Text, test.want) {
				t.Errorf("error %v, want the bridge to report %q", err, test.want)
			}
		})
	}
	if err := handler.Resume(impatient(t), "s", nil); err != nil {
		t.Errorf("Resume = %v, want no error", err)
	}
	if err := handler.Resume(impatient(t), "missing", nil); err == nil {
		t.Error("Resume of a session whose agent is missing gave no error")
	}
}

func TestAshHandlerInterrupt(t *testing.T) {
	client := hostOf(t, handlerOf(func(string) Driver { return NewExec(Options{Command: helperCommand(t, "hang")}) }))
	ctx, cancel := context.WithCancel(impatient(t))
	defer cancel()
	var last error
	for _, err := range client.Query(ctx, ash.Query{SessionID: "s"}) {
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) || errors.Is(last, ash.ErrNoDone) {
		t.Errorf("error %v, want context.Canceled and the done of the turn", last)
	}
}

func TestEcho(t *testing.T) {
	driver := started(t, NewEcho())
	shown := ""
	result, err := driver.Turn(t.Context(), Request{Prompt: "hello\n"}, func(e Event) { shown += e.Text })
	if err != nil || result.Text != "hello\n" || shown != "hello\n" || result.Tail != "hello\n" {
		t.Errorf("result %+v, error %v, shown %q, want the prompt everywhere", result, err, shown)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := driver.Turn(ctx, Request{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func BenchmarkExecTurn(b *testing.B) {
	driver := started(b, NewExec(Options{Command: []string{"true"}}))
	for b.Loop() {
		if _, err := driver.Turn(b.Context(), Request{Prompt: "hello"}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
