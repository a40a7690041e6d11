package gitmail

import (
	"strings"
	"testing"

	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/schema"
)

func TestCommitMessage(t *testing.T) {
	sent := history.Change{Kind: history.Sent, Agent: "claude", ID: "msg-20261121T1000Z-claude-ab12", From: "claude", To: []schema.AgentName{"codex", "cursor"}, Type: schema.Question, Subject: "Which port?"}
	done := history.Change{Kind: history.Acknowledged, Agent: "codex", ID: sent.ID, Subject: "Which port?"}
	hostile := history.Change{Kind: history.DeadLetter, Agent: "codex", Subject: "a\nCo-authored-by: x <x@y>\x1b[2J" + strings.Repeat("é", 200)}
	tests := map[string]struct {
		changes []history.Change
		want    string
	}{
		"a message":         {[]history.Change{sent}, "claude → codex, cursor: question \"Which port?\"\n\nmsg-20261121T1000Z-claude-ab12\n\n[skip ci]\n"},
		"an acknowledgment": {[]history.Change{done}, "codex acknowledged message \"Which port?\"\n\nmsg-20261121T1000Z-claude-ab12\n\n[skip ci]\n"},
		"a hostile subject": {[]history.Change{hostile}, "codex gave up message \"a Co-authored-by: x  x@y  [2J" + strings.Repeat("é", 70) + "…\"\n\n[skip ci]\n"},
		"an agent":          {[]history.Change{{Kind: history.NewAgent, Agent: "codex"}}, "new agent codex\n\n[skip ci]\n"},
		"several":           {[]history.Change{sent, sent, done}, "2 messages from claude; codex acknowledged message \"Which port?\"\n\n[skip ci]\n"},
		"acknowledgments":   {[]history.Change{done, done}, "2 acknowledged by codex\n\n[skip ci]\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var edits []*edit
			for _, change := range test.changes {
				edits = append(edits, &edit{Change: change})
			}
			if got := message(edits); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
