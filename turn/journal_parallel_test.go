package turn

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// TestAppendThatFails checks that a failed append leaves no trace and that the next one succeeds.
func TestAppendThatFails(t *testing.T) {
	j := newJournal(t)
	j.mustAppend(t, started.about(recordNumber(99)))
	before, err := os.ReadFile(j.path)
	if err != nil {
		t.Fatal(err)
	}
	writable := j.file
	if j.file, err = os.Open(j.path); err != nil {
		t.Fatal(err)
	}
	if err := j.append(started.about(recordNumber(1)), true); err == nil || !strings.Contains(err.Error(), j.path) {
		t.Errorf("append = %v, want an error naming the journal", err)
	}
	if err := j.file.Close(); err != nil {
		t.Error(err)
	}
	j.file = writable
	after, err := os.ReadFile(j.path)
	if err != nil || string(after) != string(before) || len(j.history.records) != 1 {
		t.Errorf("the journal became %q (%v) with %d records, want no change", after, err, len(j.history.records))
	}
	j.mustAppend(t, started.about(recordNumber(1)))
	if len(j.history.records) != 2 {
		t.Errorf("%d records after another fact, want 2", len(j.history.records))
	}
}

// TestAppendsSideBySide appends to one journal through two handles, as a Runner and Resume do,
// while others read and compact it.
func TestAppendsSideBySide(t *testing.T) {
	const writers, each = 6, 40
	w := newWorkspace(t)
	ours, err := openJournal(w, "codex", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := openJournal(w, "codex", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	var all, looking sync.WaitGroup
	done := make(chan struct{})
	looking.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := ours.refresh(); err != nil {
				t.Error(err)
			}
			if err := ours.compact(1 << 10); err != nil {
				t.Error(err)
			}
			ours.get(recordNumber(1).key)
		}
	})
	for writer := range writers {
		all.Go(func() {
			for n := range each {
				rec := recordNumber(writer*each + n)
				if err := ours.append(started.about(rec), n%2 == 0); err != nil {
					t.Error(err)
				}
				if known, _ := ours.get(rec.key); !known.Running {
					t.Errorf("%s is written but not in the history", rec.ID)
				}
			}
		})
	}
	all.Go(func() {
		for range each {
			if err := theirs.append(fact{Kind: resumed, Conversation: "conv-20260101-claude-1"}, false); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	close(done)
	looking.Wait()
	h, err := readHistory(w, schema.AgentName("codex"))
	if err != nil || len(h.records) != writers*each {
		t.Errorf("%d records (%v), want %d", len(h.records), err, writers*each)
	}
	if err := errors.Join(ours.close(), theirs.close()); err != nil {
		t.Error(err)
	}
}

// TestAppendAfterCompaction checks that Resume loses no fact if the Runner compacts the journal
// after Resume opened it.
func TestAppendAfterCompaction(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("this system does not replace open files")
	}
	w := newWorkspace(t)
	var journals [2]*journal
	for i := range journals {
		j, err := openJournal(w, "codex", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		journals[i] = j
		defer func() { _ = j.close() }()
	}
	ours, theirs := journals[0], journals[1]
	ours.mustAppend(t, lifeOf(10)...)
	if err := ours.compact(1); err != nil {
		t.Fatal(err)
	}
	theirs.mustAppend(t, fact{Kind: resumed, Conversation: "conv-20260101-claude-4"})
	if err := ours.refresh(); err != nil {
		t.Fatal(err)
	}
	if c := ours.history.conversations["conv-20260101-claude-4"]; c.Turns != 0 || c.Bound {
		t.Errorf("%+v after it was resumed, want no turns", c)
	}
}
