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

// TestOwedRemembers checks, while messages are sent, answered, acknowledged and restored at random, that what is owed is the
// same with the memory of the last search and without.
func TestOwedRemembers(t *testing.T) {
	w := newWorkspace(t)
	for _, box := range []string{schema.BoxPath("codex", mailbox.Archive), schema.BoxPath("claude", mailbox.Outbox)} {
		for i := range 20 {
			check.WriteFile(t, filepath.Join(w.Dir(), box, fmt.Sprintf("20260313T1430Z_claude_notification_%04d.yaml", i)), "x")
		}
	}
	random, remembered := rand.New(rand.NewPCG(1, 1)), [2]int{}
	var asked, back []*schema.Message
	for step := range 70 {
		if len(asked) == 0 || random.IntN(4) == 0 {
			q := question(fmt.Sprint("question ", step))
			if random.IntN(2) == 0 { // a message of another machine that arrives late
				q.CreatedAt = schema.NewTimestamp(time.Now().Add([2]time.Duration{-time.Hour, -48 * time.Hour}[random.IntN(2)]))
			}
			asked = append(asked, send(t, w, q)...)
		}
		m := asked[max(0, len(asked)-1-random.IntN(2))]
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
				answer.Type, answer.CreatedAt = schema.Question, schema.NewTimestamp(time.Now().Add(-48*time.Hour))
			}
			sent := send(t, w, answer)
			if answer.Type == schema.Question {
				back = append(back, sent...)
			}
			if e, err := w.Pending(t.Context(), string(sent[0].ID), "claude"); err == nil && random.IntN(2) == 0 {
				if err := w.Acknowledge(e); err != nil {
					t.Fatal(err)
				}
			}
		case 2:
			if _, err := Restore(t.Context(), w, string(m.ID), "codex"); err != nil {
				t.Fatal(err)
			}
		case 3:
			if len(back) > 0 {
				question := back[random.IntN(len(back))]
				answer := conversation.Reply(question, "claude")
				answer.Body = schema.TextValue("x")
				send(t, w, answer)
				if e, err := w.Pending(t.Context(), string(question.ID), "claude"); err == nil {
					if err := w.Acknowledge(e); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		for _, agent := range []schema.AgentName{"claude", "codex"} {
			var owed [3]Owed // the last time without a memory
			for i := range owed {
				path := filepath.Join(w.Dir(), memoryName(agent))
				if _, err := os.Stat(path); err == nil && i < 2 {
					remembered[i]++
				}
				if i == 2 {
					if err := os.RemoveAll(path); err != nil {
						t.Fatal(err)
					}
				}
				var err error
				if owed[i], err = OwedBy(t.Context(), w, agent); err != nil {
					t.Fatal(err)
				}
			}
			if !reflect.DeepEqual(owed[0], owed[2]) || !reflect.DeepEqual(owed[1], owed[2]) {
				t.Fatalf("step %d: for %s, Owed =\n%+v\nthen\n%+v\nand without a memory\n%+v", step, agent, owed[0], owed[1], owed[2])
			}
		}
	}
	if remembered[0] == 0 || remembered[1] == 0 {
		t.Errorf("after a change, something was remembered %d times, and without one %d times", remembered[0], remembered[1])
	}
}

// BenchmarkOwedAfterChange measures what is owed after another message arrived, beside handled ones.
func BenchmarkOwedAfterChange(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorkspace(b)
			for i := range n {
				at := time.Now().Add(time.Duration(i-n)*time.Minute - time.Hour).UTC().Format("20060102T1504Z")
				for _, box := range []string{schema.BoxPath("codex", mailbox.Archive), schema.BoxPath("claude", mailbox.Outbox)} {
					check.WriteFile(b, filepath.Join(w.Dir(), box, fmt.Sprintf("%s_claude_notification_%016d.yaml", at, i)), "x")
				}
			}
			owed := func() {
				if _, err := OwedBy(b.Context(), w, "codex"); err != nil {
					b.Fatal(err)
				}
			}
			owed()
			for b.Loop() {
				b.StopTimer()
				m := question("x")
				m.Type = schema.Notification
				for _, m := range send(b, w, m) {
					e, err := w.Pending(b.Context(), string(m.ID), "codex")
					if err == nil {
						err = w.Acknowledge(e)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				owed()
			}
		})
	}
}
