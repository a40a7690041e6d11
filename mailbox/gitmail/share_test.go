package gitmail_test

import (
	"sync"
	"testing"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
)

// TestSyncsAreShared sends from several processes while a sync takes long. The next sync takes all their
// messages.
func TestSyncsAreShared(t *testing.T) {
	t.Parallel()
	const processes = 5
	n := newNetwork(t, 2, both...)
	n.settle()
	here, there := n.machines[0], n.machines[1]
	sent := make([]*mailbox.Receipt, processes)
	results := make(chan gitmail.Result, processes)
	var waiting, running sync.WaitGroup
	here.send("codex", "claude")
	here.syncWith(gitmail.Options{}, func(step string) {
		if step != "merged" { // it takes no further messages
			return
		}
		waiting.Add(processes)
		for i := range processes {
			sent[i] = here.send("claude", "codex")
			running.Go(func() {
				r, err := gitmail.Open(t.Context(), here.w)
				if err != nil {
					t.Error(err)
					return
				}
				var once sync.Once
				result, err := r.Sync(t.Context(), gitmail.Options{Share: true, Waiting: func(string) { once.Do(waiting.Done) }})
				if err != nil {
					t.Error(err)
				}
				results <- result
			})
		}
		waiting.Wait() // each says so after a second
	})
	running.Wait()
	close(results)
	syncs := 0
	for result := range results {
		if result.Commit != "" {
			syncs++
		}
	}
	if syncs != 1 {
		t.Errorf("%d processes made %d syncs, want one for all", processes, syncs)
	}
	there.sync()
	there.want("codex", mailbox.Inbox, sent...)
}
