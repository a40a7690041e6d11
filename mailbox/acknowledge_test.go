package mailbox

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
)

// received sends a message and returns its entry in the inbox of codex.
func received(t testing.TB, w *Workspace) Entry {
	t.Helper()
	send(t, w, draft("codex"))
	entries, err := w.Inbox(t.Context(), "codex")
	if err != nil || len(entries) == 0 {
		t.Fatalf("the inbox holds %v (%v), want the message", entries, err)
	}
	return entries[0]
}

// dealings are the ways to take a message out of an inbox.
var dealings = []struct {
	name string
	deal func(w *Workspace, e Entry) error
}{
	{"remove", (*Workspace).Remove}, // as older tools acknowledge
	{"acknowledge", (*Workspace).Acknowledge},
	{"bury", func(w *Workspace, e Entry) error {
		_, err := w.DeadLetter(e, DeadLetterReason{Reason: "the command failed"})
		return err
	}},
}

// TestOneDealsWithAMessage checks that one of many callers succeeds and that the others get an
// error that matches IsGone.
func TestOneDealsWithAMessage(t *testing.T) {
	const many = 8
	for _, dealing := range dealings {
		t.Run(dealing.name, func(t *testing.T) {
			w := newWorkspace(t, "claude", "codex")
			e := received(t, w)
			var dealt atomic.Int32
			var group sync.WaitGroup
			for range many {
				group.Go(func() {
					switch err := dealing.deal(w, e); {
					case err == nil:
						dealt.Add(1)
					case !IsGone(err):
						t.Errorf("a loser got %v, want IsGone", err)
					}
				})
			}
			group.Wait()
			if dealt.Load() != 1 {
				t.Errorf("%d of %d dealt with the message, want one", dealt.Load(), many)
			}
			wantFiles(t, w, "agents/codex/inbox")
			kept := len(files(t, w, "agents/codex/inbox/archive"))
			for _, name := range files(t, w, "agents/codex/dead_letter") {
				if schema.IsMessageFile(name) {
					kept++
				}
			}
			if want := map[bool]int{true: 0, false: 1}[dealing.name == "remove"]; kept != want {
				t.Errorf("%d copies are kept, want %d", kept, want)
			}
			wantFiles(t, w, "agents/claude/outbox", e.Name)
		})
	}
}

// TestAcknowledgeAndBuryReplaceNothing acknowledges and buries several files of one name.
func TestAcknowledgeAndBuryReplaceNothing(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	const name = "20260313T1430Z_claude_task_request"
	for i := range 3 {
		m := message(fmt.Sprintf("aaa%d", i), i)
		place(t, w, "codex", Inbox, name+".yaml", m)
		e := Entry{Agent: "codex", Box: Inbox, Name: name + ".yaml", Message: &m}
		for range 2 { // the second time, the archive has the same bytes
			if err := w.Acknowledge(e); err != nil {
				t.Errorf("acknowledging %s gave %v", m.ID, err)
			}
			place(t, w, "codex", Inbox, name+".yaml", m)
		}
		for _, because := range []string{"first", "second"} { // the second time, the dead letters have the same bytes
			place(t, w, "codex", Inbox, name+".yaml", m)
			path, err := w.DeadLetter(e, DeadLetterReason{Reason: because})
			if err != nil || !strings.Contains(check.ReadFile(t, path), string(m.ID)) {
				t.Errorf("burying at %s gave %v, want message %s there", path, err, m.ID)
			}
			buried := Entry{Agent: "codex", Box: DeadLetters, Name: filepath.Base(path)}
			if reason, err := w.Reason(buried); err != nil || reason.ID != m.ID || reason.Reason != "first" {
				t.Errorf("the reason for %s is %+v (%v), want the first one of %s", path, reason, err, m.ID)
			}
		}
	}
	wantFiles(t, w, "agents/codex/inbox")
	wantFiles(t, w, "agents/codex/inbox/archive", name+"-2.yaml", name+"-3.yaml", name+".yaml")
	for i, suffix := range []string{"", "-2", "-3"} {
		m := message(fmt.Sprintf("aaa%d", i), i)
		if text := check.ReadFile(t, filepath.Join(w.BoxPath("codex", Archive), name+suffix+".yaml")); !strings.Contains(text, string(m.ID)) {
			t.Errorf("the archive has %q as %s%s, want message %s", text, name, suffix, m.ID)
		}
	}
	wantFiles(t, w, "agents/codex/dead_letter", name+"-2.yaml", name+"-2.yaml.reason.json",
		name+"-3.yaml", name+"-3.yaml.reason.json", name+".yaml", name+".yaml.reason.json")
}

