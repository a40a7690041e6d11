package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/ash"
)

// hostOf serves the bridge and returns a client of it.
func hostOf(t *testing.T, bridge *Bridge) *ash.Client {
	t.Helper()
	client, err := ash.Connect(t.Context(), serve(t, bridge), nil)
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

func TestBridgeOfPlainOutput(t *testing.T) {
	var made []string
	client := hostOf(t, NewBridge(func(session string) Driver {
		made = append(made, session)
		return NewExec(helperCommand(t, "cat"), nil)
	}))
	for range 2 {
		messages, err := query(t, client, ash.Query{SessionID: "s1", Blocks: json.RawMessage(`[{"type":"text","text":"one"},{"type":"text","text":"two"}]`)})
		if err != nil {
			t.Fatal(err)
		}
		fold := newSDKFold()
		for _, raw := range messages {
			fold.add(json.RawMessage(raw))
		}
		result, err := fold.finish()
		if err != nil || result.Text != "one\ntwo" || result.SessionID != "s1" || fold.messages < 2 {
			t.Errorf("messages %q make %+v, %v, want the prompt, s1, and an assistant message before the result", messages, result, err)
		}
	}
	if strings.Join(made, " ") != "s1" {
		t.Errorf("drivers were made for %q, want one for s1", made)
	}
}

// TestBridgeSendsLines lets a command's output come in pieces that are cut
// anywhere.
func TestBridgeSendsLines(t *testing.T) {
	var sent []string
	relay := &sdkRelay{send: func(data json.RawMessage) error {
		var m sdkMessage
		err := json.Unmarshal(data, &m)
		sent = append(sent, m.assistantText())
		return err
	}}
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

func TestBridgePassesRawEvents(t *testing.T) {
	message := `{"type":"result",  "result":"hi","n":1e400}`
	inner := serve(t, &scripted{messages: []string{message}})
	client := hostOf(t, NewBridge(func(session string) Driver { return NewAsh(AshOptions{Socket: inner, Session: session}) }))
	messages, err := query(t, client, ash.Query{Prompt: "x", SessionID: "s"})
	if err != nil || len(messages) != 1 || messages[0] != message {
		t.Errorf("messages %q, error %v, want only %q", messages, err, message)
	}
}

func TestBridgeErrors(t *testing.T) {
	command := helperCommand(t, "fail")
	client := hostOf(t, NewBridge(func(session string) Driver {
		if session == "missing" {
			return NewExec([]string{"no-such-agent"}, nil)
		}
		return NewExec(command, nil)
	}))
	tests := []struct {
		name  string
		query ash.Query
		want  string
	}{
		{"agent missing", ash.Query{SessionID: "missing"}, "no-such-agent"},
		{"turn fails", ash.Query{SessionID: "s"}, "exit status 3"},
		{"turn fails again", ash.Query{SessionID: "s"}, "exit status 3"},
		{"a picture", ash.Query{SessionID: "s", Blocks: json.RawMessage(`[{"type":"image"}]`)}, "image"},
		{"blocks of other shapes", ash.Query{SessionID: "s", Blocks: json.RawMessage(`[1]`)}, "content blocks"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var reported ash.Error
			if _, err := query(t, client, test.query); !errors.As(err, &reported) || !strings.Contains(reported.Text, test.want) {
				t.Errorf("error %v, want the bridge to report %q", err, test.want)
			}
		})
	}
	if err := resume(t, client, "s"); err != nil {
		t.Errorf("Resume = %v, want no error", err)
	}
	if err := resume(t, client, "missing"); err == nil {
		t.Error("Resume of a session whose agent is missing gave no error")
	}
}

func resume(t *testing.T, client *ash.Client, session string) error {
	t.Helper()
	for _, err := range client.Resume(impatient(t), session) {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestBridgeInterrupt(t *testing.T) {
	client := hostOf(t, NewBridge(func(string) Driver { return NewExec(helperCommand(t, "hang"), nil) }))
	interrupted := make(chan error, 1)
	for _, err := range client.Query(impatient(t), ash.Query{SessionID: "s"}) {
		if err != nil {
			t.Fatalf("error %v, want the turn to end without one", err)
		}
		select {
		case interrupted <- client.Interrupt(t.Context()):
		default: // only once
		}
	}
	if err := <-interrupted; err != nil {
		t.Errorf("Interrupt = %v, want no error", err)
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
	driver := started(b, NewExec([]string{"true"}, nil))
	for b.Loop() {
		if _, err := driver.Turn(b.Context(), Request{Prompt: "hello"}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
