package turn

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/turn/track"
)

// stoppedHolder starts a process that takes a lock of the workspace, and stops it. The function returned
// kills it.
func stoppedHolder(t *testing.T, w *mailbox.Workspace, lock string) (kill func()) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.Dir(), "state", lock)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(executable)
	child.Env = append(os.Environ(), childRole+"="+roleHold, childDir+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = func() { _, _ = child.Process.Kill(), child.Wait() }
	t.Cleanup(kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the process that takes the lock says %q: %v", line, err)
	}
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(child.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("waiting for the process to stop: %v, %v", status, err)
	}
	return kill
}

// TestStoppedHolderAtStart checks that a run does not start while a stopped process holds the journal.
func TestStoppedHolderAtStart(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	stoppedHolder(t, w, "turns/codex.jsonl.lock")
	_, err := runOnce(t, w, Config{})
	if err == nil || !strings.Contains(err.Error(), "another process holds it") {
		t.Errorf("Run = %v, want an error that another process holds the lock", err)
	}
}

// TestStoppedHolder stops a process that holds a lock during a run. The run says so, ends when it is
// told to, and loses nothing.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	for _, lock := range []string{"turns/codex.jsonl.lock", "deliver.lock"} {
		t.Run(filepath.Base(lock), func(t *testing.T) {
			w := newWorkspace(t)
			kill := func() {}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			told := errors.New("told to end")
			ctx, end := context.WithCancelCause(ctx)
			r, rec := newRunner(t, w, Config{Reply: true, NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
				kill = stoppedHolder(t, w, lock)
				return agent.Result{Text: "Port 8080."}, nil
			})})
			rec.on = func(e Event) {
				if e.Kind == EventProblem && strings.Contains(e.Reason, "holds it") {
					end(told)
				}
			}
			asked := send(t, w, question("q"))[0]
			if err := r.Run(ctx); err != nil || context.Cause(ctx) != told {
				t.Errorf("Run = %v, ended by %v, want the signal; events %s", err, context.Cause(ctx), rec.kinds())
			}
			wantTexts(t, "the inbox", subjects(t, w, "codex", mailbox.Inbox), "q")
			kill()
			if _, err := runOnce(t, w, Config{Reply: true, NewDriver: says("Port 8080.")}); err != nil {
				t.Error(err)
			}
			if p := progress(t, w, asked.ID); p.Stage != track.StageAnswered {
				t.Errorf("after the next run: %+v, want it answered", p)
			}
		})
	}
}
