//go:build unix

package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/oacp-go/oacp/ash"
)

// hanging returns drivers whose programs die in their first turn and hang when they are restarted.
// The restarted programs report to the fifo.
func hanging(t *testing.T) map[string]func(*fifo) Driver {
	t.Helper()
	return map[string]func(*fifo) Driver{
		"claude": func(f *fifo) Driver { return newFakeClaude(t, "hangs again", f.path) },
		"codex": func(f *fifo) Driver {
			return NewCodex(Options{Command: helperCommand(t, "codex", "hangs again", f.path)})
		},
		"acp": func(f *fifo) Driver { return newFakeACP(t, nil, "hangs again", f.path) },
	}
}

// TestInterruptWhileStarting interrupts a turn while its program restarts.
func TestInterruptWhileStarting(t *testing.T) {
	for name, create := range hanging(t) {
		t.Run(name, func(t *testing.T) {
			again := newFIFO(t)
			driver := started(t, create(again))
			ctx, cancel := context.WithCancelCause(impatient(t))
			defer cancel(nil)
			go func() {
				again.line(t)
				cancel(ash.ErrInterrupted)
			}()
			if _, err := RunTurn(ctx, driver, Request{Prompt: "go"}, nil, nil); !errors.Is(err, ash.ErrInterrupted) {
				t.Errorf("Turn = %v, want ash.ErrInterrupted", err)
			}
			again.end(t)
		})
	}
}
