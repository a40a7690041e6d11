package gitmail_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fsnotify/fsnotify"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
)

// TestReasonComesFirst checks that the reason of a dead letter arrives before the letter.
func TestReasonComesFirst(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, "alice", "bob")
	here, there := n.machines[0], n.machines[1]
	r := here.send("alice", "bob")
	here.sync()
	there.sync()
	there.bury("bob", r.Message.ID)
	there.sync()

	watcher, err := fsnotify.NewBufferedWatcher(64)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	if err := watcher.Add(here.w.BoxPath("bob", mailbox.DeadLetters)); err != nil {
		t.Fatal(err)
	}
	here.sync()
	letter := filepath.Base(r.Outbox)
	var arrived []string
	for len(arrived) < 2 {
		event := <-watcher.Events
		name := filepath.Base(event.Name)
		if event.Has(fsnotify.Create) && strings.HasPrefix(name, letter) {
			arrived = append(arrived, name)
		}
	}
	if want := []string{letter + mailbox.ReasonSuffix, letter}; !slices.Equal(arrived, want) {
		t.Errorf("the files arrive in the order %q, want %q", arrived, want)
	}
}

// TestGivenUpTwice gives up a message on two machines, and one that was archived and restored again. Both machines agree
// in the end.
func TestGivenUpTwice(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	n.settle()
	twice, archived := here.send("claude", "codex"), here.send("claude", "codex")
	n.settle()
	here.acknowledge("codex", archived.Message.ID)
	for _, m := range n.machines {
		reason := mailbox.DeadLetterReason{Reason: "it cannot be done on " + m.name}
		if _, err := m.w.DeadLetter(m.entry("codex", twice.Message.ID), reason); err != nil {
			t.Fatal(err)
		}
	}
	n.settle()
	there.restore("codex", archived)
	there.bury("codex", archived.Message.ID)
	n.settle()
	n.checkEqual()
	n.want("codex", mailbox.DeadLetters, twice, archived)
	reasons, err := filepath.Glob(filepath.Join(here.w.BoxPath("codex", mailbox.DeadLetters), "*"+mailbox.ReasonSuffix))
	if err != nil || len(reasons) != 2 {
		t.Fatalf("there are the reasons %q (%v), want two", reasons, err)
	}
	for _, path := range reasons {
		other := filepath.Join(there.w.BoxPath("codex", mailbox.DeadLetters), filepath.Base(path))
		if a, b := check.ReadFile(t, path), check.ReadFile(t, other); a != b {
			t.Errorf("one machine has the reason %s, the other %s", a, b)
		}
	}
}
