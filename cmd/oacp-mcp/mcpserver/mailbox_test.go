package mcpserver_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

type sentMessage struct {
	MessageID      string   `json:"message_id"`
	To             []string `json:"to"`
	Type           string   `json:"type"`
	Priority       string   `json:"priority"`
	Subject        string   `json:"subject"`
	ConversationID string   `json:"conversation_id"`
	ParentID       string   `json:"parent_message_id"`
	Warnings       []string `json:"warnings"`
	AlreadySent    bool     `json:"already_sent"`
	Acknowledged   string   `json:"acknowledged"`
}

type inbox struct {
	Agent    string `json:"agent"`
	Total    int    `json:"total"`
	Messages []struct {
		MessageID     string `json:"message_id"`
		Priority      string `json:"priority"`
		Subject       string `json:"subject"`
		Expired       bool   `json:"expired"`
		ExpectsAnswer bool   `json:"expects_answer"`
	} `json:"messages"`
	Invalid    int    `json:"invalid"`
	Left       int    `json:"left"`
	Next       string `json:"next"`
	Unreadable []struct {
		File      string `json:"file"`
		Error     string `json:"error"`
		MessageID string `json:"message_id"`
		From      string
	} `json:"unreadable"`
}

type fullMessage struct {
	Message struct {
		ID      string
		Subject string
		Body    any
	} `json:"message"`
	Waits  bool `json:"waits_for_you"`
	Places []struct {
		Agent, Box, Path string
	} `json:"places"`
	DeadLetter *struct{ Agent, Reason string } `json:"dead_letter"`
}

