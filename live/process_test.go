package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox"
)

// childRole is the variable that makes a process of this test a hook of claude in the workspace that it
// names. childDeath says where the process is killed.
const (
	childRole  = "OACP_LIVE_TEST_CHILD"
	childDeath = "OACP_LIVE_TEST_DEATH"
	// waits is the role of a process that waits until it is killed.
	waits = "waits"
)

// Where a hook is killed, besides each time that it asks for the time.
const (
	beforePrint = "before it prints"
	afterPrint  = "after it printed"
)

// runChild is a hook, and returns its exit status.
func runChild() int {
	if os.Getenv(childRole) == waits {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	death := os.Getenv(childDeath)
	die := func(at string) {
		if at == death {
			killSelf()
		}
	}
	asked := 0
	w, err := mailbox.Open(os.Getenv(childRole), nil)
	if err != nil {
		panic(err)
	}
	e, err := ReadEvent(os.Stdin)
	if err != nil {
		panic(err)
	}
	h := &Hook{Workspace: w, Agent: "claude", Program: Claude, Getenv: os.Getenv, Now: func() time.Time {
		asked++
		die(strconv.Itoa(asked))
		return time.Now()
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // it may wait for another session
	defer cancel()
	exit := 0
	err = h.Handle(ctx, e, func(a Answer) error {
		die(beforePrint)
		_, err := os.Stdout.Write(a.Stdout)
		_, errErr := os.Stderr.Write(a.Stderr)
		die(afterPrint)
		exit = a.Exit
		return errors.Join(err, errErr)
	})
	if err != nil {
		panic(err)
	}
	return exit
}

func killSelf() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// process runs a hook of this process's session as a process. It returns what the hook shows, and whether
// it was killed. What a killed hook prints, no program reads.
func (h *hooks) process(e Event, death string) (text string, killed bool) {
	h.Helper()
	input, err := json.Marshal(map[string]string{
		"hook_event_name": e.Name, "session_id": e.Session, "cwd": e.Dir, "source": e.Source, "event": e.Change, "file_path": e.Path,
	})
	if err != nil {
		h.Fatal(err)
	}
	hook := exec.Command(os.Args[0])
	pid := os.Getpid()
	if program := h.programs[e.Session]; program != nil {
		pid = program.Process.Pid
	}
	hook.Env = append(os.Environ(), childRole+"="+h.Workspace.Dir(), childDeath+"="+death, "CLAUDE_PID="+strconv.Itoa(pid))
	hook.Stdin = bytes.NewReader(input)
	var a Answer
	a.Stdout, err = hook.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == wakeStatus:
		a.Stderr, a.Exit = exit.Stderr, wakeStatus
	case errors.As(err, &exit) && !exit.Exited():
		return "", true
	case err != nil:
		h.Errorf("the hook fails: %v", err)
		return "", false
	}
	return shown(h, e.Name, a), false
}

// TestKilledHook kills a hook with -9 at each step: the next event shows what it did not, once, and nothing
// counts as noticed.
func TestKilledHook(t *testing.T) {
	for _, event := range []string{SessionStart, UserPromptSubmit, PostToolUse, Stop, FileChanged} {
		for _, death := range []string{"1", "2", beforePrint, afterPrint} {
			t.Run(event+" "+death, func(t *testing.T) {
				t.Parallel()
				h := newHooks(t, Claude)
				h.now = time.Now()
				e := Event{Name: event, Session: "s", Change: "add", Path: "new.yaml"}
				want := "m001"
				h.arrive(h.ask(want))
				if event != SessionStart {
					h.wantNamed(h.on("s", SessionStart), want)
					h.on("s", UserPromptSubmit)
					want = "m002"
					h.arrive(h.ask(want))
				}
				if _, killed := h.process(e, death); !killed {
					t.Fatal("the hook lives")
				}
				text := h.on("s", UserPromptSubmit)
				h.wantNamed(text, want)
				if greets := strings.HasPrefix(text, "You are oacp agent "); greets != (event == SessionStart) {
					t.Errorf("the next event greets: %t", greets)
				}
				h.wantNamed(h.on("s", SessionStart))
				if slices.Contains(h.noticed("s"), want) {
					t.Errorf("the session noticed %s before the model answered", want)
				}
				if files := h.stateFiles(); !slices.Equal(files, []string{lockName, "s.json"}) {
					t.Errorf("the files are %q, want none of the hook that was killed", files)
				}
				h.on("s", UserPromptSubmit)
				h.on("s", Stop)
				if noticed := h.noticed("s"); !slices.Contains(noticed, want) {
					t.Errorf("the session noticed %q, want %s, too", noticed, want)
				}
			})
		}
	}
}

func (h *hooks) stateFiles() (names []string) {
	h.Helper()
	files, err := os.ReadDir(h.statePath(""))
	if err != nil {
		h.Fatal(err)
	}
	for _, file := range files {
		names = append(names, file.Name())
	}
	return names
}

// TestHooksAtOnce runs 50 hooks of two sessions at once: each message is shown once, to one of them. Two prompts
// in a row would show mail again, so no hook is for a prompt.
func TestHooksAtOnce(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Claude)
	h.now = time.Now()
	sessions := []string{"one", "two"}
	h.programs["two"] = startProgram(t)
	var want []string
	for _, s := range sessions {
		h.on(s, SessionStart)
		h.on(s, UserPromptSubmit)
	}
	for n := range 5 {
		m := h.ask(fmt.Sprint("m00", n))
		h.arrive(m)
		want = append(want, m.ID.Short())
	}
	var mu sync.Mutex
	var got []string
	var group sync.WaitGroup
	for n := range 50 {
		group.Go(func() {
			e := Event{Name: []string{PostToolUse, FileChanged, Stop}[n%3], Session: sessions[n%2], Change: "add", Path: "new.yaml"}
			text, killed := h.process(e, "")
			if killed {
				t.Error("a hook was killed")
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, named(text)...)
		})
	}
	group.Wait()
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%q were shown, want %q", got, want)
	}
	if living, err := Sessions(h.Workspace); err != nil || len(living) != 2 || living[0].Process == living[1].Process {
		t.Errorf("the sessions are %+v (%v), want two, each in its process", living, err)
	}
}

