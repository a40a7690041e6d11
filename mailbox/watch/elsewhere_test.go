package watch

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/gittest"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// long is a body that takes several writes and reads of a page.
var long = strings.Repeat("0123456789 abcdefghijklmnopqrstuvwxyz\n", 500)

// TestWatchWhatIsReceived receives the same messages several times at once. Each arrives once and
// whole, and none comes back after it was acknowledged.
func TestWatchWhatIsReceived(t *testing.T) {
	t.Parallel()
	elsewhere, w := mailboxtest.NewBare(t, "claude", "codex"), mailboxtest.NewBare(t, "claude", "codex")
	var files []mailbox.Received
	names := make(map[string]bool)
	for range 60 {
		m := mailboxtest.Draft("codex")
		m.Body = schema.TextValue(long)
		r := mailboxtest.Send(t, elsewhere, m)
		name := filepath.Base(r.Outbox)
		names[name] = true
		files = append(files, mailbox.Received{From: "claude", Name: name, Data: []byte(check.ReadFile(t, r.Outbox)), Pending: m.To})
	}
	watch := follow(t, w, Options{Archived: true}, "codex")
	receive := func(w *mailbox.Workspace) {
		for _, result := range w.Receive(t.Context(), files) {
			if result.Err != nil {
				t.Error(result.Err)
			}
		}
	}
	var receiving sync.WaitGroup
	for range 3 {
		receiving.Go(func() { receive(w) })
	}
	watch.wantBoth(names, nil)
	receiving.Wait()
	for name := range names {
		if err := w.Acknowledge(mailbox.Entry{Agent: "codex", Box: mailbox.Inbox, Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	watch.wantBoth(nil, names)
	receive(w)
	watch.stop()
}

// machine is a clone of a repository, with a workspace that is a folder of it.
type machine struct {
	t   *testing.T
	dir string
	w   *mailbox.Workspace
}

func (m *machine) git(args ...string) {
	m.t.Helper()
	gittest.Run(m.t, m.dir, args...)
}

// newMachines makes two clones of one repository with a workspace of claude and codex.
func newMachines(t *testing.T) (a, b *machine) {
	t.Helper()
	top := t.TempDir()
	clone := func(name string) *machine {
		m := &machine{t: t, dir: top}
		m.git("clone", "-q", "origin.git", name)
		m.dir = filepath.Join(top, name)
		m.git("checkout", "-q", "-B", "main")
		return m
	}
	(&machine{t: t, dir: top}).git("init", "-q", "--bare", "-b", "main", "origin.git")
	a = clone("a")
	for _, agent := range []schema.AgentName{"claude", "codex"} {
		for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox} {
			check.WriteFile(t, filepath.Join(a.dir, "mail", schema.BoxPath(agent, box), ".gitkeep"), "")
		}
	}
	a.push()
	b = clone("b")
	for _, m := range []*machine{a, b} {
		m.w = mailboxtest.Open(t, filepath.Join(m.dir, "mail"))
	}
	return a, b
}

func (m *machine) push() {
	m.t.Helper()
	m.git("add", "-A")
	m.git("commit", "-q", "-m", "mail")
	m.git("push", "-q", "origin", "HEAD:main")
}

// TestWatchGitPull pulls messages, which git writes in place, and acknowledgements. Each message
// arrives once and whole, and leaves once.
func TestWatchGitPull(t *testing.T) {
	const rounds, each = 3, 10
	for name, config := range map[string][]string{
		"as usual":             {"pull", "-q", "origin", "main"},
		"rebase":               {"pull", "-q", "--rebase", "origin", "main"},
		"several workers":      {"-c", "checkout.workers=8", "-c", "checkout.thresholdForParallelism=1", "pull", "-q", "origin", "main"},
		"carriage returns":     {"-c", "core.autocrlf=true", "pull", "-q", "origin", "main"},
		"fetch and hard reset": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, there := newMachines(t)
			watch := follow(t, there.w, Options{Archived: true}, "codex")
			var last map[string]bool
			for range rounds {
				names := make(map[string]bool)
				for i := range each {
					m := mailboxtest.Draft("codex")
					m.Subject, m.Body = fmt.Sprintf("message %d", i), schema.TextValue(long)
					names[sentName(mailboxtest.Send(t, here.w, m))] = true
				}
				for name := range last {
					if err := here.w.Acknowledge(mailbox.Entry{Agent: "codex", Box: mailbox.Inbox, Name: name}); err != nil {
						t.Fatal(err)
					}
				}
				here.push()
				if config != nil {
					there.git(config...)
				} else {
					there.git("fetch", "-q", "origin")
					there.git("reset", "-q", "--hard", "origin/main")
				}
				watch.wantBoth(names, last)
				last = names
			}
			watch.stop()
		})
	}
}

// wantBoth fails the test unless the next events are the arrivals and departures of these messages, in
// any order.
func (w *watching) wantBoth(arrived, left map[string]bool) {
	w.t.Helper()
	for seen := make(map[string]bool); len(seen) < len(arrived)+len(left); {
		event := w.next()
		key := string(event.Kind) + event.Name
		if event.Kind == EventArrived && !arrived[event.Name] || event.Kind == EventArchived && !left[event.Name] || event.Err != nil || seen[key] {
			w.t.Fatalf("%s, want %d messages to arrive and %d to leave, each once", describe(event), len(arrived), len(left))
		}
		if m := event.Message; event.Kind == EventArrived && strings.ReplaceAll(m.Body.Text, "\r", "") != long {
			w.t.Errorf("%s arrived with %d bytes of its body, want %d", event.Name, len(m.Body.Text), len(long))
		}
		seen[key] = true
	}
}
