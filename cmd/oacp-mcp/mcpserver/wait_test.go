package mcpserver_test

import "testing"

type nextMessage struct {
	Pending bool
	Open    []struct{ Subject string }
	Message struct{ ID, Subject, Body string }
}

// TestNextMessage gets what is pending once, one of them again, and what comes while it waits. A server that starts again
// has shown nothing yet.
func TestNextMessage(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude, codex := r.client(t, "claude"), r.client(t, "codex")
	var got nextMessage
	codex.call(t, "next_message", arguments{"wait_seconds": 0}, &got)
	if got.Pending {
		t.Errorf("got %+v, want nothing", got)
	}
	var first, urgent sentMessage
	claude.call(t, "send_message", arguments{"to": "codex", "type": "notification", "subject": "First", "body": "B"}, &first)
	claude.call(t, "send_message", arguments{"to": "codex", "type": "question", "subject": "Urgent", "body": "Now?", "priority": "P0"}, &urgent)
	for _, step := range []struct {
		arguments arguments
		want      string
		open      int
	}{
		{nil, "Urgent", 0}, {nil, "First", 0}, {arguments{"wait_seconds": 0}, "", 2},
		{arguments{"again": true}, "Urgent", 0}, {arguments{"wait_seconds": 0}, "", 2},
	} {
		var got nextMessage
		codex.call(t, "next_message", step.arguments, &got)
		if got.Pending != (step.want != "") || got.Message.Subject != step.want || len(got.Open) != step.open {
			t.Errorf("with %v: got %+v, want %q and %d open messages", step.arguments, got, step.want, step.open)
		}
	}
	wantText(t, "the status", claude.call(t, "show_thread", arguments{"message_id": urgent.MessageID}, nil), `"noticed"`)
	for _, id := range []string{first.MessageID, urgent.MessageID} {
		codex.call(t, "acknowledge_message", arguments{"message_id": id}, nil)
	}
	writeInboxFile(t, r, "codex", "bad.yaml", "no message")
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		claude.try(t, "send_message", arguments{"to": "codex", "type": "question", "subject": "Later", "body": "B"})
	}()
	text := codex.call(t, "next_message", arguments{"wait_seconds": 480}, &got)
	<-sent
	wantText(t, "the message", text, "bad.yaml")
	if got.Message.Subject != "Later" {
		t.Errorf("got %+v, want the message that arrived meanwhile", got)
	}
	wantText(t, "waiting for hours", codex.refuse(t, "next_message", arguments{"wait_seconds": 481}), "/properties/wait_seconds: maximum")
}

// TestReceiveMessagesWaits waits for a message of the bridge log.
func TestReceiveMessagesWaits(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude, codex := r.client(t, "claude"), r.client(t, "codex")
	wantText(t, "the answer of an empty log", codex.call(t, "receive_messages", nil, nil), `"messages":[]`)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		claude.try(t, "send_to_agent", arguments{"to": "codex", "message_type": "chat", "content": "hello"})
	}()
	wantText(t, "the answer", codex.call(t, "receive_messages", arguments{"wait_seconds": 480}, nil), `"from":"claude"`, "hello")
	<-sent
}
