package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/validate"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	// A command that was told to stop exits with 128 and the signal's
	// number, as shells report it.
	exitSignal = 128
)

// errTold is returned where the command has printed already what is wrong.
var errTold = errors.New("the answer says what is wrong")

// A usageError says that the command line is wrong, not what it is about.
type usageError struct {
	err  error
	hint string
	// command is where the mistake was found, if not in a command itself.
	command string
}

func usageErrorf(format string, args ...any) *usageError {
	return &usageError{err: fmt.Errorf(format, args...)}
}

func (e *usageError) withHint(hint string) *usageError {
	e.hint = hint
	return e
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// A hintedError is an error with advice.
type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() }
func (e *hintedError) Unwrap() error { return e.err }

// A commandError says which command failed.
type commandError struct {
	command string
	err     error
}

func (e *commandError) Error() string { return e.command + ": " + e.err.Error() }
func (e *commandError) Unwrap() error { return e.err }

// A signalError says that the command was told to stop.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return "stopped by " + e.signal.String() }

// A failure is an error made ready for people and programs.
type failure struct {
	err  error
	code string
	exit int
	hint string
	// findings are what is wrong with a message.
	findings validate.Diagnostics
}

// newFailure is the one place that turns errors into exit statuses, codes and
// advice. Codes are part of the interface; unknown ones mean failure.
func newFailure(err error) failure {
	f := failure{err: err, code: "failed", exit: exitFailed}
	var (
		usage     *usageError
		hinted    *hintedError
		signal    *signalError
		invalid   *validate.InvalidError
		unknown   *project.UnknownProjectError
		agent     *mailbox.UnknownAgentError
		missing   *mailbox.NotFoundError
		ambiguous *mailbox.AmbiguousError
		queued    *mailbox.QueuedError
		undurable *mailbox.NotDurableError
		dead      *watch.DeadLetterError
		gone      *mailbox.NotPendingError
		several   *mailbox.SeveralInboxesError
		run       *noRunError
		shared    *sharedIDError
	)
	switch {
	case errors.Is(err, errTold):
		f.code = ""
	case errors.Is(err, errOutputGone):
		f.code, f.exit = "", exitSignal+int(syscall.SIGPIPE)
	case errors.As(err, &signal):
		f.code, f.exit = "interrupted", exitSignal+int(signal.signal)
	case errors.As(err, &usage):
		f.code, f.exit, f.hint = "usage", exitUsage, usage.hint
	case errors.Is(err, project.ErrNoSender):
		f.code, f.exit, f.hint = "no_sender", exitUsage, "name the agent with --from or --agent, or set OACP_AGENT"
	case errors.Is(err, mailbox.ErrNoWorkspace):
		f.code, f.hint = "no_workspace", "oacp init makes a workspace here; --dir names one elsewhere"
	case errors.As(err, &unknown):
		f.code, f.hint = "unknown_project", didYouMean(unknown.Known, unknown.Project, "oacp init "+unknown.Project+" makes it; an agent is named with a flag")
	case errors.As(err, &agent):
		f.code, f.hint = "unknown_agent", didYouMean(agent.Known, string(agent.Agent), "oacp add-agent "+string(agent.Agent)+" adds it")
	case errors.Is(err, mailbox.ErrPostmaster):
		f.code, f.hint = "reserved_name", "give the agent another name"
	case errors.As(err, &missing):
		f.code, f.hint = "not_found", "oacp inbox lists what is pending"
	case errors.As(err, &ambiguous):
		f.code, f.hint = "ambiguous", "type more of the id"
	case errors.As(err, &queued):
		f.code, f.hint = "queued", "do not send it again: the next send or oacp doctor --fix delivers it"
	case errors.As(err, &undurable):
		f.code, f.hint = "not_durable", "do not send it again"
	case errors.As(err, &gone):
		f.code = "not_pending"
	case errors.As(err, &several):
		f.code, f.hint = "ambiguous", "say whose with --agent"
	case errors.As(err, &run):
		f.code, f.hint = "unknown_run", run.hint()
	case errors.As(err, &shared):
		f.code, f.hint = "duplicate_id", "the id is made of type, sender, receiver and content alone: say it in other words"
	case errors.Is(err, bridge.ErrUnknownID):
		f.code, f.hint = "not_found", "--since takes the whole id of a record in this log"
	case errors.Is(err, bridge.ErrUnknownCursor):
		f.code, f.hint = "unknown_cursor", "this is not the log that the cursor is of; without its file, records are printed from the beginning"
	case errors.Is(err, bridge.ErrNotSynced):
		f.code = "not_durable"
	case f.ofTurns():
	case f.ofPairs():
	case errors.As(err, &dead):
		f.code = "dead_letter"
	case errors.As(err, &invalid):
		f.code, f.findings = "invalid_message", invalid.Diagnostics
	case errors.Is(err, context.DeadlineExceeded):
		f.code = "timeout"
	case errors.Is(err, fs.ErrPermission):
		f.code = "permission"
	}
	if errors.As(err, &hinted) {
		f.hint = hinted.hint
	}
	return f
}

func didYouMean[Name ~string](known []Name, name, otherwise string) string {
	if near := spelling.Nearest(name, known); near != "" {
		return "did you mean " + string(near) + "?"
	}
	return otherwise
}

// report prints the failure and returns the exit status.
func (f failure) report(s *streams, asJSON bool) int {
	if f.code == "" {
		return f.exit
	}
	if asJSON {
		// Standard output may be what failed; the text below still comes.
		_ = writeJSONLine(s.out, f.json())
		_ = s.out.Flush()
	}
	var text strings.Builder
	for _, line := range f.lines() {
		fmt.Fprintf(&text, "oacp: %s\n", line)
	}
	if f.hint != "" {
		fmt.Fprintf(&text, "hint: %s\n", escapeLine(f.hint))
	}
	// There is nobody left to tell when this fails.
	_, _ = io.WriteString(s.err, text.String())
	return f.exit
}

// lines returns the message, one line for each finding if there are any.
func (f failure) lines() []string {
	if len(f.findings) == 0 {
		return []string{escapeLine(f.message())}
	}
	var lines []string
	prefix := strings.TrimSuffix(f.err.Error(), (&validate.InvalidError{Diagnostics: f.findings}).Error())
	for _, d := range f.findings {
		if d.Severity == validate.Error {
			line := prefix + d.String()
			if d.Fix != "" {
				line += ": " + d.Fix
			}
			lines = append(lines, escapeLine(line))
		}
	}
	return lines
}

// message returns the error on one line.
func (f failure) message() string {
	message := f.err.Error()
	var usage *usageError
	if errors.As(f.err, &usage) && usage.command != "" {
		message = usage.command + ": " + message
	}
	return oneLine(message)
}

// oneLine returns the text of one or more errors on one line.
func oneLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ") }

func (f failure) json() any {
	return struct {
		Error    string               `json:"error"`
		Code     string               `json:"code"`
		Hint     string               `json:"hint,omitempty"`
		Findings validate.Diagnostics `json:"diagnostics,omitempty"`
	}{f.message(), f.code, f.hint, f.findings}
}
