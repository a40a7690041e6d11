package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// trouble is a problem that Inspect finds.
type trouble struct {
	name string
	// make causes the problem in a workspace of claude and codex.
	make func(t *testing.T, w *mailbox.Workspace)
	// category and finding locate the finding; severity and words are its expected contents.
	category, finding string
	severity          Severity
	words             []string
}

func placeAt(name string, change func(*schema.Message)) func(*testing.T, *mailbox.Workspace) {
	return func(t *testing.T, w *mailbox.Workspace) {
		t.Helper()
		m := mailboxtest.Message("aaaa", 0)
		change(&m)
		mailboxtest.Place(t, w, "codex", mailbox.Inbox, name, m)
	}
}

var troubles = []trouble{
	{"no marker", func(t *testing.T, w *mailbox.Workspace) { check.Remove(t, filepath.Join(w.Dir(), schema.MarkerName)) },
		"Workspace", "workspace.json", SeverityWarning, []string{"missing"}},
	{"empty marker", func(t *testing.T, w *mailbox.Workspace) {
		check.WriteFile(t, filepath.Join(w.Dir(), schema.MarkerName), "")
	},
		"Workspace", "workspace.json", SeverityError, []string{"unexpected end"}},
	{"marker is not JSON", func(t *testing.T, w *mailbox.Workspace) {
		check.WriteFile(t, filepath.Join(w.Dir(), schema.MarkerName), "{project")
	},
		"Workspace", "workspace.json", SeverityError, []string{"cannot be read", "invalid character"}},
	{"marker leads out", func(t *testing.T, w *mailbox.Workspace) {
		check.Remove(t, filepath.Join(w.Dir(), schema.MarkerName))
		if err := os.Symlink(filepath.Join(t.TempDir(), "other.json"), filepath.Join(w.Dir(), schema.MarkerName)); err != nil {
			t.Fatal(err)
		}
	}, "Workspace", "workspace.json", SeverityError, []string{"cannot be read", "symbolic link"}},
	{"inbox is a file", func(t *testing.T, w *mailbox.Workspace) {
		check.Remove(t, w.BoxPath("codex", mailbox.Inbox))
		check.WriteFile(t, w.BoxPath("codex", mailbox.Inbox), "")
	}, "Mailboxes", "agents/codex/inbox", SeverityError, []string{"agents/codex/inbox"}},
	{"inbox leads out", func(t *testing.T, w *mailbox.Workspace) {
		check.Remove(t, w.BoxPath("codex", mailbox.Inbox))
		if err := os.Symlink(t.TempDir(), w.BoxPath("codex", mailbox.Inbox)); err != nil {
			t.Fatal(err)
		}
	}, "Mailboxes", "agents/codex/inbox", SeverityError, []string{"symbolic link"}},
	{"stuck copy", func(t *testing.T, w *mailbox.Workspace) {
		r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
		unpublish(t, w, r.Message.ID, "codex", mailbox.Inbox, r.Inboxes[0])
	}, "Delivery", "msg-2026", SeverityWarning, []string{"state/outgoing"}},
	{"bad file", func(t *testing.T, w *mailbox.Workspace) {
		check.WriteFile(t, filepath.Join(w.BoxPath("codex", mailbox.Inbox), "bad.yaml"), "id: [")
	}, "Inbox Health", "agents/codex/inbox/bad.yaml", SeverityError, []string{"1:5"}},
	{"stale", placeAt("a.yaml", func(m *schema.Message) { m.CreatedAt = "2026-03-12T14:29:59Z" }),
		"Inbox Health", "codex/inbox", SeverityWarning, []string{"1 pending", "a.yaml", "pending since", "2026-03-12"}},
	{"interrupted delivery", func(t *testing.T, w *mailbox.Workspace) {
		path := filepath.Join(w.Dir(), outgoingName, "msg-20260313T1430Z-codex-0123456789abcdef@codex@outbox")
		check.WriteFile(t, path, "id: ")
		old := time.Now().Add(-2 * time.Hour)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}, "Delivery", "msg-20260313T1430Z-codex-0123456789abcdef", SeverityWarning, []string{"state/outgoing"}},
}

func TestInspectFindsNothingInAGoodWorkspace(t *testing.T) {
	w := mailboxtest.New(t, "claude", "codex")
	mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	before := check.Contents(t, w.Dir())
	findings := inspect(t, w)
	for _, f := range findings {
		if f.Severity != SeverityOK && f.Category != "Trust Root" {
			t.Errorf("a good workspace has the finding %+v", f)
		}
	}
	for _, category := range []string{"Workspace", "Mailboxes", "Delivery", "Inbox Health"} {
		if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Category == category }) {
			t.Errorf("no finding of category %s", category)
		}
	}
	if after := check.Contents(t, w.Dir()); len(after) != len(before) {
		t.Errorf("inspecting changed the workspace to %v", after)
	}
	check.Kept(t, w.Dir(), before)
}

func unset(*mailbox.Workspace, schema.AgentName) (project.Autonomy, error) { return "", nil }

