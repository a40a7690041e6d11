package conversation

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

func TestReplyToEveryType(t *testing.T) {
	w := mailboxtest.NewBare(t, "claude", "codex")
	for _, kind := range schema.Types() {
		original := mailboxtest.Message("aaaa", 0)
		original.Type, original.Channel, original.RelatedPR, original.RelatedPacket, original.Priority = kind, "reviews", "42", "p1", schema.P0
		answer := Reply(&original, "codex", schema.Notification)
		if answer.From != "codex" || len(answer.To) != 1 || answer.To[0] != "claude" || answer.ParentID != original.ID {
			t.Errorf("the answer goes from %s to %v with parent %s", answer.From, answer.To, answer.ParentID)
		}
		if answer.Channel != "reviews" || answer.RelatedPR != "42" || answer.RelatedPacket != "p1" || answer.Priority != schema.P0 {
			t.Errorf("the answer does not keep the fields of the conversation: %+v", answer)
		}
		answer.Body = schema.TextValue("Done.")
		if _, _, _, err := w.Compose(answer, nil); err != nil {
			t.Errorf("the answer to %s is not valid: %v", kind, err)
		}
	}
}

// TestReplyClaimsNoOrigin checks that an answer drops a channel that names a message's origin, and
// keeps a channel that only looks like one.
func TestReplyClaimsNoOrigin(t *testing.T) {
	for channel, want := range map[string]string{
		"bridge-task": "", "bridge-done": "", "bridge-chat-all": "", "bounce": "", "bound": "",
		"bridge-design": "bridge-design", "bridge": "bridge", "all": "all", "reviews-all": "reviews-all", "": "",
	} {
		original := mailboxtest.Message("aaaa", 0)
		original.Channel = channel
		if got := Reply(&original, "codex", schema.Notification).Channel; got != want {
			t.Errorf("an answer to a message on channel %q is on %q, want %q", channel, got, want)
		}
	}
}

func TestReplySubject(t *testing.T) {
	tests := []struct{ subject, want string }{
		{"Hi", "Re: Hi"},
		{"Re: Hi", "Re: Hi"},
		{strings.Repeat("ü", 196), "Re: " + strings.Repeat("ü", 196)},
		{strings.Repeat("ü", 197), "Re: " + strings.Repeat("ü", 195) + "…"},
		{strings.Repeat("ü", 194) + "  xyz", "Re: " + strings.Repeat("ü", 194) + "…"},
		{"Re: " + strings.Repeat("x", 196), "Re: " + strings.Repeat("x", 196)},
	}
	for _, test := range tests {
		got := replySubject(test.subject)
		if got != test.want || utf8.RuneCountInString(got) > schema.MaxSubject {
			t.Errorf("the answer to %q has the subject %q, want %q", test.subject, got, test.want)
		}
	}
}

// TestOf checks that all answers to a message agree on its conversation.
func TestOf(t *testing.T) {
	first, second := mailboxtest.Message("aaaa", 0), mailboxtest.Message("aaab", 0)
	got := Of(&first)
	parts, err := schema.ParseConversationID(got)
	if err != nil || parts.Agent != "claude" || parts.Date.Format("20060102") != "20260313" {
		t.Errorf("the conversation is %q (%v), want one of claude on that day", got, err)
	}
	if again := Of(&first); again != got {
		t.Errorf("the conversation is %q at one time and %q at another", got, again)
	}
	if other := Of(&second); other == got {
		t.Errorf("two messages start one conversation %q", got)
	}
	first.ConversationID = "conv-20260101-x-7"
	if got := Of(&first); got != first.ConversationID {
		t.Errorf("the conversation is %q, want the message's own", got)
	}
	odd := schema.Message{ID: "no id"}
	if got := Of(&odd); got != "" {
		t.Errorf("a message without a proper id starts %q, want nothing", got)
	}
}

