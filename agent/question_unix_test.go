//go:build unix

package agent

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/oacp-go/oacp/internal/modelstub"
)

// TestKilledWhileAsking kills the program while it waits for an approval. The
// turn is run again.
func TestKilledWhileAsking(t *testing.T) {
	withPrograms(t, func(t *testing.T, p program) {
		if !p.asks {
			t.Skip("asks nobody")
		}
		asked := make(chan Approval, 1)
		script := func(_ context.Context, request modelstub.Request) modelstub.Reply {
			if strings.HasPrefix(request.Prompt, "[The program that ran you ended") {
				return modelstub.Reply{Text: "again"}
			}
			return p.shell("touch there")
		}
		driver, _ := p.create(t, script, demands{approve: holdOut(asked)})
		started(t, driver)
		process := p.running(driver)
		go func() {
			<-asked
			_ = syscall.Kill(process.process.Pid, syscall.SIGKILL) // the turn tells whether it worked
		}()
		if result, err := driver.Turn(impatient(t), Request{Prompt: "make a file"}, nil); err != nil || result.Text != "again" {
			t.Errorf("answer %q (%v), want that of the second attempt", result.Text, err)
		}
		if p.running(driver) == process {
			t.Error("the program is the same, want another")
		}
	})
}
