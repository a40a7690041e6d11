package track

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// TestAppendThatFails checks that a failed append leaves no trace and that the next one succeeds.
func TestAppendThatFails(t *testing.T) {
	j := openJournal(t)
	j.mustAppend(t, Started.About(recordNumber(99)))
	before, err := os.ReadFile(j.Path)
	if err != nil {
		t.Fatal(err)
	}
	writable := j.file
	if j.file, err = os.Open(j.Path); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(Started.About(recordNumber(1)), true); err == nil || !strings.Contains(err.Error(), j.Path) {
		t.Errorf("append = %v, want an error naming the journal", err)
	}
	if err := j.file.Close(); err != nil {
		t.Error(err)
	}
	j.file = writable
	after, err := os.ReadFile(j.Path)
	if err != nil || string(after) != string(before) || len(j.history.Records) != 1 {
		t.Errorf("the journal became %q (%v) with %d records, want no change", after, err, len(j.history.Records))
	}
	j.mustAppend(t, Started.About(recordNumber(1)))
	if len(j.history.Records) != 2 {
		t.Errorf("%d records after another fact, want 2", len(j.history.Records))
	}
}

// TestAppendsSideBySide appends to one journal through two handles, as a Runner and Resume do,
// while others read it.
func TestAppendsSideBySide(t *testing.T) {
	const writers, each = 6, 40
	w := newWorkspace(t)
	ours, err := OpenJournal(w, "codex", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := OpenJournal(w, "codex", time.Now)
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
			if err := ours.Refresh(); err != nil {
				t.Error(err)
			}
			ours.Get(recordNumber(1).Key)
		}
	})
	for writer := range writers {
		all.Go(func() {
			for n := range each {
				rec := recordNumber(writer*each + n)
				if err := ours.Append(Started.About(rec), n%2 == 0); err != nil {
					t.Error(err)
				}
				if known, _ := ours.Get(rec.Key); !known.Running {
					t.Errorf("%s is written but not in the history", rec.ID)
				}
			}
		})
	}
	all.Go(func() {
		for range each {
			if err := theirs.Append(Fact{Kind: Resumed, Envelope: Envelope{Conversation: "conv-20260101-claude-1"}}, false); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	close(done)
	looking.Wait()
	h, err := ReadHistory(w, schema.AgentName("codex"))
	if err != nil || len(h.Records) != writers*each {
		t.Errorf("%d records (%v), want %d", len(h.Records), err, writers*each)
	}
	if err := errors.Join(ours.Close(), theirs.Close()); err != nil {
		t.Error(err)
	}
}
