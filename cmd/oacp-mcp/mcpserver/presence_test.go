package mcpserver_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// TestPresence checks that an agent can say how far it is, that it can ask back, and that the other one sees both and
// what the agent did last.
func TestPresence(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude, codex := r.client(t, "claude"), r.client(t, "codex")
	var asked, back sentMessage
	claude.call(t, "send_message", arguments{"to": "codex", "type": "question", "subject": "Which port?", "body": "For the tests."}, &asked)
	type owed struct {
		Theirs  []track.OpenRequest
		Present map[string]string
	}
	now := func(text string) string { return regexp.MustCompile(`\d+s ago`).ReplaceAllString(text, "NOW ago") }
	check := func(stage track.Stage, said, present string) {
		t.Helper()
		var list owed
		claude.call(t, "list_owed", nil, &list)
		if len(list.Theirs) != 1 || list.Theirs[0].Stage != stage || now(list.Present["codex"]) != present {
			t.Errorf("claude waits for %+v, want %s, and present: %s", list, stage, present)
		}
		var thread struct {
			Messages []struct {
				Stage    track.Stage
				Progress string
			}
		}
		claude.call(t, "show_thread", arguments{"message_id": asked.MessageID}, &thread)
		if m := thread.Messages[0]; m.Stage != stage || now(m.Progress) != said {
			t.Errorf("the thread has %+v, want %s, %q", m, stage, said)
		}
		var inbox struct {
			Messages []struct{ Stage, Progress string }
		}
		codex.call(t, "list_inbox", nil, &inbox)
		if m := inbox.Messages[0]; m.Stage != string(stage) || now(m.Progress) != said {
			t.Errorf("the inbox has %+v, want %s, %q", m, stage, said)
		}
	}
	check(track.StageWaiting, "", "nothing known")
	codex.call(t, "report_working", arguments{"message_id": asked.MessageID, "text": "half done"}, nil)
	check(track.StageWorking, "said NOW ago: \"half done\"", "working on "+short(asked.MessageID)+", said NOW ago: \"half done\"; last command: report_working NOW ago")
	codex.call(t, "reply_message", arguments{"message_id": asked.MessageID, "type": "question", "body": "TCP?"}, &back)
	check(track.StageWorking, "said NOW ago: \"half done\", asked "+short(back.MessageID),
		"working on "+short(asked.MessageID)+", said NOW ago: \"half done\"; last command: reply_message NOW ago")
	claude.call(t, "reply_message", arguments{"message_id": back.MessageID, "body": "Yes."}, nil)
	codex.call(t, "read_message", arguments{"message_id": asked.MessageID}, nil)
	check(track.StageWorking, "said NOW ago: \"half done\", "+short(back.MessageID)+" answered",
		"working on "+short(asked.MessageID)+", said NOW ago: \"half done\"; last command: read_message NOW ago")

	wantText(t, "a long text", codex.refuse(t, "report_working", arguments{"message_id": asked.MessageID, "text": strings.Repeat("x", 201)}), "usage: ", "it has 201 characters")
	wantText(t, "another's message", claude.refuse(t, "report_working", arguments{"message_id": asked.MessageID}), "not_pending")
}

// short returns the short form of an id.
func short(id string) string { return schema.ID(id).Short() }