// startProgram starts a process that a session can be in. It runs until it is killed.
func startProgram(t testing.TB) *exec.Cmd {
	t.Helper()
	program := exec.Command(os.Args[0])
	program.Env = append(os.Environ(), childRole+"="+waits)
	if _, err := program.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(program) })
	return program
}

func kill(program *exec.Cmd) {
	_ = program.Process.Kill() // it may be dead already
	_ = program.Wait()
}

// runIn makes the process that a program stands for the one that calls the hooks.
func (h *hooks) runIn(program *exec.Cmd) {
	h.Getenv = func(string) string { return strconv.Itoa(program.Process.Pid) }
}

// TestKilledSession kills a program with -9: its session is forgotten, and all is shown to the next one.
func TestKilledSession(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Claude)
	program := startProgram(t)
	h.runIn(program)
	h.arrive(h.ask("m001"))
	h.wantNamed(h.on("killed", SessionStart), "m001")
	if found, err := Sessions(h.Workspace, "claude"); err != nil || len(found) != 1 || !found[0].Attended() || found[0].Process.PID != program.Process.Pid {
		t.Fatalf("the sessions are %+v (%v), want one in the program", found, err)
	}
	kill(program)
	if found, err := Sessions(h.Workspace); err != nil || len(found) != 0 {
		t.Errorf("the sessions are %+v (%v), want none", found, err)
	}
	h.runIn(startProgram(t))
	text := h.on("next", SessionStart)
	if h.wantNamed(text, "m001"); strings.Contains(text, "another session") {
		t.Errorf("the mail is marked as shown to a session that is dead:\n%s", text)
	}
	if files := h.stateFiles(); slices.Contains(files, "killed.json") || h.noticed("killed") != nil {
		t.Errorf("the files %q are left", files)
	}
}

// TestCleared checks that a session that a person cleared is forgotten with the process living on, as codex
// does not say that it ended.
func TestCleared(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"clear", "startup"} {
		h := newHooks(t, Claude)
		h.runIn(startProgram(t))
		h.arrive(h.ask("m001"))
		h.on("old", SessionStart)
		if source == "startup" {
			h.programs["new"] = startProgram(t)
		}
		a, err := h.handle(Event{Name: SessionStart, Session: "new", Source: source})
		if text := shown(t, SessionStart, a); err != nil || strings.Contains(text, "m001") != (source == "clear") {
			t.Errorf("%s says (%v):\n%s", source, err, text)
		}
		if _, err := os.Stat(h.statePath("old.json")); errors.Is(err, fs.ErrNotExist) != (source == "clear") {
			t.Errorf("after %s, the old session's state gives %v", source, err)
		}
	}
}

// TestProcessOfCodex checks that a session of codex that a session of claude started is not in the process
// of claude.
func TestProcessOfCodex(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Codex)
	program := startProgram(t)
	h.runIn(program)
	h.on("s", SessionStart)
	if s := h.state("s"); s.Process.PID == program.Process.Pid {
		t.Error("the session is in the process of claude")
	}
}

// TestScripted checks which command lines of codex are those of a script.
func TestScripted(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{
		"codex": false, "codex|": false, "": false,
		"codex|exec|fix it": true, "/usr/bin/codex|e|-|": true, "codex|review|--base|main": true,
		"codex|exec|resume|--last": true, "codex|exec|--ephemeral|review": true,
		"codex|-c|model=m|--yolo|-C|/tmp|exec": true, "codex|--config=a=b|-mfast|--search|exec|x": true,
		"codex|fix it": false, "codex|exec it": false, "codex|--cd": false,
		"codex|app-server|--listen|unix://": false,
	}
	for line, want := range tests {
		p := process.Info{Arguments: strings.ReplaceAll(line, "|", "\x00")}
		if got := isScripted(p); got != want {
			t.Errorf("%s: it is scripted: %t, want %t", line, got, want)
		}
	}
}
