package turn

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// signingWorkspace returns a workspace in which claude signs what it sends.
func signingWorkspace(t *testing.T) *mailbox.Workspace {
	t.Helper()
	w, _ := signedWorkspace(t)
	if err := os.WriteFile(filepath.Join(w.Dir(), "agents/claude/config.yaml"), []byte("signing: {sign_messages: true}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return w
}

// toClaude returns a question that codex asks claude.
func toClaude() schema.Message {
	m := question("q")
	m.From, m.To = "codex", []schema.AgentName{"claude"}
	return m
}

// TestForgedJournal checks that a Runner sends nothing that others wrote into its journal, and says so.
func TestForgedJournal(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]schema.AgentName{"its agent": "claude", "another agent": "codex", "a sender that signs nothing": "gemini"} {
		for kind, fact := range map[string]string{
			"answer": `"fact":"succeeded","id":"msg-20260313T1431Z-codex-zzz1","fingerprint":"0"`,
			"bounce": `"fact":"dead","id":"msg-20260313T1431Z-codex-zzz1","fingerprint":"0","from":"codex"`,
			"notice": `"fact":"bound","from":"codex"`,
		} {
			t.Run(kind+" from "+name, func(t *testing.T) {
				t.Parallel()
				w := signingWorkspace(t)
				writeJournal(t, w, fmt.Sprintf(`{"at":"2026-03-13T14:31:00Z",%s,"send":{"id":"msg-20260313T1432Z-%s-zzz2","from":%[2]q,"to":["codex"],"type":"notification","priority":"P1","created_at_utc":"2026-03-13T14:32:00Z","channel":"bounce","subject":"EVIL","body":"EVIL"}}`+"\n", fact, from))
				rec, err := runOnce(t, w, Config{Agent: "claude"})
				if err != nil {
					t.Fatal(err)
				}
				for _, agent := range []schema.AgentName{"claude", "codex"} {
					for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox} {
						if got := entries(t, w, agent, box); len(got) != 0 {
							t.Errorf("the %s of %s has %v", box, agent, got)
						}
					}
				}
				if e := rec.last(EventUnsendable); !strings.Contains(e.Reason, "without the signature") {
					t.Errorf("the event is %+v; want it said", e)
				}
			})
		}
	}
}

func writeJournal(t *testing.T, w *mailbox.Workspace, journal string) {
	t.Helper()
	if err := w.MakeStateFolder(track.TurnsFolder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Dir(), "state/turns/claude.jsonl"), []byte(journal), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestSealedAnswer checks that an answer whose Runner was killed before it was sent is sent with the same bytes, unless somebody
// has changed it in the journal.
func TestSealedAnswer(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"the answer", strings.Repeat("ä", schema.MaxBody+1)} {
		w := signingWorkspace(t)
		send(t, w, toClaude())
		if _, err := runOnce(t, w, Config{Agent: "claude", Reply: true, NewDriver: says(text)}); err != nil {
			t.Fatal(err)
		}
		answer := entries(t, w, "claude", mailbox.Outbox)
		if len(answer) != 1 || answer[0].Message.Auth == "" {
			t.Fatalf("the answer is %v", answer)
		}
		before := check.ReadFile(t, answer[0].Path)
		var journal string // until the turn succeeded
		for line := range strings.Lines(check.ReadFile(t, filepath.Join(w.Dir(), "state/turns/claude.jsonl"))) {
			journal += line
			if strings.Contains(line, `"fact":"succeeded"`) {
				break
			}
		}
		for name, now := range map[string]string{"same": journal, "changed": strings.ReplaceAll(strings.ReplaceAll(journal, text[:8], "THE TEXT"), "the answer", "THE TEXT")} {
			for _, e := range append(entries(t, w, "claude", mailbox.Outbox), entries(t, w, "codex", mailbox.Inbox)...) {
				if err := os.Remove(e.Path); err != nil {
					t.Fatal(err)
				}
			}
			writeJournal(t, w, now)
			rec, err := runOnce(t, w, Config{Agent: "claude"})
			if err != nil {
				t.Fatal(err)
			}
			sent := entries(t, w, "claude", mailbox.Outbox)
			switch {
			case name == "changed" && (len(sent) != 0 || len(rec.of(EventUnsendable)) != 1):
				t.Errorf("%.10s: the changed answer was sent: %v, %s", text, sent, rec.kinds())
			case name == "same" && (len(sent) != 1 || check.ReadFile(t, sent[0].Path) != before):
				t.Errorf("%.10s: the answer was not sent as it was: %v", text, sent)
			}
		}
	}
}

// TestForgedReasons checks that what a journal says of earlier turns gets into nothing that the agent signs.
func TestForgedReasons(t *testing.T) {
	t.Parallel()
	w := signingWorkspace(t)
	m := send(t, w, toClaude())[0]
	k := track.KeyOf(m)
	writeJournal(t, w, fmt.Sprintf(`{"at":"2026-03-13T14:31:00Z","fact":"started","id":%q,"fingerprint":%q,"from":"codex","attempt":3,"subject":"EVIL"}
{"at":"2026-03-13T14:31:00Z","fact":"failed","id":%[1]q,"fingerprint":%[2]q,"reason":"EVIL","output":"EVIL"}
`, k.ID, k.Fingerprint))
	if _, err := runOnce(t, w, Config{Agent: "claude"}); err == nil {
		t.Error("the run succeeded, want a dead letter")
	}
	bounces := entries(t, w, "codex", mailbox.Inbox)
	if len(bounces) != 1 || strings.Contains(bounces[0].Message.File, "EVIL") || !strings.Contains(bounces[0].Message.File, "oacp status") {
		t.Errorf("the sender got %+v", bounces)
	}
}
