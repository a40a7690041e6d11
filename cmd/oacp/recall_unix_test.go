//go:build unix

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
)

// A recallRace has a sender on one machine, who takes messages back, and a recipient on another one, who is shown them by
// oacp next or has turns on them, while both sync.
type recallRace struct {
	*claimNet
	random *rand.Rand
	sent   []string
	// recalled are the messages that a process took back, shown those that it showed, and maybe those that one which was
	// killed may have shown.
	recalled, shown, maybe map[string]bool
}

// A racer is a process of a recallRace.
type racer struct {
	*exec.Cmd
	out    bytes.Buffer
	killed bool
}

func (r *recallRace) start(machine int, args ...string) *racer {
	p := &racer{Cmd: exec.Command("oacp", args...)}
	p.Dir, p.Env, p.Stdout = r.machines[machine], r.env, &p.out
	if err := p.Start(); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// round runs some processes at the same time, and kills some.
func (r *recallRace) round() {
	recalls := make(map[*racer]string)
	var all, nexts []*racer
	for range 3 + r.random.IntN(3) {
		switch r.random.IntN(10) {
		case 0, 1, 2:
			id := r.sent[len(r.sent)-1-r.random.IntN(min(len(r.sent), 4))]
			p := r.start(0, "recall", id, "--agent", "claude", "--json")
			all, recalls[p] = append(all, p), id
		case 3, 4, 5:
			p := r.start(1, "next", "--agent", "codex", "--json", "--timeout", "1ms")
			all, nexts = append(all, p), append(nexts, p)
		case 6:
			all = append(all, r.start(1, "run", "--agent", "codex", "--once", "--", "sh", "-c", `echo "$OACP_MESSAGE_ID" >>"$0"`, r.log))
		default:
			all = append(all, r.start(r.random.IntN(2), "sync"))
		}
	}
	first := r.random.IntN(len(all))
	_ = all[first].Wait() // it may fail
	for i, p := range all {
		if i == first {
			continue
		}
		if p.killed = r.random.IntN(4) == 0; p.killed {
			_ = p.Process.Kill() // it may have ended
		}
		_ = p.Wait()
	}
	for _, p := range nexts {
		var m struct{ ID string }
		if json.Unmarshal(p.out.Bytes(), &m) != nil || m.ID == "" {
			continue
		}
		if r.shown[m.ID] {
			r.t.Errorf("message %s is shown twice", m.ID)
		}
		if p.killed {
			r.maybe[m.ID] = true
		} else {
			r.shown[m.ID] = true
		}
	}
	for p, id := range recalls {
		if !p.killed && strings.Contains(p.out.String(), `"recalled": true`) {
			r.recalled[id] = true
		}
	}
}

// settle syncs the machines until each knows what the other one does. Processes of git that were killed leave locks,
// which count as stale only after some seconds.
func (r *recallRace) settle() {
	deadline := time.Now().Add(time.Minute)
	for i := range 6 {
		for {
			p := r.start(i%2, "sync")
			err := p.Wait()
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				r.t.Fatalf("machine %d does not sync again: %v", i%2, err)
			}
			<-time.After(100 * time.Millisecond)
		}
	}
}

// where returns the box in which a machine has each message, and whether that says that it was taken back.
func (r *recallRace) where(machine int) map[string]string {
	w, err := mailbox.Open(filepath.Join(r.machines[machine], ".oacp"), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer w.Close()
	boxes := make(map[string]string)
	for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters} {
		entries, err := w.List(r.t.Context(), "codex", box)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, e := range entries {
			boxes[string(e.Message.ID)] += string(box)
			if box == mailbox.DeadLetters && mailbox.RecalledBy(w, e) == "claude" {
				boxes[string(e.Message.ID)] = "recalled"
			}
		}
	}
	return boxes
}

// TestRecallAcrossMachines checks that a message is either taken back or shown to its recipient, or has a turn, whatever
// processes of two machines do at the same time and which of them are killed, and that both machines agree on that.
func TestRecallAcrossMachines(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &recallRace{
		claimNet: newClaimNet(t, 2), random: rand.New(rand.NewPCG(seed, 0)),
		recalled: make(map[string]bool), shown: make(map[string]bool), maybe: make(map[string]bool),
	}
	for range 12 {
		for range 1 + r.random.IntN(2) {
			id := r.must(r.machines[0], "oacp", "send", "--from", "claude", "--to", "codex", "--type", "question", "--subject", "s", "--body", "b", "-q")
			r.sent = append(r.sent, strings.TrimSpace(id))
		}
		for machine := range r.random.IntN(3) {
			_ = r.start(machine, "sync").Wait() // a killed process may have left a lock
		}
		r.round()
	}
	r.settle()
	turns, err := os.ReadFile(r.log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	had := strings.Fields(string(turns))
	here, there := r.where(0), r.where(1)
	counts := make(map[string]int)
	for _, id := range r.sent {
		noticed := r.shown[id] || slices.Contains(had, id)
		counts[fmt.Sprintf("%s, noticed %t", cmp.Or(there[id], "nowhere"), noticed)]++
		switch {
		case here[id] != there[id]:
			t.Errorf("message %s is in %q at its sender, and in %q at its recipient", id, here[id], there[id])
		case !slices.Contains([]string{"inbox", "archive", "recalled"}, here[id]):
			t.Errorf("message %s is in %q", id, here[id])
		case noticed && here[id] == "recalled":
			t.Errorf("message %s was shown or had a turn, and is taken back", id)
		case r.recalled[id] && !noticed && !r.maybe[id] && here[id] != "recalled":
			t.Errorf("message %s was taken back, and nobody has noticed it, but it is in %q", id, here[id])
		}
	}
	t.Log(counts)
}
