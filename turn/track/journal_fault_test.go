package track

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
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

func withJournalFaults(t *testing.T) (*Journal, *faultyJournal) {
	t.Helper()
	j := openJournal(t)
	f := &faultyJournal{journalFile: j.file, room: -1}
	j.file = f
	return j, f
}

// TestDurableFacts checks that a durable fact is synced before append returns, that other facts are
// not, and that a failed sync is an error until a sync succeeds.
func TestDurableFacts(t *testing.T) {
	j, f := withJournalFaults(t)
	j.mustAppend(t, Started.About(recordNumber(1)))
	if f.syncs != 0 {
		t.Errorf("%d syncs after a fact that need not be durable, want none", f.syncs)
	}
	if err := j.Append(Succeeded.About(recordNumber(1)), true); err != nil || f.syncs != 1 {
		t.Errorf("append = %v with %d syncs, want one sync", err, f.syncs)
	}
	f.failSync = true
	if err := j.Append(Started.About(recordNumber(2)), true); !errors.Is(err, errFault) {
		t.Errorf("append = %v, want that of the sync", err)
	}
	if err := j.Append(Started.About(recordNumber(3)), true); err != nil || f.syncs != 3 {
		t.Errorf("append = %v with %d syncs, want a third one", err, f.syncs)
	}
}

// TestJournalOnFullDisk checks that a fact for which there is no room leaves nothing in the journal,
// however much of it was written, and that the next fact is appended cleanly.
func TestJournalOnFullDisk(t *testing.T) {
	for _, room := range []int{0, 1, 40, 80} {
		j, f := withJournalFaults(t)
		j.mustAppend(t, Started.About(recordNumber(1)))
		f.room = room
		if err := j.Append(Started.About(recordNumber(2)), true); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), j.Path) {
			t.Errorf("append = %v, want ENOSPC and the path", err)
		}
		j.mustAppend(t, Started.About(recordNumber(3)))
		data, err := os.ReadFile(j.Path)
		if err != nil {
			t.Fatal(err)
		}
		wantTexts(t, "facts", factKinds(t, data), "started", "started")
		if strings.Contains(string(data), string(recordNumber(2).ID)) {
			t.Errorf("after %d bytes the journal holds a part of the lost fact: %q", room, data)
		}
		if _, known := j.Get(recordNumber(2).Key); known {
			t.Error("the history has the lost fact")
		}
	}
}
