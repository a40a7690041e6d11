package track

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
)

// TestCommandsOf checks which command is the last one, and which one waits: none whose process is gone.
func TestCommandsOf(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("the system does not tell when processes started")
	}
	if dir := os.Getenv("OACP_TEST_WAITS"); dir != "" {
		w, err := mailbox.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		NoteCommand(w, "codex", "oacp send", true, time.Now)
		return // the process ends without calling end, as if it were killed
	}
	w := newWorkspace(t)
	at := time.Date(2026, 3, 13, 14, 30, 0, 0, time.UTC)
	now := func() time.Time { return at }
	check := func(wantLast, wantWaiting string) {
		t.Helper()
		last, waiting := CommandsOf(w, "codex")
		for _, c := range []struct {
			got  *Command
			want string
		}{{last, wantLast}, {waiting, wantWaiting}} {
			if name := ""; c.got != nil && c.got.Name != c.want || c.got == nil && name != c.want {
				t.Errorf("the commands are %+v and %+v, want %q and %q", last, waiting, wantLast, wantWaiting)
			}
		}
	}
	check("", "")
	NoteCommand(w, "codex", "oacp inbox", false, now)()
	check("oacp inbox", "")
	at = at.Add(time.Minute)
	end := NoteCommand(w, "codex", "oacp next", true, now)
	check("oacp next", "oacp next")
	at = at.Add(time.Minute)
	NoteCommand(w, "codex", "oacp ack", false, now)()
	check("oacp ack", "oacp next")
	at = at.Add(time.Minute)
	end()
	check("oacp next", "")
	if last, _ := CommandsOf(w, "codex"); !last.At.Equal(at) {
		t.Errorf("the wait ended at %v, want %v", last.At, at)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCommandsOf$")
	child.Env = append(os.Environ(), "OACP_TEST_WAITS="+w.Dir())
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	check("oacp send", "")
}

// TestNoteCommandIsModest checks that a command leaves nothing in a workspace without the agent, and that it works
// where nothing can be written.
func TestNoteCommandIsModest(t *testing.T) {
	w := newWorkspace(t)
	NoteCommand(w, "nobody", "oacp inbox", false, time.Now)()
	if _, err := w.Root().Lstat(runFolder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an unknown agent made %s: %v", runFolder, err)
	}
	if err := w.Root().WriteFile(runFolder, []byte("in the way"), 0o644); err != nil {
		t.Fatal(err)
	}
	NoteCommand(w, "codex", "oacp next", true, time.Now)()
	if last, waiting := CommandsOf(w, "codex"); last != nil || waiting != nil {
		t.Errorf("the commands are %v and %v, want none", last, waiting)
	}
	check := strings.Repeat("x", maxCommand+1)
	if err := errors.Join(w.Root().Remove(runFolder), w.Root().Mkdir(runFolder, 0o755), w.Root().WriteFile(runFolder+"/codex.last", []byte(check), 0o644)); err != nil {
		t.Fatal(err)
	}
	if last, _ := CommandsOf(w, "codex"); last != nil {
		t.Errorf("the command is %v, want none: the file is damaged", last)
	}
}

func BenchmarkNoteCommand(b *testing.B) {
	w := newWorkspace(b)
	for b.Loop() {
		NoteCommand(w, "codex", "oacp ack", false, time.Now)
	}
}
