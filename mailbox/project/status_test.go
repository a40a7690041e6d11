package project

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// TestSetStatusLosesNothing sets the status of an agent many times at once. Each time counts, and everything else that the
// file says stays, further documents and what another program writes meanwhile included.
func TestSetStatusLosesNothing(t *testing.T) {
	const many = 8
	dir := t.TempDir()
	if _, err := Init(dir, InitOptions{Agents: []schema.AgentName{"codex"}}); err != nil {
		t.Fatal(err)
	}
	w, err := mailbox.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	path := filepath.Join(w.Dir(), schema.AgentPath("codex", StatusName))
	check.WriteFile(t, path, "# mine\nstatus: available\nmodel: large\n---\nsecond: document # kept\n")
	now := time.Date(2026, 3, 13, 14, 30, 0, 0, time.UTC)
	var group sync.WaitGroup
	for i := range many {
		group.Go(func() {
			if err := SetStatus(w, "codex", Busy, fmt.Sprint("task ", i), now); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	calls := 0
	err = changeStatus(w, "codex", func(data []byte) ([]byte, error) {
		if calls++; calls == 1 {
			check.WriteFile(t, path, string(data)+"third: from an editor\n")
		}
		return editStatus(data, Busy, "last", now)
	})
	if err != nil || calls != 2 {
		t.Errorf("the file that an editor changed was edited %d times (%v), want twice", calls, err)
	}
	data := check.ReadFile(t, path)
	for _, want := range []string{"# mine\n", "model: large\n", "---\nsecond: document # kept\n", "third: from an editor\n"} {
		if !strings.Contains(data, want) {
			t.Errorf("the file has lost %q:\n%s", want, data)
		}
	}
	if word := ParseStatus([]byte(data)); word.Task != "last" || word.At.Before(now.Add(many*time.Second)) {
		t.Errorf("the file says %+v, want the last task and a time after %d changes", word, many)
	}
	check.WriteFile(t, path, "- no fields\n")
	check.Error(t, SetStatus(w, "codex", Busy, "", now), path, "no fields")
	if data, err := os.ReadFile(path); err != nil || string(data) != "- no fields\n" {
		t.Errorf("the file is now %q (%v)", data, err)
	}
}
