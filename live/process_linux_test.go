package live

import (
	"os"
	"testing"
	"time"
)

// TestSharedProcess checks that a session whose terminal is not known lives as long as its process does, and
// a codex that may show it is in a terminal.
func TestSharedProcess(t *testing.T) {
	seat := newSeat(t)
	dir := t.TempDir()
	s := Session{Program: Codex, Host: hostname(), Dir: dir, Server: readProcess(seat.process.Process.Pid).Process}
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
	if got := terminalOf(dir, nil); got.PID != here.Process.Pid {
		t.Errorf("the terminal is %v, want %d", got, here.Process.Pid)
	}
	second := seat.codex(dir)
	if got := terminalOf(dir, nil); got.PID != 0 {
		t.Errorf("of two terminals, it is %v", got)
	}
	if got := terminalOf(dir, map[Process]bool{readProcess(here.Process.Pid).Process: true}); got.PID != second.Process.Pid {
		t.Errorf("the terminal without a session is %v, want %d", got, second.Process.Pid)
	}
	end(here)
	end(second)
	want("its codex has ended", false)
	for _, argument := range []string{"-C", "resume", "fork", "agents", "--worktree"} {
		elsewhere := seat.codex(t.TempDir(), argument, dir)
		want("codex "+argument, true)
		end(elsewhere)
	}
	seat.codex(t.TempDir(), "--cd="+dir)
	want("a codex for another folder", true)
	end(seat.process)
	want("its process has ended", false)
	if p := (Process{PID: os.Getpid(), Started: time.Now().String()}); p.alive() {
		t.Error("a process lives that began at another time")
	}
}
