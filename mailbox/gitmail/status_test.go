package gitmail_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
)

// status is a status file that was written at a minute.
func status(minute, task string) string {
	return "status: busy\ncurrent_task: " + task + "\nupdated_at: \"2026-03-13T14:" + minute + ":00Z\"\n"
}

// statusFile is the path of the status file of codex.
func (m *machine) statusFile() string { return filepath.Join(m.dir, "agents/codex/status.yaml") }

// TestStatusFiles writes status files of one agent on three machines, all of which get the one that was written last.
func TestStatusFiles(t *testing.T) {
	t.Parallel()
	early, late, tied := status("30", "early"), status("40", "late"), status("40", "tied")
	const byHand = "# I am on holiday\nstatus: offline\n"
	broken, huge := "updated_at: [\n", status("59", strings.Repeat("x", project.MaxStatus))
	for name, test := range map[string]struct{ before, want [3]string }{
		"one":                       {[3]string{early}, [3]string{early, early, early}},
		"the newest":                {[3]string{late, early, ""}, [3]string{late, late, late}},
		"of the same time":          {[3]string{late, tied, early}, [3]string{tied, tied, tied}},
		"one that was never synced": {[3]string{byHand, early, late}, [3]string{byHand, late, late}},
		"broken":                    {[3]string{early, broken, ""}, [3]string{early, broken, early}},
		"huge":                      {[3]string{early, "", huge}, [3]string{early, early, huge}},
		"none is valid":             {[3]string{"", byHand, broken}, [3]string{"", byHand, broken}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, 3, both...)
			for i, text := range test.before {
				if text != "" {
					check.WriteFile(t, n.machines[i].statusFile(), text)
				}
			}
			n.settle()
			for i, m := range n.machines {
				if got, _ := os.ReadFile(m.statusFile()); string(got) != test.want[i] {
					t.Errorf("%s has the status\n%.200s\nwant\n%.200s", m.name, got, test.want[i])
				}
			}
			for _, m := range n.machines {
				if result := m.sync(); len(result.Changes) > 0 {
					t.Errorf("%s: another sync changes %s", m.name, toJSON(result.Changes))
				}
			}
		})
	}
}

// TestStatusWhileItIsSynced writes a status while a sync brings an older one, takes one back that was deleted, and replaces
// what is in its place in the branch.
func TestStatusWhileItIsSynced(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	check.WriteFile(t, there.statusFile(), status("30", "early"))
	there.sync()
	r, err := gitmail.Open(t.Context(), here.w)
	if err != nil {
		t.Fatal(err)
	}
	r.SetStep(func(step string) {
		if step == "merged" {
			check.WriteFile(t, here.statusFile(), status("40", "meanwhile"))
		}
	})
	if _, err := r.Sync(t.Context(), gitmail.Options{}); err != nil {
		t.Fatal(err)
	}
	n.settle()
	want := func(text string) {
		t.Helper()
		for _, m := range n.machines {
			if got := check.ReadFile(t, m.statusFile()); got != text {
				t.Errorf("%s has the status\n%s\nwant\n%s", m.name, got, text)
			}
		}
	}
	want(status("40", "meanwhile"))

	check.Remove(t, here.statusFile())
	n.settle()
	want(status("40", "meanwhile"))

	h := n.newHostile()
	h.load()
	h.add("100644", "agents/codex/.status", "updated_at: 9999-12-31T23:59:59Z\ntask: "+strings.Repeat("x", project.MaxStatus))
	h.push()
	n.settle()
	want(status("40", "meanwhile"))
}

// TestStatusOfOneSecond says three things in a second, and by a clock that goes back. Other machines get the last one.
func TestStatusOfOneSecond(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	now := time.Date(2026, 3, 13, 14, 30, 0, 0, time.UTC)
	for _, task := range []string{"c", "b", "a"} {
		n.machines[0].age()
		n.settle()
		if err := project.SetStatus(n.machines[0].w, "codex", project.Busy, task, now); err != nil {
			t.Fatal(err)
		}
		n.settle()
		if got := check.ReadFile(t, n.machines[1].statusFile()); !strings.Contains(got, `current_task: "`+task+`"`) {
			t.Errorf("the other machine has\n%swant the task %s", got, task)
		}
		now = now.Add(-time.Minute / 100)
	}
}
