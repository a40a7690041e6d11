//go:build unix

package live

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

const sessionID = "0199a213-81c0-7800-8aa1-bbab2a035a53"

// A seat is a workspace with a session of codex whose process is a child of the test.
type seat struct {
	t       *testing.T
	w       *mailbox.Workspace
	process *exec.Cmd
	// ahead is how far the clock of hooks and follower is ahead. Another clock replaces it.
	ahead time.Duration
	clock func() time.Time
	// source is that of the events.
	source string
	// rings is the file to which the fake codex appends its arguments.
	rings string
}

func newSeat(t *testing.T) *seat {
	t.Helper()
	w := mailboxtest.New(t, "claude", "codex")
	programs := t.TempDir()
	s := &seat{t: t, w: w, rings: filepath.Join(programs, "rings")}
	s.write(s.rings, "", 0o600)
	s.write(filepath.Join(programs, "codex"), "#!/bin/sh\necho \"$*\" >>\""+s.rings+"\"\ncase $RING_FAILS in ?*) echo \"$RING_FAILS\" >&2; exit 1;; esac\n", 0o700)
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	s.process = s.child()
	return s
}

// child starts a process that ends when it is killed, or with the test.
func (s *seat) child() *exec.Cmd {
	s.t.Helper()
	return s.start(exec.Command("cat"))
}

// codex starts a process that looks like codex in a folder.
func (s *seat) codex(dir string, arguments ...string) *exec.Cmd {
	s.t.Helper()
	program := filepath.Join(s.t.TempDir(), "codex")
	shell, err := exec.LookPath("sh")
	if err == nil {
		err = os.Symlink(shell, program)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	child := exec.Command(program, append([]string{"-c", "read line; exit", "codex"}, arguments...)...)
	child.Dir = dir
	return s.start(child)
}

func (s *seat) start(child *exec.Cmd) *exec.Cmd {
	s.t.Helper()
	if _, err := child.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { end(child) })
	return child
}

// end kills a process. It may have ended.
func end(child *exec.Cmd) {
	_ = child.Process.Kill()
	_ = child.Wait()
}

func (s *seat) write(path, text string, mode fs.FileMode) {
	s.t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		s.t.Fatal(err)
	}
}

func (s *seat) now() time.Time {
	if s.clock != nil {
		return s.clock()
	}
	return time.Now().Add(s.ahead)
}

// event passes events of the session to its hooks.
func (s *seat) event(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.eventOf(sessionID, s.process, name)
	}
}

func (s *seat) eventOf(id string, terminal *exec.Cmd, name string) {
	s.t.Helper()
	h := &Hook{Workspace: s.w, Agent: "codex", Program: Codex, Now: s.now, caller: func() process.Info { return process.Read(terminal.Process.Pid) }}
	if err := h.Handle(s.t.Context(), Event{Name: name, Session: id, Dir: "/", Source: s.source}, func(Answer) error { return nil }); err != nil {
		s.t.Fatal(err)
	}
}

// begin begins the session and ends its first turn.
func (s *seat) begin() { s.event(SessionStart, UserPromptSubmit, Stop) }

