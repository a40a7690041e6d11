//go:build unix

package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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

// TestClaudeStopsTools cancels a turn in which the program runs a command that
// never ends.
func TestClaudeStopsTools(t *testing.T) {
	script := func(context.Context, modelstub.Request) modelstub.Reply {
		return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "Bash", Input: map[string]any{
			"command": "echo $$ > pid; " + helperShell(t, "hang"), "description": "wait",
		}}}}
	}
	driver, _ := realClaude(t, script, func(o *ClaudeOptions) { o.Approve = AllowAll })
	started(t, driver)
	ctx, cancel := context.WithCancel(impatient(t))
	defer cancel()
	pids := make(chan int, 1)
	go func() {
		defer cancel()
		pids <- awaitPID(ctx, filepath.Join(driver.options.Dir, "pid"))
	}()
	if _, err := driver.Turn(ctx, Request{Prompt: "wait"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Turn = %v, want context.Canceled", err)
	}
	pid := <-pids
	if pid <= 1 {
		t.Fatalf("the command's process id is %d, want one: did it run?", pid)
	}
	awaitEnd(t, pid)
}

// awaitPID waits until a process id stands in a file, and returns 0 if that
// takes longer than the context lasts.
func awaitPID(ctx context.Context, file string) int {
	for ctx.Err() == nil {
		data, _ := os.ReadFile(file) // not there yet
		if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && strings.HasSuffix(string(data), "\n") {
			return pid
		}
		time.Sleep(time.Millisecond)
	}
	return 0
}