// TestMailboxConversation hands over a task and completes it, from list to acknowledgement.
func TestMailboxConversation(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude, codex := r.client(t, "claude"), r.client(t, "codex")
	var asked sentMessage
	claude.call(t, "send_message", arguments{
		"to": "codex", "type": "review_request", "subject": "Look at #42", "body": "Please,\nsoon.", "priority": "P1", "related_pr": 42,
	}, &asked)
	copies, err := r.workspace.Find(t.Context(), asked.MessageID)
	if err != nil || len(copies) != 2 || copies[0].Message.From != "claude" {
		t.Errorf("copies of what was sent are %+v, %v, want one in the outbox of claude and one in the inbox of codex", copies, err)
	}

	var waiting inbox
	codex.call(t, "list_inbox", nil, &waiting)
	if waiting.Total != 1 || waiting.Messages[0].MessageID != asked.MessageID || waiting.Messages[0].Subject != "Look at #42" || !waiting.Messages[0].ExpectsAnswer {
		t.Errorf("listed %+v, want the request", waiting)
	}

	var read fullMessage
	text := codex.call(t, "read_message", arguments{"message_id": lastPart(asked.MessageID)}, &read)
	wantText(t, "the message", text, `"to":"codex"`, `"related_pr":"42"`, `{"agent":"codex","box":"inbox"}`, `"body":"Please,\nsoon."`)
	if read.Message.ID != asked.MessageID || read.Message.Body != "Please,\nsoon." || !read.Waits || len(read.Places) != 2 {
		t.Errorf("read %+v, want the request, waiting, in two places", read)
	}

	var answer sentMessage
	codex.call(t, "reply_message", arguments{"message_id": asked.MessageID, "body": "Two remarks."}, &answer)
	if answer.Type != "review_feedback" || answer.Subject != "Re: Look at #42" || answer.ParentID != asked.MessageID || answer.ConversationID == "" ||
		answer.Priority != "P1" || fmt.Sprint(answer.To) != "[claude]" || answer.Acknowledged != "" {
		t.Errorf("answered %+v, want a threaded review_feedback", answer)
	}

	var done struct{ Already bool }
	text = codex.call(t, "list_inbox", nil, &waiting)
	wantText(t, "the list after the answer", text, `"total":1`, `"answered":true`)
	codex.call(t, "acknowledge_message", arguments{"message_id": asked.MessageID}, &done)
	if done.Already {
		t.Error("the first acknowledgement says that it is the second")
	}
	codex.call(t, "acknowledge_message", arguments{"message_id": asked.MessageID}, &done)
	if !done.Already {
		t.Error("the second acknowledgement does not say that it is the second")
	}

	var conversation struct {
		ID       string `json:"conversation_id"`
		Messages []struct {
			MessageID string `json:"message_id"`
			Depth     int
			Box       string
			Stage     string
		}
		Unreadable string
	}
	claude.call(t, "reply_message", arguments{"message_id": answer.MessageID, "body": "Done.", "acknowledge": true}, nil)
	text = claude.call(t, "show_thread", arguments{"message_id": asked.MessageID}, &conversation)
	wantText(t, "the thread", text, `"excerpt":"Two remarks."`)
	if len(conversation.Messages) != 3 || conversation.ID != answer.ConversationID || conversation.Messages[2].Depth != 2 ||
		conversation.Messages[0].Stage != "answered" || conversation.Messages[2].Stage != "waiting" {
		t.Errorf("the thread is %+v, want three messages, each an answer to the one before", conversation)
	}
	var owed struct {
		Mine, Theirs []struct {
			ID       string
			From, To string
			Type     string
			Stage    string
		}
	}
	codex.call(t, "list_owed", nil, &owed)
	if len(owed.Mine) != 1 || len(owed.Theirs) != 0 || owed.Mine[0].Type != "review_addressed" || owed.Mine[0].Stage != "waiting" {
		t.Errorf("codex owes %+v, want the answer to what was addressed", owed)
	}
	claude.call(t, "list_owed", nil, &owed)
	if len(owed.Mine) != 0 || len(owed.Theirs) != 1 {
		t.Errorf("claude owes %+v, want nothing, and one answer of codex", owed)
	}
	if text := claude.call(t, "list_inbox", nil, nil); text != `{"total":0,"messages":[]}` {
		t.Errorf("claude's inbox: %q, want it empty: the answer was acknowledged", text)
	}

	// A folder that cannot be read hides no other.
	inbox := filepath.Join(r.workspace.Dir(), "agents", "claude", "inbox")
	if err := errors.Join(os.RemoveAll(inbox), os.WriteFile(inbox, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	codex.call(t, "show_thread", arguments{"message_id": asked.MessageID}, &conversation)
	if len(conversation.Messages) != 3 || !strings.Contains(conversation.Unreadable, inbox) {
		t.Errorf("the thread is %+v, want three messages and the folder that cannot be read", conversation)
	}
}

// TestNoticed checks that the lists of both sides say that a session has noticed a request.
func TestNoticed(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude, codex := r.client(t, "claude"), r.client(t, "codex")
	var asked sentMessage
	claude.call(t, "send_message", arguments{"to": "codex", "type": "question", "subject": "Which port?", "body": "For the tests."}, &asked)
	check := func(stage track.Stage) {
		t.Helper()
		var conversation struct{ Messages []struct{ Stage track.Stage } }
		claude.call(t, "show_thread", arguments{"message_id": asked.MessageID}, &conversation)
		if m := conversation.Messages; len(m) != 1 || m[0].Stage != stage {
			t.Errorf("the thread is %+v, want one message, %s", m, stage)
		}
		for _, c := range []*client{claude, codex} {
			var owed struct{ Mine, Theirs []struct{ Stage track.Stage } }
			c.call(t, "list_owed", nil, &owed)
			if all := append(owed.Mine, owed.Theirs...); len(all) != 1 || all[0].Stage != stage {
				t.Errorf("owed is %+v, want one request, %s", owed, stage)
			}
		}
	}
	check(track.StageWaiting)
	copies, err := r.workspace.Find(t.Context(), asked.MessageID)
	if err != nil || len(copies) == 0 {
		t.Fatalf("found %d copies of the request: %v", len(copies), err)
	}
	key := track.KeyOf(copies[0].Message)
	if err := track.NoteNoticed(r.workspace, "codex", []track.Key{key}, track.Noticed{Holder: track.Holder{Session: "one", Program: "codex"}, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	check(track.StageNoticed)
}

func lastPart(id string) string { return id[strings.LastIndexByte(id, '-')+1:] }

// TestSendForms lists the forms in which arguments may come.
func TestSendForms(t *testing.T) {
	r := newRoom(t, "claude", "codex", "gemini")
	claude := r.client(t, "claude")
	for _, test := range []struct {
		name   string
		change arguments
		to     string
	}{
		{"one name", arguments{"to": "codex"}, "[codex]"},
		{"names with commas", arguments{"to": "codex, gemini"}, "[codex gemini]"},
		{"number as text", arguments{"related_pr": "42"}, "[codex]"},
		{"null for absent", arguments{"priority": nil, "context_keys": nil, "related_pr": nil}, "[codex]"},
		{"structured body", arguments{"body": arguments{"files": []string{"a", "b"}, "count": 3}}, "[codex]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := arguments{"to": "codex", "type": "question", "subject": "S", "body": "B"}
			for name, value := range test.change {
				args[name] = value
			}
			var sent sentMessage
			claude.call(t, "send_message", args, &sent)
			if fmt.Sprint(sent.To) != test.to || sent.Priority != "P2" {
				t.Errorf("sent to %v with %s, want %s with P2", sent.To, sent.Priority, test.to)
			}
		})
	}
	var sent sentMessage
	body := arguments{"files": []any{"a", "b"}, "count": "3"}
	claude.call(t, "send_message", arguments{"to": "codex", "type": "question", "subject": "S", "body": body}, &sent)
	var read fullMessage
	claude.call(t, "read_message", arguments{"message_id": sent.MessageID}, &read)
	if fmt.Sprint(read.Message.Body) != fmt.Sprint(map[string]any(body)) {
		t.Errorf("the body came back as %v, want %v", read.Message.Body, body)
	}
	var follow sentMessage
	claude.call(t, "send_message", arguments{"to": "gemini", "type": "notification", "subject": "S", "body": "B", "in_reply_to": sent.MessageID}, &follow)
	if follow.ParentID != sent.MessageID || follow.ConversationID == "" {
		t.Errorf("the message that follows is %+v, want it in the conversation of %s", follow, sent.MessageID)
	}
	claude.call(t, "send_message", arguments{
		"to": "gemini", "type": "notification", "subject": "S", "body": "B", "in_reply_to": "msg-20240101T0000Z-codex-abcd",
	}, &follow)
	if len(follow.Warnings) != 1 {
		t.Errorf("warnings %q, want one for the missing message", follow.Warnings)
	}
	if err := os.WriteFile(filepath.Join(r.workspace.Dir(), "agents/gemini/status.yaml"), []byte("status: offline\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	text := claude.call(t, "send_message", arguments{"to": "codex, gemini", "type": "notification", "subject": "S", "body": "B"}, &follow)
	if len(follow.Warnings) != 1 {
		t.Errorf("warnings %q, want one for the agent that is offline", follow.Warnings)
	}
	wantText(t, "the text about an agent that is offline", text, "agent gemini is offline")
}

// TestMailboxRefuses lists the mistakes an agent can make with its mail, and the answers.
func TestMailboxRefuses(t *testing.T) {
	r := newRoom(t, "claude", "codex", "gemini")
	claude, codex := r.client(t, "claude"), r.client(t, "codex")
	var sent, other sentMessage
	claude.call(t, "send_message", arguments{"to": "codex", "type": "question", "subject": "S", "body": "B"}, &sent)
	claude.call(t, "send_message", arguments{"to": "gemini", "type": "question", "subject": "S", "body": "B"}, &other)
	for _, test := range []struct {
		name, tool string
		args       arguments
		wants      []string
	}{
		{"unknown recipient", "send_message", arguments{"to": "gemni", "type": "question", "subject": "S", "body": "B"}, []string{"unknown_agent: ", "did you mean gemini?"}},
		{"itself", "send_message", arguments{"to": "codex", "type": "question", "subject": "S", "body": "B"}, []string{"invalid_message: ", "[self-send]", "nothing was sent"}},
		{"no recipient", "send_message", arguments{"to": "", "type": "question", "subject": "S", "body": "B"}, []string{"invalid_message: "}},
		{"recipients as numbers", "send_message", arguments{"to": []int{1}, "type": "question", "subject": "S", "body": "B"}, []string{"usage: ", "/properties/to", "array"}},
		{"type", "send_message", arguments{"to": "claude", "type": "questoin", "subject": "S", "body": "B"}, []string{"usage: ", "/properties/type", "questoin", "task_request"}},
		{"priority", "send_message", arguments{"to": "claude", "type": "question", "subject": "S", "body": "B", "priority": "p1"}, []string{"usage: ", "/properties/priority", "P1"}},
		{"long subject", "send_message", arguments{"to": "claude", "type": "question", "subject": strings.Repeat("s", 201), "body": "B"}, []string{"invalid_message: ", "[length]"}},
		{"several problems", "send_message", arguments{"to": "claude", "type": "question", "subject": "", "body": "", "expires_at": "soon"}, []string{"[missing-field]", "\n", "expires_at"}},
		{"handoff", "send_message", arguments{"to": "claude", "type": "handoff", "subject": "S", "body": "take it"}, []string{"invalid_message: ", "body"}},
		{"body as list", "send_message", arguments{"to": "claude", "type": "question", "subject": "S", "body": []string{"x"}}, []string{"usage: ", "/properties/body", `"string, object"`}},
		{"repeated key", "send_message", arguments{"to": "claude", "type": "question", "subject": "S", "body": "B", "sender": "claude"}, []string{"usage: ", `"sender"`}},
		{"no such message", "read_message", arguments{"message_id": "msg-20240101T0000Z-claude-zzzz"}, []string{"not_found: ", "list_inbox"}},
		{"no id", "read_message", nil, []string{"usage: ", `missing properties: ["message_id"]`}},
		{"a short id", "acknowledge_message", arguments{"message_id": "msg-"}, []string{"short_id: ", "give the full id"}},
		{"no such thread", "show_thread", arguments{"message_id": "zzzz"}, []string{"not_found: "}},
		{"answer to nothing", "reply_message", arguments{"message_id": "zzzz", "body": "x"}, []string{"not_found: "}},
		{"final question", "reply_message", arguments{"message_id": sent.MessageID, "body": "x", "type": "question", "final": true}, []string{"usage: a question is never the final answer"}},
		{"empty answer", "reply_message", arguments{"message_id": sent.MessageID, "body": ""}, []string{"invalid_message: ", "body"}},
		{"mail of others", "acknowledge_message", arguments{"message_id": other.MessageID}, []string{"not_pending: ", "your own inbox"}},
		{"nothing to acknowledge", "acknowledge_message", arguments{"message_id": "zzzz"}, []string{"not_found: "}},
		{"a limit as text", "show_thread", arguments{"message_id": sent.MessageID, "limit": "all"}, []string{"usage: ", "/properties/limit", `want "integer"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			wantText(t, "the answer", codex.refuse(t, test.tool, test.args), test.wants...)
		})
	}
	wantText(t, "an answer to oneself", claude.refuse(t, "reply_message", arguments{"message_id": sent.MessageID, "body": "x"}), "not_recipient: ", "was sent to codex, not to claude", "in_reply_to")
	var waiting inbox
	if codex.call(t, "list_inbox", nil, &waiting); waiting.Total != 1 {
		t.Errorf("after refused calls %d messages wait, want the 1 from before", waiting.Total)
	}
}

// TestReplyIsFinal checks which replies answer a task, and what the tools say of those that do not.
func TestReplyIsFinal(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude, codex := r.client(t, "claude"), r.client(t, "codex")
	for _, test := range []struct {
		name          string
		args          arguments
		warning, mark string
	}{
		{"a notification", arguments{}, "a notification does not answer a task_request", `"reply":`},
		{"a final one", arguments{"final": true}, "", `"answered":true`},
		{"a question", arguments{"type": "question"}, "", `"reply":`},
		{"a type that answers", arguments{"type": "review_feedback"}, "", `"answered":true`},
		{"with the acknowledgement", arguments{"acknowledge": true}, "", `"total":0`},
		{"a question with the acknowledgement", arguments{"type": "question", "acknowledge": true}, "", `"total":0`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var asked, answer sentMessage
			claude.call(t, "send_message", arguments{"to": "codex", "type": "task_request", "subject": "S", "body": "B"}, &asked)
			args := arguments{"message_id": asked.MessageID, "body": "x"}
			maps.Copy(args, test.args)
			codex.call(t, "reply_message", args, &answer)
			if warnings := strings.Join(answer.Warnings, "; "); (warnings == "") != (test.warning == "") || !strings.Contains(warnings, test.warning) {
				t.Errorf("warnings %q, want %q", answer.Warnings, test.warning)
			}
			text := codex.call(t, "list_inbox", nil, nil)
			wantText(t, "the inbox", text, test.mark)
			if test.mark == `"reply":` && strings.Contains(text, "answered") {
				t.Errorf("the inbox is %s, want the message not answered", text)
			}
			codex.call(t, "acknowledge_message", arguments{"message_id": asked.MessageID}, nil)
		})
	}
}

// TestListInbox checks order, bounds, expired mail and files that are not messages.
func TestListInbox(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude, codex := r.client(t, "claude"), r.client(t, "codex")
	for _, priority := range []string{"P3", "P0", "P2"} {
		claude.call(t, "send_message", arguments{"to": "codex", "type": "question", "subject": "of " + priority, "body": "B", "priority": priority}, nil)
	}
	_, err := r.workspace.Send(t.Context(), schema.Message{
		From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question, Subject: "late", Body: schema.TextValue("B"), Priority: schema.P1,
		CreatedAt: "2024-01-01T00:00:00Z", ExpiresAt: "2024-01-01T01:00:00Z",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	writeInboxFile(t, r, "codex", "bad.yaml", "no message")
	var got inbox
	codex.call(t, "list_inbox", arguments{"limit": 2}, &got)
	if got.Total != 4 || got.Invalid != 1 || got.Left != 3 || len(got.Messages) != 2 || got.Messages[0].Subject != "of P0" || !got.Messages[1].Expired {
		t.Errorf("listed %+v, want P0 and the expired P1, of four messages and a bad file", got)
	}
	var rest inbox
	codex.call(t, "list_inbox", arguments{"after": got.Next}, &rest)
	if rest.Total != 4 || rest.Left != 0 || rest.Next != "" || len(rest.Messages) != 2 || rest.Messages[1].Priority != "P3" || len(rest.Unreadable) != 1 || rest.Unreadable[0].File != "bad.yaml" {
		t.Errorf("the rest is %+v, want P2, P3, and one bad file", rest)
	}
	for _, wrong := range []string{"x", "1", "1/2", "1/2/3/4/5", "a/b/c", "1/%zz/x"} {
		wantText(t, wrong, codex.refuse(t, "list_inbox", arguments{"after": wrong}), "usage: the argument after is not the next of an earlier answer")
	}
}

// TestInvalidMessage checks what the tools say about a message that is not valid.
func TestInvalidMessage(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	codex := r.client(t, "codex")
	writeInboxFile(t, r, "codex", "damaged.yaml", "id: msg-20260313T1430Z-claude-a8f3\nfrom: claude\nto: codex\ntype: quesiton\n"+
		"priority: P1\ncreated_at_utc: 2026-03-13T14:30:00Z\nsubject: \"Which\\nport?\"\nbody: One of them.\n")
	const wrong = `4:7: type: "quesiton" is not a message type`
	var listed inbox
	codex.call(t, "list_inbox", nil, &listed)
	if listed.Total != 0 || len(listed.Unreadable) != 1 || listed.Unreadable[0].From != "claude" || !strings.HasPrefix(listed.Unreadable[0].Error, wrong) ||
		listed.Unreadable[0].MessageID != "msg-20260313T1430Z-claude-a8f3" {
		t.Errorf("unreadable are %+v, want what can be read of the message", listed.Unreadable)
	}
	quoted := strings.ReplaceAll(wrong, `"`, `\"`)
	wantText(t, "the message", codex.call(t, "read_message", arguments{"message_id": "a8f3"}, nil), `"type":"quesiton"`, `"error":"`+quoted, "One of them.")
	wantText(t, "the thread", codex.call(t, "show_thread", arguments{"message_id": "a8f3"}, nil), `"error":"`+quoted)
	wantText(t, "an answer", codex.refuse(t, "reply_message", arguments{"message_id": "a8f3", "body": "x"}), "cannot be answered", wrong)
	writeInboxFile(t, r, "codex", "nothing.yaml", "id: [")
	for _, name := range []string{"damaged.yaml", "nothing.yaml"} {
		codex.call(t, "acknowledge_message", arguments{"message_id": name}, nil)
	}
	var left inbox
	if codex.call(t, "list_inbox", nil, &left); left.Invalid != 0 || len(left.Unreadable) != 0 {
		t.Errorf("after acknowledging, %+v are left", left)
	}
}

// TestDeadLetter reads a message that its recipient gave up.
func TestDeadLetter(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude, codex := r.client(t, "claude"), r.client(t, "codex")
	var sent sentMessage
	claude.call(t, "send_message", arguments{"to": "codex", "type": "question", "subject": "S", "body": "B"}, &sent)
	e, err := r.workspace.Pending(t.Context(), sent.MessageID, "codex")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.workspace.DeadLetter(e, mailbox.DeadLetterReason{Reason: "three turns failed"}); err != nil {
		t.Fatal(err)
	}
	var read fullMessage
	claude.call(t, "read_message", arguments{"message_id": sent.MessageID}, &read)
	if read.DeadLetter == nil || read.DeadLetter.Agent != "codex" || read.DeadLetter.Reason != "three turns failed" || read.Waits {
		t.Errorf("read %+v, want it given up", read)
	}
	wantText(t, "acknowledging it", codex.refuse(t, "acknowledge_message", arguments{"message_id": sent.MessageID}), "not_pending: ")
}

// TestSecrets sends what looks like a key.
func TestSecrets(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude, codex := r.client(t, "claude"), r.client(t, "codex")
	key := "AKIA" + "Q2W3E4R5T6Y7U2IP"
	message := arguments{"to": "codex", "type": "question", "subject": "Port?", "body": map[string]any{"first": 1, "second": key}}
	wantText(t, "sending a key", claude.refuse(t, "send_message", message), "secret: body: line 2 has what looks like an AWS access key\nhint: ")
	message["allow_secret"] = true
	var asked sentMessage
	claude.call(t, "send_message", message, &asked)
	reply := arguments{"message_id": asked.MessageID, "body": "no, " + key}
	if text := codex.refuse(t, "reply_message", reply); !strings.HasPrefix(text, "secret: body: line 1 ") || strings.Contains(text, key) {
		t.Errorf("answering with a key: %s", text)
	}
	reply["allow_secret"] = true
	codex.call(t, "reply_message", reply, nil)
	text := codex.refuse(t, "report_working", arguments{"message_id": asked.MessageID, "text": "with " + key})
	if !strings.HasPrefix(text, "usage: ") || strings.Contains(text, key) {
		t.Errorf("working with a key: %s", text)
	}
}

// TestAnswersOnce lets two servers of one agent answer a message at the same time: one answer is sent.
func TestAnswersOnce(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	first, second := r.client(t, "codex"), r.client(t, "codex")
	for range 10 {
		var asked sentMessage
		r.client(t, "claude").call(t, "send_message", arguments{"to": "codex", "type": "question", "subject": "Port?", "body": "x"}, &asked)
		texts := make(chan string, 2)
		for i, c := range []*client{first, second} {
			reply := arguments{"message_id": asked.MessageID, "body": strconv.Itoa(8080 + i), "acknowledge": true}
			go func() {
				answer, err := c.session.CallTool(t.Context(), &mcp.CallToolParams{Name: "reply_message", Arguments: reply})
				if err != nil {
					t.Error(err)
					texts <- ""
					return
				}
				text := answer.Content[0].(*mcp.TextContent).Text
				if answer.IsError && !strings.HasPrefix(text, "already_answered: codex answered message "+asked.MessageID) {
					t.Errorf("reply_message: %s", text)
				}
				texts <- text
			}()
		}
		if a, b := <-texts, <-texts; strings.HasPrefix(a, `{"message_id"`) == strings.HasPrefix(b, `{"message_id"`) {
			t.Errorf("the answers are %q and %q, want one that is sent", a, b)
		}
		again := arguments{"message_id": asked.MessageID, "body": "no, 8082", "acknowledge": true, "again": true}
		second.call(t, "reply_message", again, nil)
		var sent sentMessage // the same answer once more
		delete(again, "again")
		second.call(t, "reply_message", again, &sent)
		if !sent.AlreadySent {
			t.Error("the same answer is sent twice")
		}
	}
	if got, err := r.workspace.Inbox(t.Context(), "claude"); err != nil || len(got) != 20 {
		t.Errorf("claude has %d messages (%v), want 20", len(got), err)
	}
}

// file returns the path of the copy of a message in a box.
func (r *room) file(t *testing.T, id string, box mailbox.Box) string {
	t.Helper()
	found, err := r.workspace.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		if e.Box == box {
			return e.Path
		}
	}
	t.Fatalf("message %s is not in any %s", id, box)
	return ""
}