func TestBuryKeepsTheReason(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	e := received(t, w)
	given := DeadLetterReason{Reason: "exit status 1\nthrice", Attempts: 3, Output: "panic: \x1b[31m\"no\""}
	path, err := w.DeadLetter(e, given)
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.Reason(Entry{Agent: "codex", Name: filepath.Base(path)})
	if err != nil {
		t.Fatal(err)
	}
	want := given
	want.ID, want.From, want.At = e.Message.ID, "claude", schema.NewTimestamp(testTime)
	if got != want {
		t.Errorf("the reason is %+v, want %+v", got, want)
	}
}

func TestBuryTakesABadFile(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	check.WriteFile(t, filepath.Join(w.BoxPath("codex", Inbox), "bad.yaml"), "id: [")
	entries, err := w.Inbox(t.Context(), "codex")
	if err != nil || len(entries) != 1 {
		t.Fatalf("the inbox lists %v (%v), want the bad file", entries, err)
	}
	if _, err := w.DeadLetter(entries[0], DeadLetterReason{Reason: "cannot be read"}); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, w, "agents/codex/inbox")
	wantFiles(t, w, "agents/codex/dead_letter", "bad.yaml", "bad.yaml.reason.json")
}

// TestFaultsWhileBurying makes each operation fail or be the last one. The message is either in the
// inbox or a dead letter, a dead letter has its reason, and burying the message again succeeds.
func TestFaultsWhileBurying(t *testing.T) {
	operations := func(w *Workspace, e Entry, failAt int, cause error) (*faulty, error) {
		f := &faulty{Disk: durable.Disk{}, failAt: failAt, err: cause, torn: cause == errCrash}
		w.files = f
		_, err := w.DeadLetter(e, DeadLetterReason{Reason: "because"})
		w.files = durable.Disk{}
		return f, err
	}
	w := newWorkspace(t, "claude", "codex")
	f, err := operations(w, received(t, w), -1, nil)
	if err != nil || f.done < 5 {
		t.Fatalf("burying does %d operations (%v), want at least 5: is the seam still in use?", f.done, err)
	}
	for failAt := range f.done {
		for _, cause := range []error{errCrash, syscall.ENOSPC} {
			w := newWorkspace(t, "claude", "codex")
			e := received(t, w)
			f, err := operations(w, e, failAt, cause)
			if !errors.Is(err, cause) {
				t.Errorf("%s failed: burying gave %v, want %v", f.name, err, cause)
			}
			inbox, letters, reasons := whereIs(t, w)
			if inbox+letters != 1 || letters > reasons {
				t.Errorf("%s failed with %v: %d in the inbox, %d dead letters, %d reasons; want one message, and a dead letter only with its reason", f.name, cause, inbox, letters, reasons)
			}
			if cause == syscall.ENOSPC && inbox == 1 && reasons != 0 {
				t.Errorf("%s failed: a reason without its letter stays behind", f.name)
			}
			if inbox == 1 {
				if _, err := w.DeadLetter(e, DeadLetterReason{Reason: "because"}); err != nil {
					t.Errorf("%s failed: burying again: %v", f.name, err)
				}
				if inbox, letters, reasons := whereIs(t, w); inbox != 0 || letters != 1 || reasons != 1 {
					t.Errorf("%s failed: buried again, there are %d in the inbox, %d dead letters and %d reasons", f.name, inbox, letters, reasons)
				}
			}
		}
	}
}

// whereIs counts the messages of codex and the reasons of its dead letters.
func whereIs(t *testing.T, w *Workspace) (inbox, letters, reasons int) {
	t.Helper()
	for _, name := range files(t, w, "agents/codex/dead_letter") {
		if schema.IsMessageFile(name) {
			letters++
		}
		if strings.HasSuffix(name, ReasonSuffix) {
			reasons++
		}
	}
	return len(files(t, w, "agents/codex/inbox")), letters, reasons
}

