package live

import (
	"fmt"
	"time"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/turn/track"
)

// Presence returns what is proven about an agent: its living sessions, its runner and turns, what it says about its
// work, and the command that waits for its mail or else the last one. Each fact is a line. It also reports whether a
// session, runner or command gets its mail. It ignores sessions that cannot be read.
func Presence(w *mailbox.Workspace, s *track.AgentStatus, now time.Time) (facts []string, isThere bool) {
	add := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	sessions, _ := Sessions(w, s.Agent)
	for _, session := range sessions {
		add("a live session of %s is %s", session.Program, session.State())
	}
	if s.Running {
		add("oacp run works the inbox")
	}
	for _, t := range s.InTurn {
		add("in a turn for %s, on %s from %s: %s", spelling.Age(t.Started, now), t.ID, t.From, t.Subject)
	}
	for _, m := range s.Working {
		add("working on %s%s", m.ID.Short(), m.Said(now))
	}
	switch {
	case s.Waiting != nil:
		add("waiting in %s for %s", s.Waiting.Name, spelling.Age(s.Waiting.At, now))
	case s.LastCommand != nil:
		add("last command: %s %s ago", s.LastCommand.Name, spelling.Age(s.LastCommand.At, now))
	}
	return facts, len(sessions) > 0 || s.Running || s.Waiting != nil
}

// State returns whether the session is working or idle.
func (s *Session) State() string {
	if s.Working {
		return "working"
	}
	return "idle"
}
