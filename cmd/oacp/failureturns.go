package main

import (
	"errors"
	"io/fs"
	"os/exec"
	"syscall"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/ash"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/turn"
)

// ofTurns fills in code and hint of an error of watching and of turns, and
// reports whether it is one.
func (f *failure) ofTurns() bool {
	var (
		busy     *turn.BusyError
		dead     *turn.DeadLettersError
		files    *turn.InvalidFilesError
		unread   *turn.UnreadableFilesError
		cursor   *watch.CursorInUseError
		reported *agent.ReportedError
		exit     *agent.ExitError
	)
	switch err := f.err; {
	case errors.As(err, &busy):
		f.code, f.hint = "busy", "one process works an inbox, with --parallel several conversations at a time; oacp status shows them all"
	case errors.Is(err, turn.ErrStateLost):
		f.code, f.hint = "state_lost", "nothing may be removed from state while a runner works; the next oacp run takes up what is in the inbox"
	case errors.As(err, &dead):
		f.code, f.hint = "dead_letters", "oacp read ID says why; agents/NAME/dead_letter holds them, each with its reason"
	case errors.As(err, &files):
		f.code, f.hint = "invalid_message", "oacp doctor says what is wrong with it; after a minute it becomes a dead letter"
	case errors.As(err, &unread):
		f.code, f.hint = "unreadable", "what stands in the way is told above; oacp ack FILE takes it out of the inbox"
	case errors.As(err, &cursor):
		f.code, f.hint = "cursor_in_use", "--state-id NAME keeps a place of its own for this one"
	case errors.Is(err, watch.ErrCursor):
		f.code = "cursor"
	case errors.Is(err, ash.ErrSocketInUse):
		f.code, f.hint = "socket_in_use", "a bridge answers there already: oacp ash query asks it, --socket names another place"
	case errors.Is(err, ash.ErrSocketPath):
		f.code, f.hint = "bad_socket", "name a socket, or a path that does not exist yet, with --socket"
	case errors.Is(err, agent.ErrUnavailable):
		f.code, f.hint = "agent_unavailable", unavailableHint(err)
	case errors.Is(err, ash.ErrClosed), errors.Is(err, ash.ErrNoDone):
		f.code, f.hint = "connection_lost", "the agent's turn was aborted"
	case errors.As(err, &reported), errors.As(err, &exit):
		f.code = "turn_failed"
	default:
		return false
	}
	return true
}

// unavailableHint says how to find out what is missing.
func unavailableHint(err error) string {
	var program *exec.Error
	switch {
	case errors.As(err, &program) && errors.Is(err, fs.ErrPermission):
		return "chmod +x " + program.Name + " makes it a program; no message was touched"
	case errors.As(err, &program):
		return "command -v " + program.Name + " shows whether it is there; no message was touched"
	case errors.Is(err, ash.ErrNotReady):
		return "what listens there does not say that it is an Ash bridge; one that says ready only once may have said it to another host: start it again"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return "oacp ash serve is such a bridge, and prints where it listens"
	}
	return ""
}
