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
