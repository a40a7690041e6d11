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

// appendAtOnce begins to append that many facts while the test has access to
// the file, and returns when all of them wait. Their errors come in turn.
func appendAtOnce(j *journal, facts int) (errs <-chan error) {
	j.access <- struct{}{}
	came := make(chan error, facts)
	for n := range facts {
		go func() { came <- j.append(started.about(recordNumber(n)), n%2 == 0) }()
	}
	for waiting := 0; waiting < facts; runtime.Gosched() {
		j.mu.Lock()
		waiting = len(j.waiting)
		j.mu.Unlock()
	}
	return came
}

func TestAppendsShareAWrite(t *testing.T) {
	const facts = 50
	j := newJournal(t)
	errs := appendAtOnce(j, facts)
	j.writeWaiting()
	// Nobody else has had access.
	for range facts {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	<-j.access
	data, err := os.ReadFile(j.path)
	if err != nil || strings.Count(string(data), "\n") != facts || len(j.history.records) != facts {
		t.Errorf("%d lines (%v) and %d records, want %d", strings.Count(string(data), "\n"), err, len(j.history.records), facts)
	}
}

func TestAppendsShareAnError(t *testing.T) {
	const facts = 10
	j := newJournal(t)
	j.mustAppend(t, started.about(recordNumber(99)))
	before, err := os.ReadFile(j.path)
	if err != nil {
		t.Fatal(err)
	}
	errs := appendAtOnce(j, facts)
	writable := j.file
	if j.file, err = os.Open(j.path); err != nil {
		t.Fatal(err)
	}
	j.writeWaiting()
	for range facts {
		if err := <-errs; err == nil || !strings.Contains(err.Error(), j.path) {
			t.Errorf("append = %v, want an error naming the journal", err)
		}
	}
	if err := j.file.Close(); err != nil {
		t.Error(err)
	}
	j.file = writable
	<-j.access
	after, err := os.ReadFile(j.path)
	if err != nil || string(after) != string(before) || len(j.history.records) != 1 {
		t.Errorf("the journal became %q (%v) with %d records, want what it was", after, err, len(j.history.records))
	}
	j.mustAppend(t, started.about(recordNumber(1)))
	if len(j.history.records) != 2 {
		t.Errorf("%d records after another fact, want 2", len(j.history.records))
	}
}

// TestAppendsSideBySide has several append to one journal through two handles,
// as a Runner and Resume do, while it is looked at and written anew.
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
	ours.compactAt = 1 << 10
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
			if err := ours.compact(); err != nil {
				t.Error(err)
			}
			ours.get(recordNumber(1).key)
			ours.takeChanges()
		}
	})
	for writer := range writers {
		all.Go(func() {
			for n := range each {
				rec := recordNumber(writer*each + n)
				if err := ours.append(started.about(rec), false); err != nil {
					t.Error(err)
				}
				if known, _ := ours.get(rec.key); !known.Running {
					t.Errorf("%s is not in the history when it is written", rec.ID)
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

// TestAppendAfterTheJournalWasWrittenAnew: what Resume appends is not lost when
// the Runner has written the journal anew since Resume opened it.
func TestAppendAfterTheJournalWasWrittenAnew(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file is not replaced there")
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
	ours.compactAt = 1
	if err := ours.compact(); err != nil {
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
