package replica

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// TestMemory changes boxes at random. A scan with the memory of the scan before lists the files of all days that changed since,
// reports what is wrong, and leaves out the rest of what a scan without memory lists.
func TestMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "agents/codex/inbox"), 0o755); err != nil {
		t.Fatal(err)
	}
	opened, err := mailbox.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	w := &Workspace{Workspace: opened}
	random := rand.New(rand.NewPCG(1, 2))
	boxes := []mailbox.Box{mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters, mailbox.Outbox}
	var memory Memories
	for round := range 300 {
		before := filesOfDays(dir, boxes)
		for range random.IntN(3) {
			box, day := boxes[random.IntN(len(boxes))], fmt.Sprintf("202611%02d", 1+random.IntN(5))
			from := []schema.AgentName{"codex", "claude"}[random.IntN(2)]
			path := filepath.Join(dir, schema.BoxPath("codex", box), fmt.Sprintf("%sT1200Z_%s_question_%04d.yaml", day, from, random.IntN(4)))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if os.Remove(path) != nil {
				if err := os.WriteFile(path, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			at := time.Now().Add(time.Duration(round-1000) * time.Second) // a clock that is fine enough
			if random.IntN(2) == 0 {
				at = at.Add(time.Hour) // it has not settled
			}
			if err := os.Chtimes(filepath.Dir(path), at, at); err != nil {
				t.Fatal(err)
			}
		}
		whole, part := w.Scan("codex", nil), w.Scan("codex", memory)
		if !maps.Equal(keys(whole.Problems), keys(part.Problems)) {
			t.Fatalf("round %d: the problems are %v, want %v", round, part.Problems, whole.Problems)
		}
		for c, place := range whole.Places {
			got, listed := part.Places[c]
			if listed && whole.Twice[c] != part.Twice[c] && !c.Sent {
				t.Fatalf("round %d: %s: twice is %t, want %t", round, c, part.Twice[c], whole.Twice[c])
			}
			if !listed && !part.Same(c.Box(place), DayOf(c.Name)) {
				t.Fatalf("round %d: %s is not listed, and its day has changed", round, c)
			}
			if memory == nil && got != place {
				t.Fatalf("round %d: %s is in %v, want %v", round, c, got, place)
			}
		}
		for at, names := range filesOfDays(dir, boxes) {
			same := part.Same(mailbox.Box(at[:len(at)-8]), at[len(at)-8:])
			if memory != nil && same && names != before[at] {
				t.Fatalf("round %d: %s changed from %q to %q", round, at, before[at], names)
			}
			if memory != nil && !same && names == before[at] && names != "" && len(whole.Problems) == 0 {
				t.Fatalf("round %d: %s did not change", round, at)
			}
		}
		memory = part.Memory
	}
}

// filesOfDays returns the names of the files in each box, with the day.
func filesOfDays(dir string, boxes []mailbox.Box) map[string]string {
	names := make(map[string]string)
	for _, box := range boxes {
		for day := 20261101; day <= 20261105; day++ {
			found, _ := filepath.Glob(filepath.Join(dir, schema.BoxPath("codex", box), fmt.Sprint(day)+"*"))
			names[string(box)+fmt.Sprint(day)] = fmt.Sprint(found)
		}
	}
	return names
}

func keys(m map[string]error) map[string]bool {
	set := make(map[string]bool)
	for key := range m {
		set[key] = true
	}
	return set
}
