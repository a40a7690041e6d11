package track

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

const resumedConversation schema.ConversationID = "conv-20260313-gemini-1"

// hadTurns records a turn on a message of gemini in the journals of the agents.
func hadTurns(t *testing.T, w *mailbox.Workspace, agents ...schema.AgentName) {
	t.Helper()
	m := Envelope{Key: Key{ID: "msg-20260313T1430Z-gemini-aaaa"}, From: "gemini", Conversation: resumedConversation}
	for _, name := range agents {
		if err := appendFacts(w, name, Started.Of(&m), Fact{Kind: Bound, Envelope: Envelope{Conversation: resumedConversation}}); err != nil {
			t.Fatal(err)
		}
	}
}

// turnsOf returns how many turns count for the conversation and for gemini in the journal of an agent.
func turnsOf(t *testing.T, w *mailbox.Workspace, name schema.AgentName) (conversation, sender int, bound bool) {
	t.Helper()
	h, err := ReadHistory(w, name)
	if err != nil {
		t.Fatal(err)
	}
	c := h.Conversations[resumedConversation]
	return c.Turns, len(h.Senders["gemini"].Within(time.Now())), c.Bound
}

// TestResume checks that the turns of the conversation and of its sender count from zero for the agents that had any,
// and only for them.
func TestResume(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	hadTurns(t, w, "codex")
	resumed, err := Resume(t.Context(), w, resumedConversation)
	if err != nil || !slices.Equal(resumed, []schema.AgentName{"codex"}) {
		t.Errorf("resumed for %q (%v), want codex alone", resumed, err)
	}
	if conversation, sender, bound := turnsOf(t, w, "codex"); conversation != 0 || sender != 0 || bound {
		t.Errorf("codex: %d turns of the conversation and %d of gemini count, bound %t; want none", conversation, sender, bound)
	}
	hadTurns(t, w, "claude")
	if conversation, sender, bound := turnsOf(t, w, "claude"); conversation != 1 || sender != 1 || !bound {
		t.Errorf("claude: %d turns of the conversation and %d of gemini count, bound %t; want one of each", conversation, sender, bound)
	}
	resumed, err = Resume(t.Context(), w, resumedConversation)
	if err != nil || !slices.Equal(resumed, []schema.AgentName{"claude", "codex"}) {
		t.Errorf("resumed for %q (%v), want claude and codex", resumed, err)
	}
}

// TestResumeThatFails checks that Resume reports each failure, and the agents before it.
func TestResumeThatFails(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	if _, err := Resume(t.Context(), w, resumedConversation); err == nil {
		t.Error("a conversation without turns is resumed")
	}
	hadTurns(t, w, "claude", "codex")
	if _, err := Resume(t.Context(), w, "talk"); err == nil {
		t.Error("a conversation with a bad id is resumed")
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if resumed, err := Resume(stopped, w, resumedConversation); !errors.Is(err, context.Canceled) || len(resumed) > 0 {
		t.Errorf("a stopped Resume returned %q (%v), want none", resumed, err)
	}
	journal := filepath.Join(w.Dir(), filepath.FromSlash(TurnsFolder), JournalName("codex"))
	for _, c := range []struct {
		what     string
		obstruct func() error
	}{
		{"unreadable", func() error { return errors.Join(os.Rename(journal, journal+".away"), os.Mkdir(journal, 0o755)) }},
		{"unwritable", func() error {
			lock := journal + ".lock"
			return errors.Join(os.Remove(journal), os.Rename(journal+".away", journal), os.Remove(lock), os.Mkdir(lock, 0o755))
		}},
	} {
		if err := c.obstruct(); err != nil {
			t.Fatal(err)
		}
		resumed, err := Resume(t.Context(), w, resumedConversation)
		if err == nil || !slices.Equal(resumed, []schema.AgentName{"claude"}) {
			t.Errorf("with an %s journal of codex, Resume returned %q (%v), want claude and an error", c.what, resumed, err)
		}
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(w.Dir(), schema.AgentsName)), os.WriteFile(filepath.Join(w.Dir(), schema.AgentsName), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(t.Context(), w, resumedConversation); err == nil || strings.Contains(err.Error(), "no agent has had turns") {
		t.Errorf("without agents, Resume gives %v", err)
	}
}