func inspect(t *testing.T, w *mailbox.Workspace) []Finding {
	t.Helper()
	findings, err := Inspect(t.Context(), w, Options{Now: mailboxtest.Time, Autonomy: unset, Notify: silent})
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

func TestInspectFinds(t *testing.T) {
	for _, trouble := range troubles {
		t.Run(trouble.name, func(t *testing.T) {
			w := mailboxtest.New(t, "claude", "codex")
			trouble.make(t, w)
			before := check.Contents(t, w.Dir())
			found, ok := find(inspect(t, w), trouble)
			if !ok {
				t.Fatalf("no finding %s: %s; there are %+v", trouble.category, trouble.finding, inspect(t, w))
			}
			check.Kept(t, w.Dir(), before)
			if found.Severity != trouble.severity {
				t.Errorf("the finding is %+v, want severity %s", found, trouble.severity)
			}
			check.Error(t, errors.New(found.Message), trouble.words...)
		})
	}
}

// find returns the finding of the trouble, if it is among them.
func find(findings []Finding, want trouble) (Finding, bool) {
	for _, f := range findings {
		if f.Category == want.category && strings.HasPrefix(f.Name, want.finding) && f.Severity != SeverityOK {
			return f, true
		}
	}
	return Finding{}, false
}

// TestRepairOfAKilledDelivery checks that Repair sweeps an old delivery but not one that may
// still be running.
func TestRepairOfAKilledDelivery(t *testing.T) {
	w := mailboxtest.New(t, "claude", "codex", "gemini")
	r := mailboxtest.Send(t, w, mailboxtest.Draft("codex", "gemini"))
	unpublish(t, w, r.Message.ID, "claude", mailbox.Outbox, r.Outbox)
	unpublish(t, w, r.Message.ID, "codex", mailbox.Inbox, r.Inboxes[0])
	unpublish(t, w, r.Message.ID, "gemini", mailbox.Inbox, r.Inboxes[1])
	for _, old := range []bool{false, true} {
		want := 3
		if old {
			want = 0
			for _, name := range mailboxtest.Files(t, w, outgoingName) {
				at := time.Now().Add(-2 * time.Hour)
				if err := os.Chtimes(filepath.Join(w.Dir(), outgoingName, name), at, at); err != nil {
					t.Fatal(err)
				}
			}
		}
		done, _ := repair(t, w)
		if len(mailboxtest.Files(t, w, outgoingName)) != want || len(done) != 3-want {
			t.Errorf("old=%t: the repair did %q and left %q", old, done, mailboxtest.Files(t, w, outgoingName))
		}
	}
}

// TestRepairSaysAllThatItDid delivers a message to two agents, of which one copy arrives and the other
// cannot.
func TestRepairSaysAllThatItDid(t *testing.T) {
	w := mailboxtest.New(t, "claude", "codex", "gemini")
	r := mailboxtest.Send(t, w, mailboxtest.Draft("codex", "gemini"))
	unpublish(t, w, r.Message.ID, "codex", mailbox.Inbox, r.Inboxes[0])
	unpublish(t, w, r.Message.ID, "gemini", mailbox.Inbox, r.Inboxes[1])
	check.Remove(t, w.BoxPath("gemini", mailbox.Inbox))
	check.WriteFile(t, w.BoxPath("gemini", mailbox.Inbox), "no folder")
	done, left := repair(t, w)
	if found, ok := find(left, trouble{category: "Not repaired"}); !ok || !strings.Contains(found.Message, "gemini/inbox") {
		t.Errorf("the findings are %+v, want what was not repaired", left)
	}
	if len(done) != 1 || !strings.HasPrefix(done[0], "delivered "+w.BoxPath("codex", mailbox.Inbox)) {
		t.Errorf("the repair did %q, want the delivery to codex", done)
	}
}

// repair repairs what is safe to repair.
func repair(t *testing.T, w *mailbox.Workspace) (done []string, left []Finding) {
	t.Helper()
	done, left, err := Repair(t.Context(), w, Options{Now: mailboxtest.Time, Autonomy: unset, Notify: silent})
	if err != nil {
		t.Fatal(err)
	}
	return done, left
}

func TestInspectAReadOnlyMailbox(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("permissions refuse nothing to root")
	}
	w := mailboxtest.New(t, "claude", "codex")
	inbox := w.BoxPath("codex", mailbox.Inbox)
	if err := os.Chmod(inbox, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(inbox, 0o755) })
	found, ok := find(inspect(t, w), trouble{category: "Mailboxes", finding: "agents/codex/inbox"})
	if !ok || found.Severity != SeverityError {
		t.Errorf("a read-only inbox gives %+v, want an error", found)
	}
	_, err := w.Send(t.Context(), mailboxtest.Draft("codex"), nil)
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("sending to a read-only inbox gave %v, want fs.ErrPermission", err)
	}
	if left := append(mailboxtest.Files(t, w, "agents/claude/outbox"), mailboxtest.Files(t, w, outgoingName)...); len(left) > 0 {
		t.Errorf("the refused message left %q", left)
	}
}
