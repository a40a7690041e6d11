package mailbox

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
)

// badNames are names of files that Inbox lists although they are not messages.
var badNames = []string{"bad.yaml", "-x.yaml", "a b.yaml", "it's $(x).yaml", "a\nb.yaml", "naïve.yaml", "msg-x.yaml"}

// TestPendingTakesWhatInboxLists checks that every row of an inbox can be named and acknowledged.
func TestPendingTakesWhatInboxLists(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	r := send(t, w, draft("codex"))
	inbox := w.BoxPath("codex", Inbox)
	for _, name := range badNames {
		if err := os.WriteFile(filepath.Join(inbox, name), []byte("id: ["), 0o644); err != nil {
			t.Logf("this system has no files called %q", name)
		}
	}
	if err := os.Mkdir(filepath.Join(inbox, "folder.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside.yaml")
	check.WriteFile(t, outside, "id: [")
	if err := os.Symlink(outside, filepath.Join(inbox, "link.yaml")); err != nil {
		t.Logf("this file system has no links: %v", err)
	}
	entries, err := w.Inbox(t.Context(), "codex")
	if err != nil || len(entries) < 3 {
		t.Fatalf("the inbox lists %d files (%v)", len(entries), err)
	}
	for _, listed := range entries {
		e, err := w.Pending(t.Context(), listed.Name, "")
		if err != nil || e.Path != listed.Path || (e.Message == nil) != (listed.Message == nil) {
			t.Errorf("the file %q is found as %+v (%v)", listed.Name, e, err)
			continue
		}
		if err := w.Acknowledge(e); err != nil {
			t.Errorf("acknowledging %q: %v", listed.Name, err)
		}
	}
	wantFiles(t, w, "agents/codex/inbox")
	if check.ReadFile(t, outside) != "id: [" {
		t.Error("acknowledging a link changed its target")
	}
	if _, err := w.Pending(t.Context(), string(r.Message.ID), ""); err == nil {
		t.Error("the acknowledged message is still found")
	}
}

// TestInboxFileNamesInboxFilesOnly checks that a name finds only files that Inbox lists.
func TestInboxFileNamesInboxFilesOnly(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	inbox := w.BoxPath("codex", Inbox)
	if err := os.Mkdir(filepath.Join(inbox, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"sub/x.yaml", ".hidden.yaml", "notes.txt", "../x.yaml"} {
		check.WriteFile(t, filepath.Join(inbox, path), "id: [")
	}
	bad := []string{"", ".", "..", "sub/x.yaml", "./sub/x.yaml", "../x.yaml", "../inbox/sub/x.yaml", ".hidden.yaml", "notes.txt",
		"missing.yaml", filepath.Join(inbox, "sub", "x.yaml"), "x.yaml\x00", ".yaml"}
	for _, agent := range []schema.AgentName{"", "codex"} {
		for _, name := range bad {
			e, err := w.FindNamed(t.Context(), name, agent)
			var missing *NotFoundError
			if !errors.As(err, &missing) {
				t.Errorf("%q in the inbox of %q is %+v (%v), want a *NotFoundError", name, agent, e, err)
			}
		}
	}
	var unknown *UnknownAgentError
	if _, err := w.FindNamed(t.Context(), "x.yaml", "nobody"); !errors.As(err, &unknown) {
		t.Errorf("an unknown agent gave %v, want an *UnknownAgentError", err)
	}
}

// TestOneMessageInSeveralFiles checks that the error names the files, which Pending finds by name, unless only one
// of them has the name that we give.
func TestOneMessageInSeveralFiles(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	r := send(t, w, draft("codex", "gemini"))
	inbox := w.BoxPath("codex", Inbox)
	if err := copyFile(r.Inboxes[0], filepath.Join(inbox, "copy.yaml")); err != nil {
		t.Fatal(err)
	}
	if e, err := w.Pending(t.Context(), string(r.Message.ID), "codex"); err != nil || e.Path != r.Inboxes[0] {
		t.Errorf("the pending copy is %+v (%v), want the file with our name", e, err)
	}
	want := []string{"another.yaml", "copy.yaml"}
	if err := os.Rename(r.Inboxes[0], filepath.Join(inbox, want[0])); err != nil {
		t.Fatal(err)
	}
	_, err := w.Pending(t.Context(), string(r.Message.ID), "codex")
	check.Error(t, err, "is in 2 files of the inbox of codex: ", want[0], want[1])
	_, err = w.Pending(t.Context(), string(r.Message.ID), "")
	check.Error(t, err, "is in the inboxes of codex, gemini")
	for _, name := range want {
		if e, err := w.Pending(t.Context(), name, "codex"); err != nil || e.Name != name {
			t.Errorf("%s is %+v (%v)", name, e, err)
		}
	}
}

func TestInboxFileInSeveralInboxes(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	for _, agent := range []schema.AgentName{"codex", "gemini"} {
		check.WriteFile(t, filepath.Join(w.BoxPath(agent, Inbox), "bad.yaml"), "id: [")
	}
	_, err := w.Pending(t.Context(), "bad.yaml", "")
	check.Error(t, err, "bad.yaml is in the inboxes of codex, gemini")
	if e, err := w.Pending(t.Context(), "bad.yaml", "gemini"); err != nil || e.Agent != "gemini" {
		t.Errorf("the file of gemini is %+v (%v)", e, err)
	}
	// An unreadable inbox may have the file, too, so the agent must be named.
	check.Remove(t, w.BoxPath("codex", Inbox))
	check.WriteFile(t, w.BoxPath("codex", Inbox), "no folder")
	if e, err := w.Pending(t.Context(), "bad.yaml", "gemini"); err != nil || e.Agent != "gemini" {
		t.Errorf("next to an unreadable inbox, the file of gemini is %+v (%v)", e, err)
	}
	var unreadable *UnreadableError
	_, err = w.Pending(t.Context(), "bad.yaml", "")
	if !errors.As(err, &unreadable) {
		t.Errorf("next to an unreadable inbox, the file gives %v, want an *UnreadableError", err)
	}
	check.Error(t, err, "codex/inbox")
	_, err = w.FindNamed(t.Context(), "other.yaml", "")
	check.Error(t, err, "other.yaml", "codex/inbox")
}
