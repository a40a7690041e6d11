//go:build unix

package agent

import (
	"context"
	"errors"
	"testing"
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
	}
}

// TestInterruptWhileStarting interrupts a turn while its program restarts.
func TestInterruptWhileStarting(t *testing.T) {
	for name, create := range hanging(t) {
		t.Run(name, func(t *testing.T) {
			again := newFIFO(t)
			driver := started(t, create(again))
			interrupted := make(chan error, 1)
			go func() {
				again.line(t)
				interrupted <- driver.Interrupt(context.Background())
			}()
			if _, err := RunTurn(impatient(t), driver, Request{Prompt: "go"}, nil, nil); !errors.Is(err, ErrInterrupted) {
				t.Errorf("Turn = %v, want ErrInterrupted", err)
			}
			if err := <-interrupted; err != nil {
				t.Errorf("Interrupt = %v, want no error", err)
			}
			again.end(t)
		})
	}
}

// TestStopWhileStarting stops a driver while its program restarts. No process is left when Stop
// returns.
func TestStopWhileStarting(t *testing.T) {
	for name, create := range hanging(t) {
		t.Run(name, func(t *testing.T) {
			again := newFIFO(t)
			driver := started(t, create(again))
			stopping := make(chan error, 1)
			go func() {
				again.line(t)
				stopping <- driver.Stop(context.Background())
			}()
			if _, err := RunTurn(impatient(t), driver, Request{Prompt: "go"}, nil, nil); !errors.Is(err, errNotStarted) {
				t.Errorf("Turn = %v, want an error that says that the driver was stopped", err)
			}
			if err := <-stopping; err != nil {
				t.Errorf("Stop = %v, want no error", err)
			}
			again.end(t)
			if _, err := driver.Turn(t.Context(), Request{Prompt: "go"}, nil); !errors.Is(err, ErrUnavailable) {
				t.Errorf("Turn after Stop = %v, want ErrUnavailable", err)
			}
		})
	}
}