// TestDealingStaysInTheMailbox checks that an entry cannot name a file outside the mailbox.
func TestDealingStaysInTheMailbox(t *testing.T) {
	for _, dealing := range dealings {
		w := newWorkspace(t, "claude", "codex")
		e := received(t, w)
		for _, bad := range []Entry{
			{Agent: "codex", Box: Inbox, Name: "../../../workspace.json"},
			{Agent: "..", Box: Inbox, Name: "workspace.json"},
			{Agent: "codex", Box: "../..", Name: "../workspace.json"},
		} {
			before := tree(t, w)
			if err := dealing.deal(w, bad); err == nil {
				t.Errorf("%s of %s/%s/%s gave no error", dealing.name, bad.Agent, bad.Box, bad.Name)
			}
			if after := tree(t, w); withoutFolder(after, "archive") != withoutFolder(before, "archive") {
				t.Errorf("%s of %+v changed the workspace to\n%s", dealing.name, bad, after)
			}
		}
		if _, err := os.Stat(e.Path); err != nil {
			t.Errorf("%s: the message is missing: %v", dealing.name, err)
		}
	}
}

// withoutFolder removes a folder from a tree, because archives are made on demand.
func withoutFolder(tree, name string) string {
	var kept []string
	for path := range strings.SplitSeq(tree, "\n") {
		if filepath.Base(path) != name {
			kept = append(kept, path)
		}
	}
	return strings.Join(kept, "\n")
}

// countingSyncs counts the syncs of folders by their paths.
type countingSyncs struct {
	durable.Disk
	of map[string]int
}

func (c *countingSyncs) SyncDir(dir *durable.Dir) error {
	c.of[filepath.Base(dir.Path(""))]++
	return c.Disk.SyncDir(dir)
}

// TestAcknowledgeSyncsOnce acknowledges many messages: each of the two folders is synced once.
func TestAcknowledgeSyncsOnce(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	if err := w.Acknowledge(received(t, w)); err != nil { // it makes the archive
		t.Fatal(err)
	}
	for range 5 {
		send(t, w, draft("codex"))
	}
	entries, err := w.Inbox(t.Context(), "codex")
	if err != nil {
		t.Fatal(err)
	}
	syncs := &countingSyncs{of: make(map[string]int)}
	w.files = syncs
	for _, err := range w.AcknowledgeAll(entries) {
		if err != nil {
			t.Error(err)
		}
	}
	if want := map[string]int{"inbox": 1, "archive": 1}; !maps.Equal(syncs.of, want) {
		t.Errorf("the syncs are %v, want %v", syncs.of, want)
	}
}

// TestFaultsWhileAcknowledging makes each operation fail or be the last one. The message is in the
// inbox or the archive, whole, and acknowledging what is in the inbox again succeeds.
func TestFaultsWhileAcknowledging(t *testing.T) {
	for _, cause := range []error{errCrash, syscall.EIO} {
		for failAt, reached := 0, true; reached; failAt++ {
			w := newWorkspace(t, "claude", "codex")
			e := received(t, w)
			sent := check.ReadFile(t, e.Path)
			f := &faulty{Disk: durable.Disk{Sync: true}, failAt: failAt, err: cause}
			w.files = f
			err := w.Acknowledge(e)
			w.files = durable.Disk{}
			if reached = f.name != ""; reached != errors.Is(err, cause) {
				t.Errorf("%q failed: %v, want %v", f.name, err, cause)
			}
			_, isUnsynced := errors.AsType[*NotDurableError](err)
			if moved := len(files(t, w, "agents/codex/inbox")) == 0; cause == syscall.EIO && reached && moved != isUnsynced {
				t.Errorf("%q failed: moved=%t, and the error is %v", f.name, moved, err)
			}
			if failAt == 0 && !reached {
				t.Fatal("acknowledging has no operations: is the seam still in use?")
			}
			if len(files(t, w, "agents/codex/inbox")) == 1 {
				if err := w.Acknowledge(e); err != nil {
					t.Errorf("after a fault at %q: %v", f.name, err)
				}
			}
			wantFiles(t, w, "agents/codex/inbox")
			wantFiles(t, w, "agents/codex/inbox/archive", e.Name)
			if got := check.ReadFile(t, filepath.Join(w.BoxPath("codex", Archive), e.Name)); got != sent {
				t.Errorf("the archive has %q, want %q", got, sent)
			}
		}
	}
}
