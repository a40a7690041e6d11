package failure_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/ash"
	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
)

func TestFailures(t *testing.T) {
	findings := validate.Diagnostics{
		{Field: "subject", Rule: "length", Severity: validate.Error, Message: "subject: too long", Fix: "shorten it"},
		{Rule: "odd", Severity: validate.Warning, Message: "odd"},
		{Rule: "type", Severity: validate.Error, Message: "type: \x1b[31m"},
	}
	entry := mailbox.Entry{Agent: "a", Box: mailbox.Outbox}
	tests := []struct {
		err  error
		exit int
		code string
		// text is a part of the text.
		text string
	}{
		{failure.Usagef("no such flag").WithHint("look"), 2, "usage", "oacp: no such flag\nhint: look\n"},
		{fmt.Errorf("sending: %w", project.ErrNoSender), 2, "no_sender", "oacp: sending: no agent is given\nhint: use --agent AGENT, or set OACP_AGENT"},
		{fmt.Errorf("%w at or above /x", mailbox.ErrNoWorkspace), 1, "no_workspace", "hint: create one with oacp init"},
		{&project.UnknownProjectError{Project: "projct", Home: "/h", Known: []string{"project"}}, 1, "unknown_project", "hint: did you mean project?"},
		{&mailbox.UnknownAgentError{Agent: "zed", Known: []schema.AgentName{"codex"}}, 1, "unknown_agent", "hint: oacp add-agent zed"},
		{fmt.Errorf("x: %w", mailbox.ErrIDTaken), 1, "id_taken", "hint: omit id"},
		{&mailbox.NotFoundError{ID: "x"}, 1, "not_found", "hint: oacp inbox"},
		{&mailbox.ShortIDError{Text: "m"}, 1, "short_id", "oacp: m is too short to name a message\nhint: give at least four"},
		{&mailbox.AmbiguousError{Prefix: "x"}, 1, "ambiguous", "hint: type more"},
		{&mailbox.NotPendingError{Elsewhere: []mailbox.Entry{entry}}, 1, "not_pending", "in the outbox of a"},
		{&track.AnsweredError{Request: &schema.Message{ID: "msg-20260313T1430Z-a-aaaa"}, Answer: &schema.Message{ID: "msg-20260313T1431Z-b-bbbb"}, Pending: true}, 1, "already_answered",
			"hint: oacp read bbbb shows the answer; --again sends another one; oacp ack aaaa acknowledges the message"},
		{&track.BusyError{Request: &schema.Message{ID: "msg-20260313T1430Z-a-aaaa"}, Agent: "b"}, 1, "already_working", "hint: oacp status aaaa shows"},
		{&mailbox.QueuedError{Err: fmt.Errorf("%w: x", mailbox.ErrGone)}, 1, "copy_gone", "send it again to that agent alone"},
		{&mailbox.QueuedError{Err: errors.New("full")}, 1, "queued", "hint: do not send it again"},
		{&mailbox.NotDurableError{Err: errors.New("full")}, 1, "not_durable", "hint: it is done: do not repeat it"},
		{&gitmail.RepositoryError{Dir: "/w x", Err: gitmail.ErrNoRepository}, 1, "no_repository", "hint: oacp init --git --dir '/w x' creates one"},
		{&gitmail.RepositoryError{Dir: "/w", Err: fmt.Errorf("%w: %w", gitmail.ErrNoRepository, gitmail.ErrForeignRepository)}, 1, "no_repository", "hint: oacp commit"},
		{git.ErrMissing, 1, "not_installed", "hint: install git"},
		{&gitmail.RepositoryError{Dir: "/w", Err: gitmail.ErrForeignRepository}, 1, "foreign_repository", "hint: name another folder"},
		{&gitmail.RepositoryError{Dir: "/w", Remote: "/r", Ref: "refs/x/y", Err: gitmail.ErrDamaged}, 1, "damaged_repository",
			"hint: mv /w/.git /w/.git-damaged; oacp init --git --dir /w --remote /r --ref refs/x/y makes another"},
		{fmt.Errorf("%w: /w has 2 of them", git.ErrTracked), 1, "tracked", "hint: git rm -r --cached"},
		{fmt.Errorf("%w \"x\": it has origin", gitmail.ErrUnknownRemote), 1, "unknown_remote", "it has origin"},
		{fmt.Errorf("ref refs/heads/main %w: it is checked out in /w", gitmail.ErrBadRef), 1, "bad_ref", "hint: name another one"},
		{fmt.Errorf("git 2.17 %w", git.ErrTooOld), 1, "git_too_old", "2.17 is too old"},
		{&gitmail.RemoteError{URL: "/away", Err: &git.Error{Args: []string{"fetch"}, Exit: 128}}, 1, "remote_unreachable", "hint: mail waits for the next sync"},
		{&gitmail.RemoteError{URL: "/r", Refused: true, Err: errors.New("no")}, 1, "remote_refused", "hint: allow pushes"},
		{&gitmail.RepositoryError{Dir: "/w", Err: fmt.Errorf("%w: tests fail", gitmail.ErrHook)}, 1, "hook_refused", "hint: git -C /w config oacp.hooks false"},
		{&gitmail.RepositoryError{Dir: "/w", Err: fmt.Errorf("%w: %w", gitmail.ErrObjectFormat, &gitmail.RemoteError{Refused: true, Err: errors.New("no")})}, 1, "object_format",
			"hint: mv /w/.git /w/.git-damaged; oacp init --git --dir /w makes one in the format of the remote"},
		{&gitmail.RepositoryError{Dir: "/w", Err: fmt.Errorf("%w: no key", git.ErrSigning)}, 1, "not_signed", "git -C /w config commit.gpgsign false"},
		{&git.Error{Args: []string{"gc"}, Exit: 1, Stderr: "bad object"}, 1, "failed", "git gc: bad object"},
		{fmt.Errorf("x: %w", &git.Error{Args: []string{"unpack-objects"}, Exit: 128, Stderr: "fatal: write error: No space left on device"}), 1, "disk_full", "hint: free disk space"},
		{&gitmail.RemoteError{URL: "/r", Refused: true, Err: &git.Error{Args: []string{"push"}, Exit: 1, Stderr: "remote: No space left on device"}}, 1, "remote_refused", "hint: free space on the disk of the remote"},
		{&gitmail.RemoteError{URL: "/r", Refused: true, Err: &git.Error{Args: []string{"push"}, Exit: 1, Stderr: "remote: fatal: pack exceeds maximum allowed size (1.00 MiB)"}}, 1, "remote_refused", "hint: raise the limit"},
		{contract.ErrNotInstalled, 1, "not_installed", "hint: the workspace has schemas"},
		{fmt.Errorf("%w: it ended", contract.ErrNoAnswer), 1, "no_verdict", "hint: oacp doctor"},
		{&contract.SchemaError{Diagnostics: findings}, 1, "bad_schema", "subject: too long"},
		{nothingComes(track.StageDead), 1, "dead_letter", "codex could not handle message msg-20260313T1430Z-a-aaaa: no reason is given\nhint: oacp restore aaaa tries"},
		{nothingComes(track.StageRecalled), 1, "dead_letter", "a took message msg-20260313T1430Z-a-aaaa back before codex had noticed it\nhint: oacp restore aaaa tries"},
		{nothingComes(track.StageAgentRemoved), 1, "agent_removed", "codex was removed before it handled message msg-20260313T1430Z-a-aaaa\nhint: once oacp add-agent"},
		{nothingComes(track.StageExpired), 1, "expired", "message msg-20260313T1430Z-a-aaaa expired before codex had noticed it\nhint: send it again"},
		{&turn.BusyError{What: "x", Hint: "wait"}, 1, "busy", "hint: wait"},
		{&turn.DeadLettersError{Agent: "b", Messages: []string{"bad.yaml"}}, 1, "dead_letters", "hint: oacp read bad.yaml shows the reason, oacp restore bad.yaml --agent b tries"},
		{agent.NewExec(agent.Options{Command: []string{"cladue"}}).Start(t.Context()), 1, "agent_unavailable", "hint: command -v cladue"},
		{agent.NewExec(agent.Options{Command: []string{"cladue | tee"}}).Start(t.Context()), 1, "agent_unavailable", "to use a shell: -- sh -c 'cladue | tee'"},
		{unavailable(ash.ErrNotReady), 1, "agent_unavailable", "hint: the process there"},
		{agent.NewAsh(agent.Options{Socket: filepath.Join(t.TempDir(), "none")}).Start(t.Context()), 1, "agent_unavailable", "hint: oacp ash serve"},
		{unavailable(errors.New("x")), 1, "agent_unavailable", "oacp: the agent cannot be started: x\n"},
		{ash.ErrSocketInUse, 1, "socket_in_use", "hint: a bridge already"},
		{ash.ErrSocketPath, 1, "bad_socket", "hint: name a socket"},
		{ash.ErrClosed, 1, "connection_lost", "connection closed"},
		{&agent.ReportedError{Text: "no credit"}, 1, "turn_failed", "no credit"},
		{&agent.ExitError{Code: 3}, 1, "turn_failed", "exit status 3"},
		{context.DeadlineExceeded, 1, "timeout", "deadline"},
		{fmt.Errorf("writing: %w", syscall.ENOSPC), 1, "disk_full", "oacp: writing: no space left on device\nhint: free disk space and try again\n"},
		{fmt.Errorf("folder x: %w", syscall.EROFS), 1, "read_only", "oacp: folder x: read-only file system\nhint: make it writable; in a sandbox, commands can write only to"},
		{fmt.Errorf("opening: %w", fs.ErrPermission), 1, "permission", "oacp: opening: permission denied\nhint: ls -ld shows the owner"},
		{errors.Join(&mailbox.NotFoundError{ID: "x"}, &mailbox.UnreadableError{Err: fs.ErrPermission}), 1, "permission", "hint: ls -ld"},
		{&mailbox.UnreadableError{Err: durable.ErrNotFolder}, 1, "bad_file", "hint: a folder belongs there"},
		{&failure.SignalError{Signal: syscall.SIGINT}, 130, "interrupted", "oacp: stopped by interrupt\n"},
		{&mailbox.PartsError{Sent: []schema.AgentName{"a"}, NotSent: []schema.AgentName{"b", "c"}, Err: &failure.SignalError{Signal: syscall.SIGINT}}, 130, "partly_sent",
			"oacp: sent to a, but not to b, c: stopped by interrupt\nhint: send it again only to the rest: --to b, c"},
		{&failure.SignalError{Signal: syscall.SIGTERM}, 143, "interrupted", "oacp: stopped by terminated\n"},
		{errors.New("one\ntwo"), 1, "failed", "oacp: one; two\n"},
		{failure.WithHint(errors.New("x"), "try y"), 1, "failed", "oacp: x\nhint: try y\n"},
		{fmt.Errorf("in: %w", findings.Err()), 1, "invalid_message", "oacp: in: subject: too long [length]: shorten it\noacp: in: type: \x1b[31m [type]\n"},
	}
	for _, test := range tests {
		f := failure.Of(test.err)
		if f.Exit != test.exit || f.Code != test.code {
			t.Errorf("%v: exit status is %d and code %q, want %d and %q", test.err, f.Exit, f.Code, test.exit, test.code)
		}
		text := "oacp: " + strings.Join(f.Lines(), "\noacp: ") + "\n"
		if f.Hint != "" {
			text += "hint: " + f.Hint + "\n"
		}
		if !strings.Contains(text, test.text) {
			t.Errorf("%v: the text is %q, want %q", test.err, text, test.text)
		}
	}
}