// send sends messages from claude to codex. They are questions unless change says something else.
func (s *seat) send(count int, change func(*schema.Message)) []*mailbox.Receipt {
	s.t.Helper()
	var receipts []*mailbox.Receipt
	for i := range count {
		draft := schema.Message{From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question, Subject: fmt.Sprint("Question ", i), Body: schema.TextValue("Is it done?")}
		if change != nil {
			change(&draft)
		}
		r, err := s.w.Send(s.t.Context(), draft, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		receipts = append(receipts, r)
	}
	return receipts
}

// change changes the state of the session.
func (s *seat) change(change func(*Session)) {
	s.t.Helper()
	dir, err := openFolder(s.w, "codex")
	if err != nil {
		s.t.Fatal(err)
	}
	defer dir.Close()
	state, err := readSession(dir, sessionID)
	if err != nil {
		s.t.Fatal(err)
	}
	change(&state)
	written, err := state.prepare(dir)
	if err == nil && written != nil {
		err = written.Publish()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// follower returns the follower of the session, which has looked at the session's state.
func (s *seat) follower() *follower {
	s.t.Helper()
	dir, err := openFolder(s.w, "codex")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { dir.Close() })
	f := &follower{hook: &Hook{Workspace: s.w, Agent: "codex", Program: Codex, Now: s.now}, dir: dir, id: sessionID, seen: s.now()}
	if lives, _ := f.read(); !lives {
		s.t.Fatal("the session has ended")
	}
	return f
}

func TestDue(t *testing.T) {
	urgent := func(m *schema.Message) { m.Type, m.Priority = schema.Notification, schema.P1 }
	notification := func(m *schema.Message) { m.Type = schema.Notification }
	tests := map[string]struct {
		prepare func(s *seat)
		want    int
	}{
		"no mail":             {func(s *seat) { s.begin() }, 0},
		"a question":          {func(s *seat) { s.begin(); s.send(1, nil) }, 1},
		"three questions":     {func(s *seat) { s.begin(); s.send(3, nil) }, 3},
		"a notification":      {func(s *seat) { s.begin(); s.send(1, notification) }, 0},
		"an urgent one":       {func(s *seat) { s.begin(); s.send(1, urgent) }, 1},
		"both":                {func(s *seat) { s.begin(); s.send(1, notification); s.send(1, urgent) }, 1},
		"an acknowledged one": {func(s *seat) { s.begin(); remove(s, s.send(2, nil)[1]) }, 1},
		"shown at the start":  {func(s *seat) { s.send(1, nil); s.begin() }, 0},
		"too much at the start": {func(s *seat) {
			s.send(60, nil)
			s.event(SessionStart)
			s.change(func(state *Session) { state.Working = false })
		}, 0},
		"shown at a stop": {func(s *seat) { s.begin(); s.send(1, nil); s.event(Stop) }, 0},
		"expired": {func(s *seat) {
			s.begin()
			s.send(1, func(m *schema.Message) { m.ExpiresAt = schema.NewTimestamp(time.Now().Add(time.Hour)) })
			s.ahead = 2 * time.Hour
		}, 0},
		"before the first stop": {func(s *seat) { s.event(SessionStart, UserPromptSubmit); s.send(1, nil) }, 0},
		"in a turn": {func(s *seat) {
			s.event(SessionStart, UserPromptSubmit)
			s.send(1, nil)
			s.ahead = time.Hour
		}, 0},
		"an unknown terminal": {func(s *seat) {
			s.begin()
			s.codex(s.w.Dir())
			s.change(func(state *Session) {
				state.Process, state.Server, state.Dir = process.Process{}, state.Process, s.w.Dir()
			})
			s.send(1, nil)
		}, 0},
		"claude": {func(s *seat) { s.begin(); s.change(func(state *Session) { state.Program = Claude }); s.send(1, nil) }, 0},
		"another session of the terminal": {func(s *seat) {
			s.begin()
			s.eventOf("cleared", s.process, SessionStart)
			s.send(1, nil)
		}, 0},
		"an earlier session of the terminal": {func(s *seat) {
			s.eventOf("cleared", s.process, SessionStart)
			s.begin()
			s.send(1, nil)
		}, 1},
		"a session of another terminal, used later": {func(s *seat) {
			s.begin()
			s.eventOf("other", s.child(), SessionStart)
			s.send(1, nil)
		}, 0},
		"a session of another terminal, used earlier": {func(s *seat) {
			s.eventOf("other", s.child(), SessionStart)
			s.begin()
			s.send(1, nil)
		}, 1},
		"an earlier session that works": {func(s *seat) {
			other := s.child()
			s.eventOf("other", other, SessionStart)
			s.eventOf("other", other, UserPromptSubmit)
			s.begin()
			s.send(1, nil)
		}, 1},
		"mail of another session": {func(s *seat) {
			s.begin()
			s.send(1, nil)
			other := s.child()
			s.eventOf("other", other, SessionStart)
			s.eventOf("other", other, UserPromptSubmit)
		}, 0},
		"oacp run": {func(s *seat) { s.begin(); s.send(1, nil); run(s) }, 0},
		"half a file": {func(s *seat) {
			s.begin()
			s.write(s.w.BoxPath("codex", mailbox.Inbox)+"/202603131430_claude_question.yaml", "id: msg-", 0o600)
		}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSeat(t)
			test.prepare(s)
			f := s.follower()
			for range 2 { // also when it knows the answer
				if files, _, err := f.due(t.Context()); len(files) != test.want || err != nil {
					t.Errorf("rings for %d files, %v; want %d", len(files), err, test.want)
				}
			}
		})
	}
}

// TestYields checks that a session is rung if one that was used later, and is idle, does not take the mail in time.
func TestYields(t *testing.T) {
	s := newSeat(t)
	s.begin()
	s.eventOf("other", s.child(), SessionStart)
	s.send(1, nil)
	f := s.follower()
	for _, step := range []struct {
		ahead time.Duration
		want  int
	}{{0, 0}, {headStart - 2*time.Second, 0}, {headStart + time.Second, 1}} {
		s.ahead = step.ahead
		if files, _, err := f.due(t.Context()); len(files) != step.want || err != nil {
			t.Errorf("after %v it rings for %d files, %v; want %d", step.ahead, len(files), err, step.want)
		}
	}
}

func remove(s *seat, r *mailbox.Receipt) {
	s.t.Helper()
	if err := os.Remove(r.Inboxes[0]); err != nil {
		s.t.Fatal(err)
	}
}

// run works the inbox until the test ends.
func run(s *seat) {
	s.t.Helper()
	ready := make(chan struct{})
	runner, err := turn.New(s.w, turn.Config{
		Agent: "codex", AllowFrom: []schema.AgentName{"codex"}, Ready: func() { close(ready) },
		NewDriver: func(schema.ConversationID, string) agent.Driver { return agent.NewEcho() },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- runner.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
	<-ready
}

// TestRing checks what the program is called with, and when it is called again for the same messages.
func TestRing(t *testing.T) {
	s := newSeat(t)
	s.begin()
	f := s.follower()
	look := func(want ...string) {
		t.Helper()
		if ended := f.follow(t.Context()); ended {
			t.Fatal("the session has ended")
		}
		s.wantRings(want...)
	}
	first := "queue --thread " + sessionID + " --message oacp: 2 messages wait for codex"
	look()
	s.send(2, nil)
	look(first)
	look(first)
	s.send(1, nil) // the hook of the queued prompt shows all
	look(first)
	three := strings.Replace(first, ": 2", ": 3", 1)
	s.ahead += ringAgain + time.Second
	look(first, three)
	look(first, three)
	s.ahead += ringAgain + time.Second
	look(first, three, three)
	s.event(UserPromptSubmit, Stop, Stop)
	look(first, three, three)
	s.send(1, nil)
	one := strings.Replace(first, ": 2 messages wait ", ": 1 message waits ", 1)
	look(first, three, three, one)

	// A message that leaves the inbox needs no ring.
	entries, err := s.w.Inbox(t.Context(), "codex")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := s.w.Acknowledge(e); err != nil {
			t.Fatal(err)
		}
	}
	s.send(1, nil)
	look(first, three, three, one, one)
}

// TestRingFails checks that an error is noted, and that it does not end the follower, which soon rings again.
func TestRingFails(t *testing.T) {
	s := newSeat(t)
	t.Setenv("RING_FAILS", "no rollout\x1b found")
	s.begin()
	s.send(1, nil)
	f := s.follower()
	for range 3 {
		if ended := f.follow(t.Context()); ended {
			t.Fatal("the session has ended")
		}
	}
	data, err := os.ReadFile(filepath.Join(s.w.Dir(), project.SessionsFolder, errorsName))
	if text := string(data); err != nil || strings.Count(text, "\n") != 1 || !strings.Contains(text, " following codex session "+sessionID+`: codex queue: exit status 1: no rollout\x1b found`) {
		t.Errorf("the noted errors are %q, %v; want that of codex, once", text, err)
	}
	for range 2 {
		s.ahead += ringRetry + time.Second
		f.follow(t.Context())
	}
	if got := s.readRings(); len(got) != 3 {
		t.Errorf("codex was called with %q, want three rings: at once, and twice later", got)
	}
}

// wantRings checks the command lines of the fake codex.
func (s *seat) wantRings(want ...string) {
	s.t.Helper()
	if got := s.readRings(); !slices.Equal(got, want) {
		s.t.Errorf("codex was called with %q, want %q", got, want)
	}
}

func (s *seat) readRings() []string {
	s.t.Helper()
	data, err := os.ReadFile(s.rings)
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.Collect(func(yield func(string) bool) {
		for line := range strings.Lines(string(data)) {
			if !yield(strings.TrimSuffix(line, "\n")) {
				return
			}
		}
	})
}

// awaitRings waits until the fake codex was called so often.
func (s *seat) awaitRings(count int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	err := watch.Await(ctx, []string{filepath.Dir(s.rings)}, func() (bool, error) { return len(s.readRings()) >= count, nil })
	if err != nil {
		s.t.Fatalf("codex was called with %q: %v", s.readRings(), err)
	}
}

// follow starts Follow. The channel has its error when it has ended.
func (s *seat) follow(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() { done <- Follow(ctx, s.w, "codex", sessionID, s.now) }()
	return done
}

// TestFollow checks that ten messages at once are one ring, that the next mail is another, and that the end
// of the session ends the follower, which leaves nothing behind.
func TestFollow(t *testing.T) {
	tests := map[string]func(s *seat){
		"killed": func(s *seat) { end(s.process) },
		"closed": func(s *seat) { s.event(SessionEnd) },
	}
	for name, finish := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSeat(t)
			s.begin()
			done := s.follow(t.Context())
			s.send(10, nil)
			s.awaitRings(1)
			s.event(UserPromptSubmit, Stop, Stop)
			s.send(1, func(m *schema.Message) { m.Type = schema.Notification })
			s.send(1, nil)
			s.awaitRings(2)
			finish(s)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if rings := s.readRings(); len(rings) != 2 || !strings.HasSuffix(rings[1], ": 1 message waits for codex") {
				t.Errorf("codex was called with %q, want one call for ten messages and one for the question", rings)
			}
			s.wantFiles(lockName)
		})
	}
}

