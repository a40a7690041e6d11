package conversation

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

func TestAcknowledge(t *testing.T) {
	w := mailboxtest.NewBare(t, "claude", "codex", "gemini")
	var ids []string
	for _, rand := range []string{"aaaa", "aaab", "aaac", "aaad"} {
		m := mailboxtest.Message(rand, 0)
		mailboxtest.Place(t, w, "codex", mailbox.Inbox, rand+".yaml", m)
		mailboxtest.Place(t, w, "claude", mailbox.Outbox, rand+".yaml", m)
		ids = append(ids, string(m.ID))
	}
	find := func(id string, agent schema.AgentName) Copy {
		t.Helper()
		c, err := FindCopy(t.Context(), w, id, agent)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	removed := find("aaaa", "codex")
	if err := removed.Acknowledge(w); err != nil || removed.Gone || string(removed.ID) != ids[0] {
		t.Errorf("acknowledged %+v: %v", removed, err)
	}
	if kept, err := w.List(t.Context(), "codex", mailbox.Archive); err != nil || len(kept) != 1 || string(kept[0].Message.ID) != ids[0] {
		t.Errorf("the archive has %v (%v), want the message", kept, err)
	}
	// Again, by the same copy and by a new one.
	if err := removed.Acknowledge(w); err != nil || !removed.Gone {
		t.Errorf("the second acknowledgement: %+v, %v; want it gone", removed, err)
	}
	if again := find(ids[0], "codex"); !again.Gone || string(again.ID) != ids[0] {
		t.Errorf("the acknowledged message is %+v, want it gone", again)
	}
	// Older tools delete what they handled.
	if err := os.Remove(filepath.Join(w.BoxPath("codex", mailbox.Inbox), "aaab.yaml")); err != nil {
		t.Fatal(err)
	}
	if again := find("aaab", "codex"); !again.Gone {
		t.Errorf("the deleted message is %+v, want it gone", again)
	}
	// A dead letter is not handled, and what was for others was never here.
	dead, err := w.Pending(t.Context(), "aaac", "codex")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.DeadLetter(dead, mailbox.DeadLetterReason{Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	for id, agent := range map[string]schema.AgentName{"aaac": "codex", "aaad": "gemini"} {
		var notPending *mailbox.NotPendingError
		if c, err := FindCopy(t.Context(), w, id, agent); !errors.As(err, &notPending) {
			t.Errorf("%s of %s is %+v (%v), want a NotPendingError", id, agent, c, err)
		}
	}
}

func TestResponses(t *testing.T) {
	w := mailboxtest.NewBare(t, "claude", "codex")
	var pending []mailbox.Entry
	for _, rand := range []string{"aaaa", "aaab", "aaac", "aaad", "aaae"} {
		m := mailboxtest.Message(rand, 0)
		m.Type = schema.TaskRequest
		pending = append(pending, mailbox.Entry{Agent: "codex", Box: mailbox.Inbox, Message: &m})
	}
	pending = append(pending, mailbox.Entry{Err: errors.New("no message")})
	reply := func(n int, rand, name string, change func(*schema.Message)) {
		m := Reply(pending[n].Message, "codex")
		m.ID, m.CreatedAt = schema.ID("msg-20260313T1431Z-codex-"+rand), "2026-03-13T14:31:00Z"
		m.Priority, m.Body = schema.P2, schema.TextValue("Done.")
		change(&m)
		mailboxtest.Place(t, w, "codex", mailbox.Outbox, name, m)
	}
	reply(0, "bbb1", "20260313T1431Z_codex_notification.yaml", func(*schema.Message) {})
	reply(1, "bbb2", "20260313T1431Z_codex_follow_up.yaml", func(m *schema.Message) { m.Type = schema.Question })
	reply(1, "bbb3", "odd name.yaml", func(m *schema.Message) { m.MakeFinal() })
	reply(1, "bbb4", "20260313T1432Z_codex_question.yaml", func(m *schema.Message) { m.Type = schema.Question })
	reply(2, "bbb5", "20260313T1431Z_codex_notification_bbb5.yaml", func(m *schema.Message) { m.Channel = schema.ChannelBounce })
	// Names say when files are written: this one is too old for an answer, and is not opened.
	reply(3, "bbb6", "20260312T1400Z_codex_notification.yaml", func(*schema.Message) {})
	got, err := Responses(t.Context(), w, "codex", pending)
	if err != nil || len(got) != 2 {
		t.Fatalf("there are %d responses (%v), want 2", len(got), err)
	}
	if r := got[pending[0].Message.ID]; r.Answers || r.Message.ID.Short() != "bbb1" {
		t.Errorf("the first message has the response %+v, want bbb1, which does not answer", r)
	}
	if r := got[pending[1].Message.ID]; !r.Answers || r.Message.ID.Short() != "bbb3" {
		t.Errorf("the second message has the response %+v, want the answer bbb3", r)
	}
	if got, err := Responses(t.Context(), w, "claude", nil); err != nil || len(got) != 0 {
		t.Errorf("an empty inbox has the responses %v (%v)", got, err)
	}
}

// TestTouchedMessageStaysAnswered looks for the response to a message whose file got a later time than the response.
func TestTouchedMessageStaysAnswered(t *testing.T) {
	w := mailboxtest.NewBare(t, "claude", "codex")
	m := mailboxtest.Message("aaaa", 0)
	m.Type = schema.Question
	reply := Reply(&m, "codex")
	reply.ID, reply.CreatedAt, reply.Body = "msg-20260313T1431Z-codex-bbb1", "2026-03-13T14:31:00Z", schema.TextValue("Yes.")
	mailboxtest.Place(t, w, "codex", mailbox.Outbox, "20260313T1431Z_codex_notification.yaml", reply)
	touched := mailbox.Entry{Agent: "codex", Box: mailbox.Inbox, Message: &m, Modified: time.Now().Add(time.Hour)}
	got, err := Responses(t.Context(), w, "codex", []mailbox.Entry{touched})
	if err != nil || len(got) != 1 || !got[m.ID].Answers {
		t.Errorf("the responses are %+v (%v), want the answer", got, err)
	}
}
