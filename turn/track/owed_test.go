package track

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

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