// wantFiles checks what is in the folder with the sessions of codex.
func (s *seat) wantFiles(want ...string) {
	s.t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.w.Dir(), project.SessionsName("codex")))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if err != nil || !slices.Equal(names, want) {
		s.t.Errorf("the folder holds %q, %v; want %q", names, err, want)
	}
}

// TestFollowBeforeTheState checks that a follower waits for the state, which the hook that starts it writes
// last, also if the session is a dead one that is resumed.
func TestFollowBeforeTheState(t *testing.T) {
	for _, resumed := range []bool{false, true} {
		s := newSeat(t)
		if resumed {
			s.begin()
			end(s.process)
			s.process = s.child()
		} else if err := s.w.MakeStateFolder(project.SessionsName("codex")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := s.follow(ctx)
		s.begin()
		s.send(1, nil)
		s.awaitRings(1)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the follower ended with %v", err)
		}
	}
}

// TestFollowWithoutASession checks that a follower whose session never comes ends, and leaves nothing.
func TestFollowWithoutASession(t *testing.T) {
	s := newSeat(t)
	if err := s.w.MakeStateFolder(project.SessionsName("codex")); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	looks := 0
	s.clock = func() time.Time {
		looks++
		return began.Add(time.Duration(looks) * startLimit)
	}
	if err := <-s.follow(t.Context()); err != nil {
		t.Error(err)
	}
	s.wantFiles(lockName)
}

// TestOneFollows checks that a second follower of a session ends at once, and that one whose lock was removed
// ends, too.
func TestOneFollows(t *testing.T) {
	s := newSeat(t)
	s.begin()
	first := s.follow(t.Context())
	s.send(1, nil)
	s.awaitRings(1)
	if err := Follow(t.Context(), s.w, "codex", sessionID, nil); err != nil {
		t.Error(err)
	}
	s.event(SessionEnd, SessionStart)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if _, err := findSession(s.w, "codex", sessionID); err != nil {
		t.Errorf("the session that began again: %v", err)
	}
}

// TestClear checks that a session of codex that its user clears is forgotten when the next one begins in its
// terminal, and no other session.
func TestClear(t *testing.T) {
	s := newSeat(t)
	s.begin()
	s.eventOf("other", s.child(), SessionStart)
	s.eventOf("next", s.process, SessionStart)
	if sessions, err := Sessions(s.w, "codex"); len(sessions) != 3 || err != nil {
		t.Errorf("there are %d sessions, %v; want 3", len(sessions), err)
	}
	s.source = "clear"
	s.eventOf("last", s.process, SessionStart)
	s.wantFiles(lockName, "last.json", "other.json")
}