func nothingComes(stage track.Stage) error {
	return &track.NothingComesError{Progress: track.Progress{ID: "msg-20260313T1430Z-a-aaaa", Agent: "codex", Stage: stage}, From: "a"}
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", agent.ErrUnavailable, err) }

func TestNothingToReport(t *testing.T) {
	if f := failure.Of(failure.ErrReported); f.Code != "" || f.Exit != failure.ExitFailed {
		t.Errorf("code is %q and exit status %d, want none and %d", f.Code, f.Exit, failure.ExitFailed)
	}
	if f := failure.Of(failure.ErrOutputClosed); f.Code != "" || f.Exit != 141 {
		t.Errorf("code is %q and exit status %d, want none and 141", f.Code, f.Exit)
	}
}

// TestHintsAreKept checks that an error keeps its code when it gets a hint, and that the outermost
// hint wins.
func TestHintsAreKept(t *testing.T) {
	err := failure.WithHint(fmt.Errorf("send: %w", failure.Usagef("bad").WithHint("inner")), "outer")
	if f := failure.Of(err); f.Code != "usage" || f.Exit != failure.ExitUsage || f.Hint != "outer" {
		t.Errorf("got %q, %d and %q, want usage, 2 and outer", f.Code, f.Exit, f.Hint)
	}
}
