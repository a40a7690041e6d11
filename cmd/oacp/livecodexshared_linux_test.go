package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/schema"
)

// parentOf returns the number of a process's parent.
func parentOf(t *testing.T, pid int) (parent int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	found := regexp.MustCompile(`(?m)^PPid:\t(\d+)$`).FindSubmatch(status)
	if err == nil && found != nil {
		_, err = fmt.Sscan(string(found[1]), &parent)
	}
	if err != nil || found == nil {
		t.Fatalf("the status of process %d is %q, %v", pid, status, err)
	}
	return parent
}

// wantShared checks that the only session, whose hooks run in the shared process, is known to be in its
// terminal. It returns the shared process.
func (s *codexSession) wantShared() process.Process {
	s.t.Helper()
	sessions, err := live.Sessions(s.w, "codex")
	if err != nil || len(sessions) != 1 {
		s.t.Fatalf("the sessions are %+v, %v; want one", sessions, err)
	}
	session := sessions[0]
	if !session.Attended() || parentOf(s.t, session.Process.PID) != s.terminal.Program().Pid {
		s.t.Errorf("the session is in process %d, want that of the terminal, a child of %d", session.Process.PID, s.terminal.Program().Pid)
	}
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", session.Server.PID))
	if err != nil || session.Server == session.Process || !strings.Contains(program, "node_modules") {
		s.t.Errorf("its hooks run in process %d, which is %s (%v); want the shared one, not a copy of codex", session.Server.PID, program, err)
	}
	return session.Server
}

// TestCodexShared checks with the real codex that mail reaches sessions of two terminals that share a process,
// as they do by default: with the first prompt, and once when the session is idle. A session whose terminal is
// gone is forgotten and not rung, although the shared process still has it.
func TestCodexShared(t *testing.T) {
	t.Parallel()
	folders := []string{t.TempDir(), t.TempDir()}
	scene := newCodexScene(t, func(context.Context, modelstub.Request) modelstub.Reply { return modelstub.Reply{Text: "Well."} }, folders...)
	modelstub.ShareCodex(t, scene.home, scene.env)
	here, there := scene.in(folders[0]), scene.in(folders[1])
	here.send(schema.Question, "Here at first")
	here.open()
	here.terminal.Say("good morning")
	if r := here.awaitPrompt("good morning"); !hasContext(r, "The body of Here at first.") {
		t.Errorf("the first request lacks the mail: %q", r.Context)
	}
	here.awaitIdle()
	there.open()
	there.terminal.Say("good evening")
	if r := there.awaitPrompt("good evening"); hasContext(r, "Here at first") {
		t.Errorf("the request has mail of another workspace: %q", r.Context)
	}
	there.awaitIdle()
	if one, other := here.wantShared(), there.wantShared(); one != other {
		t.Errorf("the hooks run in the processes %v and %v, want one", one, other)
	}

	there.send(schema.Question, "There and idle", "There as well")
	r := scene.server.Await(t, func(r modelstub.Request) bool { return hasContext(r, "The body of There as well.") })
	if !hasContext(r, "The body of There and idle.") || !slices.Equal(r.Prompts, []string{"good evening", "oacp: 2 messages wait for codex"}) {
		t.Errorf("want both messages in the second turn of the session, got the context %q after the prompts %q", r.Context, r.Prompts)
	}
	there.awaitIdle()

	follower := followerOf(t, there.w, there.id)
	there.terminal.Kill()
	there.send(schema.Question, "There too late")
	there.await("the session is forgotten", func(sessions []live.Session) bool {
		_, err := os.Stat(filepath.Join(there.w.Dir(), "state", "live", "codex", there.id+".json"))
		return errors.Is(err, fs.ErrNotExist) && !isRunning(t, follower)
	})
	here.send(schema.Question, "Here at last")
	scene.server.Await(t, func(r modelstub.Request) bool { return hasContext(r, "The body of Here at last.") })
	here.awaitIdle()
	here.wantShared()

	follower = followerOf(t, here.w, here.id)
	here.terminal.Say("/quit")
	here.terminal.Wait()
	here.await("the session is forgotten", func(sessions []live.Session) bool { return len(sessions) == 0 && !isRunning(t, follower) })
	var prompts []string
	for _, r := range scene.server.Requests() {
		prompts = append(prompts, r.Prompt)
	}
	prompts = slices.Compact(prompts) // a reminder of what is owed goes on with the turn
	want := []string{"good morning", "good evening", "oacp: 2 messages wait for codex", "oacp: 1 message waits for codex"}
	if !slices.Equal(prompts, want) {
		t.Errorf("the prompts are %q, want %q", prompts, want)
	}
	for _, session := range []*codexSession{here, there} {
		wantNoErrors(t, session.w)
	}
}

// TestTwoCodexTerminals checks with the real codex that of two terminals in one folder, which share a process, only one
// gets each question.
func TestTwoCodexTerminals(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	scene := newCodexScene(t, func(context.Context, modelstub.Request) modelstub.Reply { return modelstub.Reply{Text: "Well."} }, folder)
	modelstub.ShareCodex(t, scene.home, scene.env)
	one := scene.in(folder)
	other := &codexSession{codexScene: scene, folder: folder, w: one.w}
	idle := func(count int) {
		one.await("all sessions are idle", func(sessions []live.Session) bool {
			return len(sessions) == count && !slices.ContainsFunc(sessions, func(l live.Session) bool { return !l.Greeted || l.Working })
		})
	}
	one.open()
	one.terminal.Say("good morning")
	one.awaitPrompt("good morning")
	idle(1)
	other.open()
	other.terminal.Say("good evening")
	other.awaitPrompt("good evening")
	idle(2)

	one.send(schema.Question, "First", "Second")
	asked := func(s *codexSession, prompt string) modelstub.Request {
		s.terminal.Say(prompt)
		r := s.awaitPrompt(prompt)
		idle(2)
		return r
	}
	here, there := asked(other, "what is new here"), asked(one, "what is new there")
	for _, subject := range []string{"First", "Second"} {
		body := "The body of " + subject + "."
		if hasContext(here, body) == hasContext(there, body) {
			t.Errorf("%s: shown to both sessions, or to none: %t", subject, hasContext(here, body))
		}
	}
	wantNoErrors(t, one.w)
}
