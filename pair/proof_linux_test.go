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

// TestProofLeavesNothing: what a proof leaves behind is ended with it, also
// when it succeeded, and when it closed its output and began a session of its
// own.
func TestProofLeavesNothing(t *testing.T) {
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
			// What is left behind has the one pipe open for as long as it lives; the
			// proof waits on the other until it has.
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
				t.Errorf("writing to what the proof left behind: %v, want nobody to be there", err)
			}
			if err := file.Close(); err != nil {
				t.Error(err)
			}
			// What is in the group of a proof ends with it, without a word.
			if m, err := ReadManifest(s.Place()); err != nil || m.Turn != nil {
				t.Errorf("turn %+v, %v; want none", m.Turn, err)
			}
		})
	}
}

// TestProofCutOff: what a proof has left at work whose process was killed is
// ended before the next begins.
func TestProofCutOff(t *testing.T) {
	var calls []call
	s := newSession(t, Settings{Prompt: "x", Review: ReviewNone, Proof: "true"}, lines(t, &calls, "codex: DONE"))
	mark := orphans.NewMark()
	left := exec.Command("sleep", "1000")
	left.Env = append(os.Environ(), orphans.Environ(orphans.WithMark(t.Context(), mark))...)
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	s.options.Observe = func(e Entry) {
		if e.Type == EntryResult {
			s.manifest.Turn.ProofMark = string(mark)
		}
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := left.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("what was left behind ended with %v, want it killed", err)
	}
}

// TestStopReachesProofFirst: at a shutdown a proof may end before this process
// is told to. It has not failed then.
func TestStopReachesProofFirst(t *testing.T) {
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
	if m := s.Manifest(); m.State != Working || m.Turn.Proof != nil {
		t.Errorf("state %s with the proof %+v, want it to be run again", m.State, m.Turn.Proof)
	}
}
