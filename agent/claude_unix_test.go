//go:build unix

package agent

import (
	"context"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/oacp-go/oacp/internal/modelstub"
)

// TestClaudeKilled kills the real program while the model speaks, in the first
// turn of a session and in a later one.
func TestClaudeKilled(t *testing.T) {
	var driver *Claude
	var kills atomic.Int32
	script := func(_ context.Context, request modelstub.Request) modelstub.Reply {
		if strings.HasPrefix(request.Prompt, "kill") {
			kills.Add(1)
			_ = syscall.Kill(driver.process.process.Pid, syscall.SIGKILL)
			return modelstub.Reply{Hold: make(chan struct{})}
		}
		return modelstub.Reply{Text: "done: " + request.Prompt}
	}
	driver, server := realClaude(t, script, nil)
	started(t, driver)
	for n, prompt := range []string{"kill first", "kill second"} {
		victim := driver.process.process.Pid
		result := turn(t, driver, prompt)
		if !strings.HasPrefix(result.Text, "done: [The program that ran you ended") || !strings.HasSuffix(result.Text, prompt) {
			t.Errorf("answer %q, want that to the prompt with a note", result.Text)
		}
		if kills.Load() != int32(n+1) {
			t.Errorf("killed %d times, want %d", kills.Load(), n+1)
		}
		awaitEnd(t, victim)
	}
	asked := server.Requests()
	if got := strings.Join(asked[len(asked)-1].Prompts, "|"); !strings.Contains(got, "kill first") {
		t.Errorf("the model was shown %q, want the session's first turn", got)
	}
}
