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

// TestUnknownTerminals runs two sessions of codex in one process and one folder, whose terminals cannot be told apart: each
// keeps what it was offered, and new mail goes to the one that was prompted last.
func TestUnknownTerminals(t *testing.T) {
	seat := newSeat(t)
	dir := t.TempDir()
	seat.codex(dir)
	seat.codex(dir)
	h := hooksIn(t, seat.w.Dir(), Codex)
	h.caller = func() process.Info {
		return process.Info{Process: process.Read(seat.process.Process.Pid).Process, Arguments: "codex\x00app-server"}
	}
	on := func(session, event string) string {
		t.Helper()
		h.now = h.now.Add(time.Second)
		a, err := h.handle(Event{Name: event, Session: session, Dir: dir})
		if err != nil {
			t.Error(err)
		}
		return shown(t, event, a)
	}
	h.arrive(h.ask("m001"))
	h.wantNamed(on("one", SessionStart), "m001")
	on("one", UserPromptSubmit)
	if s := h.state("one"); s.Process.PID != 0 {
		t.Fatalf("the terminal is %d, want none of the two", s.Process.PID)
	}
	h.wantNamed(on("two", SessionStart))
	h.wantNamed(on("two", UserPromptSubmit))
	h.arrive(h.ask("m002"))
	h.wantNamed(on("one", PostToolUse))
	h.wantNamed(on("two", PostToolUse), "m002")
	h.wantNamed(on("one", UserPromptSubmit))
	h.arrive(h.ask("m003"))
	h.wantNamed(on("two", PostToolUse))
	h.wantNamed(on("one", PostToolUse), "m003")
	h.wantNamed(on("two", UserPromptSubmit))
}
