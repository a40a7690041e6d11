//go:build unix

package live

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox/project"
)

// A sleeper is an idle session of an agent.
type sleeper struct {
	*seat
	id       string
	program  Program
	terminal *exec.Cmd
}

func (p *sleeper) handle(e Event, print func(Answer) error) error {
	h := &Hook{Workspace: p.w, Agent: "codex", Program: p.program, Now: p.now, caller: func() process.Info { return process.Read(p.terminal.Process.Pid) }}
	e.Session, e.Dir = p.id, "/"
	return h.Handle(p.t.Context(), e, print)
}

// on passes events to the session.
func (p *sleeper) on(events ...string) {
	p.t.Helper()
	for _, event := range events {
		if err := p.handle(Event{Name: event}, func(Answer) error { return nil }); err != nil {
			p.t.Fatal(err)
		}
	}
}

// isWoken reports whether the mail in the inbox wakes the session now. A hook of claude that waits counts as one that
// does not.
func (p *sleeper) isWoken() (woken bool) {
	p.t.Helper()
	if p.program == Codex {
		dir, err := openFolder(p.w, "codex")
		if err != nil {
			p.t.Fatal(err)
		}
		defer dir.Close()
		f := &follower{hook: &Hook{Workspace: p.w, Agent: "codex", Program: Codex, Now: p.now}, dir: dir, id: p.id, seen: p.now()}
		files, _, err := f.due(p.t.Context())
		if err != nil {
			p.t.Fatal(err)
		}
		if len(files) > 0 {
			p.on(UserPromptSubmit) // which codex queue causes
		}
		return len(files) > 0
	}
	h := &Hook{Workspace: p.w, Agent: "codex", Program: Claude, Now: p.now}
	dir, err := h.Workspace.OpenStateFolder(project.SessionsName(h.Agent))
	if err != nil {
		p.t.Fatal(err)
	}
	defer dir.Close()
	e := Event{Name: FileChanged, Change: "add", Path: "new.yaml", Session: p.id}
	err = dir.Locked(context.Background(), lockName, func() error {
		return h.answer(p.t.Context(), dir, e, func(a Answer) error {
			woken = a.Exit == wakeStatus
			return nil
		})
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return woken
}

// TestOneIsWoken lets mail come while two sessions of an agent are idle. It wakes the one that a person used last, and
// the other one only if the first has not noticed it after noticeLimit, whichever looks first.
func TestOneIsWoken(t *testing.T) {
	for _, programs := range [][2]Program{{Claude, Claude}, {Codex, Codex}, {Claude, Codex}, {Codex, Claude}} {
		for name, test := range map[string]struct {
			// fails makes the first session miss the mail.
			otherFirst, fails, notices bool
			want                       bool
		}{
			"it notices":                   {notices: true},
			"it notices, the other looks":  {otherFirst: true, notices: true},
			"it was shown it":              {},
			"its hooks fail":               {fails: true, want: true},
			"its hooks fail, after a look": {otherFirst: true, fails: true, want: true},
		} {
			t.Run(string(programs[0])+" "+string(programs[1])+" "+name, func(t *testing.T) {
				s := newSeat(t)
				var sessions []*sleeper
				for i, id := range []string{"0199a213-81c0-7800-8aa1-000000000002", "0199a213-81c0-7800-8aa1-000000000001"} {
					p := &sleeper{seat: s, id: id, program: programs[i], terminal: s.child()}
					p.on(SessionStart, UserPromptSubmit, Stop)
					sessions = append(sessions, p)
				}
				last, other := sessions[0], sessions[1] // the one that began first is used last
				s.ahead += time.Second
				last.on(UserPromptSubmit, Stop)
				s.send(1, nil)
				look := []*sleeper{last, other}
				if test.otherFirst {
					slices.Reverse(look)
				}
				for _, p := range look {
					if test.fails && p == last {
						continue
					}
					if got := p.isWoken(); got != (p == last) {
						t.Errorf("session %s is woken: %t", p.id, got)
					}
				}
				if test.notices {
					last.on(UserPromptSubmit, Stop)
				}
				s.ahead += headStart - 5*time.Second
				if other.isWoken() {
					t.Error("the other session is woken before the limit")
				}
				s.ahead += 6 * time.Second
				if got := other.isWoken(); got != test.want {
					t.Errorf("the other session is woken after the limit: %t, want %t", got, test.want)
				}
			})
		}
	}
}
