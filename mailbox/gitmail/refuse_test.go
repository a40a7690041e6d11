package gitmail_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
)

// obstructions make a folder refuse mail. Each returns a function that ends that.
var obstructions = map[string]func(t *testing.T, dir string) (end func()){
	"no folder": func(t *testing.T, dir string) func() {
		away := dir + "-away"
		err := os.Rename(dir, away)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		check.WriteFile(t, dir, "in the way\n")
		return func() {
			check.Remove(t, dir)
			if err := os.Rename(away, dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
	},
	"read-only": mountReadOnly,
	"immutable": makeImmutable,
}

// TestBoxRefusesMail has another machine do everything that is possible in the boxes of an agent, while one of
// them refuses every change here. All other mail is exchanged, and the rest follows once the box takes it.
func TestBoxRefusesMail(t *testing.T) {
	notInShort(t)
	t.Parallel()
	original := newNetwork(t, 2, "claude", "codex", "gemini")
	here, there := original.machines[0], original.machines[1]
	original.settle()
	old := make([]*mailbox.Receipt, 6)
	for i := range old {
		old[i] = here.send("claude", "gemini")
	}
	original.settle()
	there.acknowledge("gemini", old[0].Message.ID)
	there.bury("gemini", old[1].Message.ID)
	there.bury("gemini", old[2].Message.ID)
	original.settle()
	there.acknowledge("gemini", old[3].Message.ID)
	there.acknowledge("gemini", old[4].Message.ID)
	there.bury("gemini", old[5].Message.ID)
	there.restore("gemini", old[2])
	toGemini, fromGemini, incoming := there.send("claude", "gemini"), there.send("gemini", "codex"), there.send("codex", "claude")
	there.sync()
	here.acknowledge("gemini", old[3].Message.ID)
	here.restore("gemini", old[0])
	for name, obstruct := range obstructions {
		for i, box := range []mailbox.Box{mailbox.Inbox, mailbox.Archive, mailbox.Outbox, mailbox.DeadLetters} {
			if !*thorough && name == "read-only" && i > 1 {
				continue
			}
			t.Run(name+"/"+string(box), func(t *testing.T) {
				n := original.copy(t)
				here, there := n.machines[0], n.machines[1]
				end := obstruct(t, here.w.BoxPath("gemini", box))
				outgoing := here.send("claude", "codex")
				for range 2 {
					_, err := here.trySync()
					_, blocked := errors.AsType[*gitmail.BlockedError](err)
					if err != nil && (!blocked || !strings.Contains(err.Error(), schema.BoxPath("gemini", box))) || err == nil {
						t.Errorf("sync = %v, want the name of the box", err)
					}
				}
				n.tolerant = true
				there.sync()
				there.want("codex", mailbox.Inbox, fromGemini, outgoing)
				here.want("claude", mailbox.Inbox, incoming)
				if box != mailbox.Outbox {
					here.want("codex", mailbox.Inbox, fromGemini, outgoing)
				}
				end()
				here.sync()
				n.tolerant = false
				n.settle()
				n.want("gemini", mailbox.Inbox, old[0], old[2], toGemini)
				n.want("gemini", mailbox.Archive, old[3], old[4])
				n.want("gemini", mailbox.DeadLetters, old[1], old[5])
				n.want("codex", mailbox.Inbox, fromGemini, outgoing)
				n.checkEqual()
			})
		}
	}
}
