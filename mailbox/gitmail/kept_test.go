package gitmail_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fsnotify/fsnotify"

	"github.com/oacp-go/oacp/mailbox"
)

// TestReasonComesFirst checks that who sees a dead letter of another machine finds its reason.
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
