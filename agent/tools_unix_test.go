//go:build unix

package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// TestCancelStopsTools cancels a turn in which the program runs a command that never ends.
func TestCancelStopsTools(t *testing.T) {
	t.Parallel()
	withPrograms(t, func(t *testing.T, p realProgram) {
		tool := newFIFO(t)
		script := func(context.Context, modelstub.Request) modelstub.Reply {
			return p.shell("exec 3>" + tool.path + "; echo runs >&3; sleep 1000; :")
		}
		driver, _ := p.create(t, script, func(o *Options) { o.Allow = PermitAll })
		started(t, driver)
		ctx, cancel := context.WithCancel(impatient(t))
		defer cancel()
		go func() {
			defer cancel()
			tool.line(t)
		}()
		if _, err := driver.Turn(ctx, Request{Prompt: "wait"}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Turn = %v, want context.Canceled", err)
		}
		tool.end(t)
	})
}
