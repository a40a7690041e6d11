package turn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
)

var errFault = errors.New("injected fault")

// faultyJournal is a journal's file that counts syncs, and fails on demand.
type faultyJournal struct {
	journalFile
	syncs    int
	failSync bool
	room     int // bytes that the next write takes before the disk is full; negative: no limit
}

func (f *faultyJournal) Write(p []byte) (int, error) {
	if f.room < 0 {
		return f.journalFile.Write(p)
	}
	n, err := f.journalFile.Write(p[:min(f.room, len(p))])
	f.room = -1
	return n, errors.Join(syscall.ENOSPC, err)
}

func (f *faultyJournal) Sync() error {
	f.syncs++
	if f.failSync {
		f.failSync = false
		return errFault
	}
	return f.journalFile.Sync()
}

func withJournalFaults(t *testing.T) (*journal, *faultyJournal) {
	t.Helper()
	j := newJournal(t)
	f := &faultyJournal{journalFile: j.file, room: -1}
	j.file = f
	return j, f
}

// TestDurableFacts checks that a durable fact is synced before append returns, that other facts are
// not, and that a failed sync is an error until a sync succeeds.
func TestDurableFacts(t *testing.T) {
	j, f := withJournalFaults(t)
	j.mustAppend(t, started.about(recordNumber(1)))
	if f.syncs != 0 {
		t.Errorf("%d syncs after a fact that need not be durable, want none", f.syncs)
	}
	if err := j.append(succeeded.about(recordNumber(1)), true); err != nil || f.syncs != 1 {
		t.Errorf("append = %v with %d syncs, want one sync", err, f.syncs)
	}
	f.failSync = true
	if err := j.append(started.about(recordNumber(2)), true); !errors.Is(err, errFault) {
		t.Errorf("append = %v, want that of the sync", err)
	}
	if err := j.append(started.about(recordNumber(3)), true); err != nil || f.syncs != 3 {
		t.Errorf("append = %v with %d syncs, want a third one", err, f.syncs)
	}
}

// TestJournalOnFullDisk checks that a fact for which there is no room leaves nothing in the journal,
// however much of it was written, and that the next fact is appended cleanly.
func TestJournalOnFullDisk(t *testing.T) {
	for _, room := range []int{0, 1, 40, 80} {
		j, f := withJournalFaults(t)
		j.mustAppend(t, started.about(recordNumber(1)))
		f.room = room
		if err := j.append(started.about(recordNumber(2)), true); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), j.path) {
			t.Errorf("append = %v, want ENOSPC and the path", err)
		}
		j.mustAppend(t, started.about(recordNumber(3)))
		data, err := os.ReadFile(j.path)
		if err != nil {
			t.Fatal(err)
		}
		wantTexts(t, "facts", factKinds(t, data), "started", "started")
		if strings.Contains(string(data), string(recordNumber(2).ID)) {
			t.Errorf("after %d bytes the journal holds a part of the lost fact: %q", room, data)
		}
		if _, known := j.get(recordNumber(2).key); known {
			t.Error("the history has the lost fact")
		}
	}
}

// TestJournalOfLostInbox checks that a Runner that no longer holds its lock writes nothing, although
// the journal itself is in place, and even before the Runner checks its lock again.
func TestJournalOfLostInbox(t *testing.T) {
	w := newWorkspace(t)
	send(t, w, question("one"))
	r, rec := newRunner(t, w, Config{NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
		return agent.Result{Text: "ok"}, os.RemoveAll(filepath.Join(w.Dir(), runFolder))
	})})
	r.poll = time.Hour
	rec.on = func(e Event) {
		if e.Kind == EventAcknowledged {
			r.Finish()
		}
	}
	if err := r.Run(t.Context()); !errors.Is(err, ErrStateLost) {
		t.Errorf("Run = %v, want ErrStateLost", err)
	}
	data, err := os.ReadFile(r.journal.path)
	if err != nil {
		t.Fatal(err)
	}
	wantTexts(t, "facts", factKinds(t, data), "started")
}

// fullDisk is a journal's file on a disk without space.
type fullDisk struct{ journalFile }

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestOnceWithoutJournal fills the disk during a turn. A run with Once ends: it must neither wait without
// end nor begin a second turn.
func TestOnceWithoutJournal(t *testing.T) {
	w := newWorkspace(t)
	send(t, w, question("one"), question("two"))
	turns := 0
	var r *Runner
	r, rec := newRunner(t, w, Config{Once: true, NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
		turns++
		r.journal.mu.Lock()
		defer r.journal.mu.Unlock()
		r.journal.file = fullDisk{r.journal.file}
		return agent.Result{Text: "ok"}, nil
	})})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.Run(ctx); !errors.Is(err, syscall.ENOSPC) || turns != 1 {
		t.Errorf("Run = %v after %d turns, want the error of the disk after one; events %s", err, turns, rec.kinds())
	}
	if got := len(subjects(t, w, "codex", mailbox.Inbox)); got != 2 {
		t.Errorf("%d messages in the inbox, want both", got)
	}
}

// TestKilledCompactions checks that a Runner removes what killed compactions of its journal left, and
// nothing of another agent.
func TestKilledCompactions(t *testing.T) {
	w := newWorkspace(t)
	folder := filepath.Join(w.Dir(), filepath.FromSlash(turnsFolder))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".codex.jsonl.tmp-1a", ".codex.jsonl.old.tmp-2b", ".claude.jsonl.tmp-3c"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := runOnce(t, w, Config{}); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(folder, ".*.tmp-*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != ".claude.jsonl.tmp-3c" {
		t.Errorf("left are %q (%v), want those of another agent", left, err)
	}
}
