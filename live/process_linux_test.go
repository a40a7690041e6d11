package live

import (
	"os"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/process"
)

// TestSharedProcess checks that a session whose terminal is not known lives as long as its process does, and
// a codex that may show it is in a terminal.
func TestSharedProcess(t *testing.T) {
	seat := newSeat(t)
	dir := t.TempDir()
	s := Session{Program: Codex, Host: hostname(), Dir: dir, Server: process.Read(seat.process.Process.Pid).Process}
	want := func(what string, alive bool) {
		t.Helper()
		if s.alive() != alive {
			t.Errorf("%s: the session lives: %t", what, !alive)
		}
		if s.Attended() {
			t.Errorf("%s: the session is attended", what)
		}
	}
	seat.codex(dir, "app-server")
	seat.codex(t.TempDir())
	want("no codex in the folder", false)
	here := seat.codex(dir)
	want("a codex in the folder", true)
	h := &Hook{Workspace: seat.w, caller: func() process.Info {
		return process.Info{Process: process.Read(seat.process.Process.Pid).Process, Arguments: "codex\x00app-server"}
	}}
	terminal := func() int {
		h.attach(&s, Event{Dir: dir})
		found := s.Process.PID
		s.Process = process.Process{}
		return found
	}
	if got := terminal(); got != here.Process.Pid {
		t.Errorf("the terminal is %d, want %d", got, here.Process.Pid)
	}
	second := seat.codex(dir)
	if got := terminal(); got != 0 {
		t.Errorf("of two terminals, it is %d", got)
	}
	end(here)
	end(second)
	want("its codex has ended", false)
	seat.codex(dir)
	end(seat.process)
	want("its process has ended", false)
	if p := (process.Process{PID: os.Getpid(), Started: time.Now().String()}); p.IsAlive() {
		t.Error("a process lives that began at another time")
	}
}
