package agent

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// TestKilledRunner checks that a tool that never ends by itself is killed when the process that
// runs the turn is killed.
func TestKilledRunner(t *testing.T) {
	t.Parallel()
	withPrograms(t, func(t *testing.T, p realProgram) {
		tool := newFIFO(t)
		script := func(context.Context, modelstub.Request) modelstub.Reply {
			return p.shell("exec 3>" + tool.path + "; echo runs >&3; sleep 1000; :")
		}
		driver, _ := p.create(t, script, nil)
		mark := orphans.OwnerOf("").NewMark()
		how := append([]string{p.name, strings.Join(driver.options.Command, "\n"), driver.options.Dir}, driver.options.Env...)
		how = append(how, orphans.Environ(orphans.WithMark(t.Context(), mark))...)
		command := helperCommand(t, "runner", how...)
		runner := exec.Command(command[0], command[1:]...)
		runner.Stderr = os.Stderr
		if err := runner.Start(); err != nil {
			t.Fatal(err)
		}
		tool.line(t)
		if err := runner.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = runner.Wait() // it was killed
		if !p.has("leaves") {
			tool.end(t)
		}
		// The agent itself may take a little longer.
		if _, err := orphans.OwnerOf("").End(impatient(t), mark); err != nil {
			t.Error(err)
		}
		if p.has("leaves") {
			tool.end(t)
		}
	})
}
