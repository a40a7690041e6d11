package pair

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/oacp-go/oacp/internal/orphans"
)

// TestProofLeavesNothing checks that processes that a proof leaves behind end with it, even if it
// succeeded, or if they closed their output and began a session of their own.
func TestProofLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]string{
		"in its group":        "sleep 1000 >/dev/null 2>&1 <$0 & read line <$0.go",
		"in a session":        "setsid sh -c \"exec sleep 1000 >/dev/null 2>&1 <$0\" & read line <$0.go",
		"and it fails itself": "setsid sh -c \"exec sleep 1000 >/dev/null 2>&1 <$0\" & read line <$0.go; false",
	} {
		t.Run(name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := errors.Join(syscall.Mkfifo(fifo, 0o600), syscall.Mkfifo(fifo+".go", 0o600)); err != nil {
				t.Fatal(err)
			}
			// The process that is left behind holds one pipe open as long as it lives. The proof
			// waits on the other pipe until the first one is open.
			opened := make(chan *os.File, 1)
			go func() {
				file, err := os.OpenFile(fifo, os.O_WRONLY, 0)
				if err := errors.Join(err, os.WriteFile(fifo+".go", []byte("go\n"), 0o600)); err != nil {
					t.Error(err)
				}
				opened <- file
			}()
			var calls []call
			s := newSession(t, Settings{Prompt: "x", Review: ReviewNone, MaxIterations: 1, Proof: "sh -c '" + leave + "' " + fifo}, lines(t, &calls, "codex: DONE"))
			var failed *FailedError
			if err := s.Run(t.Context()); err != nil && !errors.As(err, &failed) {
				t.Fatal(err)
			}
			file := <-opened
			if _, err := io.WriteString(file, "is anybody there?"); !errors.Is(err, syscall.EPIPE) {
				t.Errorf("writing to the process that the proof left behind: %v, want no such process", err)
			}
			if err := file.Close(); err != nil {
				t.Error(err)
			}
			// Processes in the group of a proof end with it and are not reported.
			if m, err := ReadManifest(s.Place()); err != nil || m.Round != nil {
				t.Errorf("round %+v, %v; want none", m.Round, err)
			}
		})
	}
}

// TestProofCutOff checks that, after this process was killed, what its proof left running is ended
// before the next proof begins.
func TestProofCutOff(t *testing.T) {
	t.Parallel()
	var calls []call
	s := newSession(t, Settings{Prompt: "x", Review: ReviewNone, Proof: "true"}, lines(t, &calls, "codex: DONE"))
	mark := s.proofs().NewMark()
	left := exec.Command("sleep", "1000")
	left.Env = append(os.Environ(), orphans.Environ(orphans.WithMark(t.Context(), mark))...)
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	s.options.Observe = func(e Entry) {
		if e.Type == EntryResult {
			s.manifest.Round.ProofMark = string(mark)
		}
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := left.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the process that was left behind ended with %v, want it killed", err)
	}
}

// TestStopReachesProofFirst checks that a proof that ends at a shutdown, before this process is
// asked to stop, has not failed.
func TestStopReachesProofFirst(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		_, err := os.ReadFile(fifo) // to the end of the proof
		cancel(errors.Join(enough, err))
	}()
	var calls []call
	s := newSession(t, Settings{Prompt: "x", Review: ReviewNone, MaxIterations: 1, Proof: "sh -c 'exec 3>" + fifo + "; exit 1'"}, lines(t, &calls, "codex: DONE"))
	if err := s.Run(ctx); !errors.Is(err, enough) {
		t.Errorf("error %v, want the cause", err)
	}
	if m := s.Manifest(); m.State != Working || m.Round.Proof != nil {
		t.Errorf("state %s with the proof %+v, want it to be run again", m.State, m.Round.Proof)
	}
}
