package track

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// TestHints checks, while messages are sent, answered, acknowledged and restored at random, that what is owed is the
// same with hints from the last time and without.
func TestHints(t *testing.T) {
	w := newWorkspace(t)
	hintsPath := filepath.Join(w.Dir(), memoryFolder)
	for _, box := range []string{schema.BoxPath("codex", mailbox.Archive), schema.BoxPath("claude", mailbox.Outbox)} {
		for i := range 1000 {
			check.WriteFile(t, filepath.Join(w.Dir(), box, fmt.Sprintf("20260313T1430Z_claude_notification_%04d.yaml", i)), "x")
		}
	}
	at := time.Now().Add(-time.Hour)
	// settle makes folders that changed look as if that was long ago.
	settle := func() {
		for _, agent := range []schema.AgentName{"claude", "codex"} {
			for _, box := range schema.Boxes() {
				info, err := os.Stat(w.BoxPath(agent, box))
				if err != nil || time.Since(info.ModTime()) > time.Minute {
					continue
				}
				at = at.Add(time.Second)
				if err := os.Chtimes(w.BoxPath(agent, box), at, at); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	random, hinted := rand.New(rand.NewPCG(1, 1)), 0
	var asked []*schema.Message
	for step := range 60 {
		if len(asked) == 0 || random.IntN(3) == 0 {
			asked = append(asked, send(t, w, question(fmt.Sprint("question ", step)))...)
		}
		m := asked[random.IntN(len(asked))]
		switch random.IntN(4) {
		case 0:
			if e, err := w.Pending(t.Context(), string(m.ID), "codex"); err == nil {
				if err := w.Acknowledge(e); err != nil {
					t.Fatal(err)
				}
			}
		case 1:
			answer := conversation.Reply(m, "codex")
			answer.Body = schema.TextValue("x")
			if random.IntN(2) == 0 {
				answer.Type = schema.Question
			}
			send(t, w, answer)
		case 2:
			if _, err := Restore(t.Context(), w, string(m.ID), "codex"); err != nil {
				t.Fatal(err)
			}
		}
		settle()
		for _, agent := range []schema.AgentName{"claude", "codex"} {
			var owed [3]Owed // the last time without hints
			for i := range owed {
				if _, err := os.Stat(hintsPath + "/" + string(agent) + ".json"); i == 1 && err == nil {
					hinted++
				}
				if i == len(owed)-1 {
					if err := os.RemoveAll(hintsPath); err != nil {
						t.Fatal(err)
					}
				}
				var err error
				if owed[i], err = OwedBy(t.Context(), w, agent); err != nil {
					t.Fatal(err)
				}
			}
			if !reflect.DeepEqual(owed[0], owed[2]) || !reflect.DeepEqual(owed[1], owed[2]) {
				t.Fatalf("step %d: for %s, Owed =\n%+v\nthen\n%+v\nand without hints\n%+v", step, agent, owed[0], owed[1], owed[2])
			}
		}
	}
	if hinted == 0 {
		t.Error("there never were hints")
	}
}
