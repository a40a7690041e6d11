package web

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// TestDisplay checks that nobody takes back what a page has shown the person, that the message stays new to her other fronts,
// and that a page about the mail of somebody else changes nothing.
func TestDisplay(t *testing.T) {
	for name, path := range map[string]string{
		"home": "/", "feed": "FEED", "conversation": "/c/ID", "message": "/m/ID", "JSON": "/m/ID/json", "mailbox": "/a/TO/inbox",
		"outbox": "/a/codex/outbox", "file": "/a/TO/inbox/FILE", "search": "/search?q=Which", "a form that fails": "POST",
	} {
		for _, to := range []schema.AgentName{"anna", "claude"} {
			t.Run(name+"/"+string(to), func(t *testing.T) {
				w := newWorkspace(t)
				b := newBrowser(t, w, "anna").login().unlimited()
				draft := schema.Message{From: "codex", To: []schema.AgentName{to}, Type: schema.Question, Subject: "Port?", Body: schema.TextValue("Which port?")}
				m := mailboxtest.Send(t, w, draft).Message
				if progress, err := track.Track(t.Context(), w, string(m.ID)); err != nil || progress[0].MaySeen {
					t.Fatalf("before, it is %+v (%v)", progress, err)
				}
				b.show(path, m, to)
				b.show(path, m, to)
				progress, err := track.Recall(t.Context(), w, m)
				if err != nil {
					t.Fatal(err)
				}
				if isRecalled := progress[0].Stage == track.StageRecalled; isRecalled != (to == "claude") {
					t.Errorf("after the page, a recall gives %+v", progress)
				}
				if to == "anna" && !track.NewsOf(w, "anna").Has(m) {
					t.Error("the message is no longer new to the other fronts of the person")
				}
				journal := filepath.Join(w.Dir(), track.TurnsFolder, track.JournalName("claude"))
				if _, err := os.Stat(journal); !os.IsNotExist(err) {
					t.Errorf("the journal of claude: %v, want none", err)
				}
			})
		}
	}
}

// show asks for a page about a message to an agent.
func (b *browser) show(path string, m *schema.Message, to schema.AgentName) {
	b.t.Helper()
	switch path {
	case "POST":
		b.post("/m/"+string(m.ID)+"/reply", map[string][]string{"text": {""}})
	case "FEED":
		b.page(feedPrefix + b.server.feed)
	default:
		names, err := os.ReadDir(b.server.w.BoxPath(to, mailbox.Inbox))
		if err != nil {
			b.t.Fatal(err)
		}
		b.page(strings.NewReplacer("ID", string(m.ID), "TO", string(to), "FILE", names[len(names)-1].Name()).Replace(path))
	}
}