func TestAnswerTo(t *testing.T) {
	w := mailboxtest.NewBare(t, "claude", "codex")
	threaded := mailboxtest.Message("aaaa", 0)
	threaded.ConversationID = "conv-20260101-x-7"
	mailboxtest.Place(t, w, "codex", mailbox.Inbox, "a.yaml", threaded)
	plain := mailboxtest.Message("abbb", 0)
	mailboxtest.Place(t, w, "claude", mailbox.Outbox, "b.yaml", plain)
	gone := mailboxtest.Message("cccc", 0)
	tests := []struct {
		name, id     string
		own          schema.ConversationID
		found        bool
		parent       schema.ID
		conversation schema.ConversationID
	}{
		{"in a conversation", string(threaded.ID), "", true, threaded.ID, threaded.ConversationID},
		{"by its rand", "abbb", "", true, plain.ID, Of(&plain)},
		{"with a conversation of its own", "abbb", "conv-20260102-y-1", true, plain.ID, "conv-20260102-y-1"},
		{"gone", string(gone.ID), "", false, gone.ID, Of(&gone)},
		{"missing, with a conversation", string(gone.ID), "conv-20260102-y-1", false, gone.ID, "conv-20260102-y-1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := mailboxtest.Draft("codex")
			m.ConversationID = test.own
			found, err := AnswerTo(t.Context(), w, &m, test.id)
			if err != nil || found != test.found {
				t.Errorf("AnswerTo gave %t, %v; want %t", found, err, test.found)
			}
			if m.ParentID != test.parent || m.ConversationID != test.conversation {
				t.Errorf("the answer is to %s in %s, want %s in %s", m.ParentID, m.ConversationID, test.parent, test.conversation)
			}
		})
	}
	for _, id := range []string{"zzzz", "msg-20260313T1430Z-claude-a", ""} {
		m := mailboxtest.Draft("codex")
		if found, err := AnswerTo(t.Context(), w, &m, id); err == nil || found || m.ParentID != "" {
			t.Errorf("an answer to %q gave %t, %v with parent %q, want an error", id, found, err, m.ParentID)
		}
	}
}

func TestOriginal(t *testing.T) {
	m := mailboxtest.Message("aaaa", 0)
	found := []mailbox.Entry{{Agent: "codex", Box: mailbox.Inbox, Message: &m}}
	if got, err := Original(found, "codex"); err != nil || got != &m {
		t.Errorf("the recipient replies to %v (%v), want the message", got, err)
	}
	for _, agent := range []schema.AgentName{"claude", "gemini"} {
		_, err := Original(found, agent)
		if failure.Of(err).Code != "not_recipient" || !strings.Contains(err.Error(), "was sent to codex, not to "+string(agent)) {
			t.Errorf("%s replies with %v, want that it is no recipient", agent, err)
		}
	}
	found[0].Err = errors.New("odd")
	if _, err := Original(found, "codex"); err == nil || !strings.Contains(err.Error(), "it is not valid: odd") {
		t.Errorf("a reply to a message that is not valid gives %v", err)
	}
}

func TestConclude(t *testing.T) {
	tests := []struct {
		original, reply    schema.Type
		final, acknowledge bool
		isFinal, misleads  bool
	}{
		{schema.TaskRequest, schema.Notification, false, false, false, true},
		{schema.TaskRequest, schema.Notification, true, false, true, false},
		{schema.TaskRequest, schema.Notification, false, true, true, false},
		{schema.TaskRequest, schema.FollowUp, false, true, false, false},
		{schema.TaskRequest, schema.FollowUp, true, true, true, false},
		{schema.TaskRequest, schema.Question, false, true, false, false},
		{schema.TaskRequest, schema.ReviewRequest, false, false, false, false},
		{schema.TaskRequest, schema.ReviewRequest, false, true, true, false},
		{schema.TaskRequest, schema.Handoff, false, true, true, false},
		{schema.TaskRequest, schema.Question, true, true, true, false},
		{schema.Question, schema.Notification, false, false, false, false},
		{schema.ReviewRequest, schema.Notification, false, true, true, false},
		{schema.Handoff, schema.Notification, false, false, false, true},
		{schema.Notification, schema.Notification, false, true, false, false},
		{schema.ReviewLGTM, schema.Notification, false, false, false, false},
	}
	for _, test := range tests {
		original := mailboxtest.Message("aaaa", 0)
		original.Type = test.original
		reply := Reply(&original, "codex", test.reply)
		misleads := Conclude(&reply, &original, test.final, test.acknowledge)
		if misleads != test.misleads || reply.Marks.Final != test.isFinal {
			t.Errorf("%s after %s (%t, %t): final %t and misleads %t, want %t and %t",
				test.reply, test.original, test.final, test.acknowledge, reply.Marks.Final, misleads, test.isFinal, test.misleads)
		}
	}
}

func TestNamed(t *testing.T) {
	w := mailboxtest.NewBare(t, "claude", "codex")
	threaded := mailboxtest.Message("aaaa", 0)
	threaded.ConversationID = "conv-20260101-x-7"
	mailboxtest.Place(t, w, "codex", mailbox.Inbox, "a.yaml", threaded)
	gone := mailboxtest.Message("cccc", 0)
	for text, want := range map[string]schema.ConversationID{
		"aaaa": threaded.ConversationID, string(threaded.ID): threaded.ConversationID, string(gone.ID): Of(&gone),
		"conv-20260105-y-1": "conv-20260105-y-1", "conv-odd": "conv-odd", "talk": "", "aaa": "", "zzzz": "",
	} {
		if got, err := Named(t.Context(), w, text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q names %q (%v), want %q", text, got, err, want)
		}
	}
}
