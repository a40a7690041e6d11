package failure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/ash"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/secrets"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/commit"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/settings"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/pair"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/turn"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
	"github.com/oacp-go/oacp/validate/change"
)

// A rule gives a code to the errors that match.
type rule struct {
	code string
	// match returns the hint and whether the rule applies.
	match func(error) (hint string, ok bool)
}

// classify returns the code of the first rule that applies, and the hint of the first that has one.
func classify(err error) (code, hint string) {
	if unreadable, ok := errors.AsType[*mailbox.UnreadableError](err); ok {
		err = unreadable.Err // this cause precedes all others
	}
	for _, r := range rules {
		hint, ok := r.match(err)
		if !ok {
			continue
		}
		code = cmp.Or(code, r.code)
		if hint != "" {
			return code, hint
		}
	}
	return cmp.Or(code, "failed"), ""
}

// is matches a sentinel error.
func is(target error, hint string) func(error) (string, bool) {
	return func(err error) (string, bool) { return hint, errors.Is(err, target) }
}

// isOneOf matches any of several sentinel errors.
func isOneOf(hint string, targets ...error) func(error) (string, bool) {
	return func(err error) (string, bool) {
		return hint, slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
}

// as matches errors of the type E.
func as[E error](hint string) func(error) (string, bool) {
	return hinting(func(E) string { return hint })
}

// hinting matches errors of the type E, whose hint depends on the error.
func hinting[E error](hint func(E) string) func(error) (string, bool) {
	return func(err error) (string, bool) {
		if e, ok := errors.AsType[E](err); ok {
			return hint(e), true
		}
		return "", false
	}
}

// shallow says how to get the commits that a clone lacks.
const shallow = "git fetch --unshallow gets older commits (fetch-depth: 0 in a workflow)"

// otherHome helps users whose home the reference implementation finds around the workspace.
const otherHome = "OACP_HOME or --oacp-dir names the home that has the keys, if it is not ~/oacp"

// rules has those of particular errors before those of general ones.
var rules = []rule{
	{"partly_sent", hinting(func(e *mailbox.PartsError) string {
		return "send it again only to the rest: --to " + spelling.Join(e.NotSent)
	})},
	{"no_sender", is(project.ErrNoSender, "use --agent AGENT, or set OACP_AGENT")},
	{"other_agent", as[*project.OtherAgentError]("if your user wants it, write oacp --as-person before the command; in a terminal, it is not needed")},
	{"person", hinting(func(e *project.PersonError) string {
		return fmt.Sprintf("oacp inbox --agent %s lists what waits; a person answers in a terminal with decide, or writes oacp --as-person before the command", e.Agent)
	})},
	{"no_workspace", hinting(func(e *project.ElsewhereError) string { return e.Remedy })},
	{"no_workspace", is(mailbox.ErrNoWorkspace, "create one with oacp init, or with oacp init --git to share it; --dir names one elsewhere")},
	{"two_workspaces", is(project.ErrTwo, "--dir or OACP_WORKSPACE names the one to use. To have one: oacp sync --dir .oacp, if it is synced; move .oacp away; oacp init --git --move")},
	{"occupied", is(project.ErrOccupied, "the same command with --dir makes the workspace in a folder of its own, such as .oacp, or mail with --commit")},
	{"nested_workspace", is(project.ErrNested, "oacp add-agent NAME adds an agent to it; oacp init --dir DIR makes another one, for commands with --dir DIR")},
	{"unknown_project", hinting(func(e *project.UnknownProjectError) string {
		return spelling.DidYouMean(e.Known, e.Project, "oacp init "+e.Project+" creates it; --agent names an agent")
	})},
	{"unknown_agent", hinting(func(e *mailbox.UnknownAgentError) string {
		other := "oacp add-agent " + string(e.Agent) + " adds it"
		if len(e.Known) == 0 {
			other = "oacp sync returns the agents of a synced workspace; " + other
		}
		return spelling.DidYouMean(e.Known, string(e.Agent), other)
	})},
	{"reserved_name", is(mailbox.ErrPostmaster, "choose another name for an agent; nobody reads mail to this one")},
	{"reserved_name", as[*mailbox.ReservedNameError]("choose another name; an agent that has this name keeps it")},
	{"same_name", hinting(func(e *mailbox.SameNameError) string {
		return fmt.Sprintf("write %s, or give the agent another name", e.Other)
	})},
	{"secret", as[*secrets.Error]("leave the key out, and revoke it if others have seen it; send and reply have --allow-secret")},
	{"not_found", as[*mailbox.NotFoundError]("oacp inbox lists pending messages, oacp list all messages")},
	{"short_id", as[*mailbox.ShortIDError]("give at least four characters of the last part of the id, which oacp inbox lists, or the full id")},
	{"ambiguous", as[*mailbox.AmbiguousError]("type more of the id")},
	{"id_taken", is(mailbox.ErrIDTaken, "omit id and created_at_utc, and the message gets new ones")},
	{"copy_gone", is(mailbox.ErrGone, "someone removed its copy, or another machine delivered it: if the agent does not have the message, send it again to that agent alone")},
	{"queued", as[*mailbox.QueuedError]("do not send it again: the next send or oacp doctor --fix delivers it")},
	{"not_durable", as[*mailbox.NotDurableError]("it is done: do not repeat it")},
	{"not_pending", hinting(func(e *mailbox.NotPendingError) string {
		return fmt.Sprintf("oacp status %s shows what happened to it, oacp restore %[1]s returns it to the inbox", e.ID.Short())
	})},
	{"not_found", is(mailbox.ErrNoCopy, "oacp read ID --raw prints a copy of another agent, if there is one")},
	{"held", hinting(func(e *mailbox.HeldError) string {
		name := filepath.Base(e.Path)
		return fmt.Sprintf("%s; oacp --as-person read %s --agent %s --unverified shows it to a person", trust.Remedy(e), visible.ShellCommand(name), e.Agent)
	})},
	{"not_recipient", hinting(func(e *conversation.NotRecipientError) string {
		return "only a recipient can reply; oacp send --to AGENT --type TYPE --subject TEXT --body TEXT --in-reply-to " + e.Message.ID.Short() + " writes to the conversation"
	})},
	{"invalid_message", as[*schema.ChoicesError]("write 2 to 9 different choices with commas between them: --choices \"yes,no,later\"")},
	{"no_choice", hinting(func(e *schema.NoChoiceError) string {
		if choices := e.Message.Choices(); choices != nil {
			return "oacp reply " + e.Message.ID.Short() + " --choose " + visible.ShellCommand(choices[0])
		}
		return "oacp reply " + e.Message.ID.Short() + " --body TEXT answers in words"
	})},
	{"claim_lost", as[*turn.FencedError]("leave the message to that machine; oacp status shows how far it gets")},
	{"already_answered", hinting(func(e *track.AnsweredError) string {
		hint := "oacp read " + e.Answer.ID.Short() + " shows the answer; --again sends another one"
		if e.Pending {
			hint += "; oacp ack " + e.Request.ID.Short() + " acknowledges the message"
		}
		return hint
	})},
	{"already_working", hinting(func(e *track.BusyError) string {
		return "oacp status " + e.Request.ID.Short() + " shows how far it gets; --again sends an answer all the same"
	})},
	{"no_turn", as[*track.NoTurnError]("oacp status lists the turns of runners on this machine; no other can be stopped")},
	{"ambiguous", as[*mailbox.SeveralFilesError]("name the agent with --agent, or a file instead of the id")},
	{"no_repository", about(gitmail.ErrNoRepository, func(e *gitmail.RepositoryError) string {
		if errors.Is(e, gitmail.ErrForeignRepository) {
			return "oacp commit commits its mail with the code; oacp init --git moves it into .oacp, with its mail"
		}
		return visible.ShellCommand("oacp", "init", "--git", "--dir", e.Dir) + " creates one and keeps the mail; for a workspace committed with the code, use oacp commit"
	})},
	{"object_format", about(gitmail.ErrObjectFormat, func(e *gitmail.RepositoryError) string {
		return e.Remake() + " makes one in the format of the remote; all messages are in the workspace, so none is lost"
	})},
	{"hook_refused", about(gitmail.ErrHook, func(e *gitmail.RepositoryError) string {
		return visible.ShellCommand("git", "-C", e.Dir, "config", "oacp.hooks", "false") + " lets no hooks run; mail waits here"
	})},
	{"remote_refused", refused},
	{"foreign_repository", is(gitmail.ErrForeignRepository, "name another folder with --dir; oacp init --commit makes mailboxes that are committed with the code")},
	{"damaged_repository", about(gitmail.ErrDamaged, func(e *gitmail.RepositoryError) string {
		return e.Remake() + " makes another; all messages are in the workspace, so none is lost"
	})},
	{"tracked", is(git.ErrTracked, "git rm -r --cached FOLDER removes them from the next commit and keeps the files; oacp commit commits their mail with the code")},
	{"unknown_remote", is(gitmail.ErrUnknownRemote, "git remote lists them; a URL has a : or a /")},
	{"bad_ref", isOneOf("name another one with --branch or --ref", gitmail.ErrForeignBranch, gitmail.ErrBadRef)},
	{"not_signed", about(git.ErrSigning, func(e *gitmail.RepositoryError) string {
		return "fix the signing program, or commit mail without signatures: " + visible.ShellCommand("git", "-C", e.Dir, "config", "commit.gpgsign", "false")
	})},
	{"remote_unreachable", as[*turn.UnclaimedError]("the mail stays in the inbox; if no other machine works it, oacp run --claim none gives it turns without the remote")},
	{"remote_unreachable", hinting(func(e *gitmail.RemoteError) string {
		return "mail waits for the next sync; " + visible.ShellCommand("git", "ls-remote", e.URL) + " shows whether git can reach the remote"
	})},
	{"no_key", hinting(func(e *signing.NoKeyError) string {
		return fmt.Sprintf("oacp key list shows the keys, oacp key gen --agent %s creates one; "+otherHome, e.Agent)
	})},
	{"bad_key", as[*signing.KeyFileError]("a private key has mode 600 in a folder with mode 700; move a damaged one away and create a new one with oacp key gen")},
	{"not_allowed", hinting((*settings.NotAllowedError).Hint)},
	{"bad_policy", as[*trust.PolicyError]("restore the file; if the change was intended, oacp trust sign-policy --agent AGENT signs it; " + otherHome)},
	{"bad_settings", as[*trust.SettingsError]("under signing:, sign_messages is true or false, verify_mode off, warn or enforce, and kid the id of a key; nothing was sent")},
	{"bad_trust", as[*trust.FileError]("fix the file, or move it away and import the keys again; until then it grants nothing")},
	{"trust_conflict", as[*trust.ConflictError]("to trust the key as it is now, remove the entry from the file by hand")},
	{"not_pinned", as[*trust.NotPinnedError]("oacp trust list shows who trusts which key")},
	{"not_installed", is(contract.ErrNotInstalled, "the workspace has schemas for bodies: go install ./cmd/... in a clone of the repository installs the program")},
	{"no_verdict", is(contract.ErrNoAnswer, "oacp doctor checks the schemas of the workspace")},
	{"bad_schema", as[*contract.SchemaError]("fix the schema: until then oacp sends no message that it applies to")},
	{"unknown_run", is(bridge.ErrNoRun, "oacp bridge lists the runs; --repo names another repository, --bridge another log")},
	{"unknown_cursor", is(bridge.ErrUnknownCursor, "keep a cursor file for each log and agent; without its file, records are printed from the beginning")},
	{"duplicate_id", is(bridge.ErrSharedID, "the id covers type, sender, receiver and content: change the content")},
	{"not_durable", is(bridge.ErrNotSynced, "")},
	{"busy", as[*turn.BusyError]("only one process works an inbox, with --parallel on several conversations at a time; oacp status shows it")},
	{"state_lost", is(track.ErrStateLost, "do not remove files from state while a runner works; start it again, and it continues with the inbox")},
	{"dead_letters", hinting(func(e *turn.DeadLettersError) string {
		return fmt.Sprintf("oacp read %s shows the reason, oacp restore %[1]s --agent %s tries it again", e.Messages[0], e.Agent)
	})},
	{"no_remote", is(gitmail.ErrNoRemote, "oacp init --git --remote NAME-OR-URL adds one")},
	{"cursor_in_use", as[*watch.CursorInUseError]("--state-id NAME gives this reader its own cursor")},
	{"socket_in_use", is(ash.ErrSocketInUse, "a bridge already listens there: oacp ash query --socket PATH PROMPT sends it a prompt, --socket names another path")},
	{"bad_socket", is(ash.ErrSocketPath, "name a socket, or a path that does not exist yet, with --socket")},
	{"agent_unavailable", unavailable},
	{"connection_lost", isOneOf("the agent's turn was aborted", ash.ErrClosed, ash.ErrNoDone)},
	{"turn_failed", as[*agent.ReportedError]("")},
	{"turn_failed", as[*agent.ExitError]("")},
	{"busy", as[*pair.BusyError]("only one process drives a run; oacp pair list shows its state")},
	{"never_begun", is(pair.ErrNeverBegun, "oacp pair PROMPT starts a new run")},
	{"no_commit", is(pair.ErrNoCommit, "make a commit to start from, or omit --worktree")},
	{"foreign_run", isOneOf("only the program that made the run can continue it", pair.ErrNewerVersion, pair.ErrForeignRun)},
	{"log_run", is(pair.ErrLogRun, "oacp pair PROMPT starts a run with agents; oacp bridge shows this log")},
	{"damaged_run", is(pair.ErrDamaged, "inspect the folder of the run, and delete it if you do not need it")},
	{"no_repository", is(commit.ErrNoRepository, "git init creates one; for a workspace with its own repository, use oacp sync")},
	{"own_repository", is(commit.ErrOwnRepository, "use oacp sync, which commits mail and exchanges it with the remote")},
	{"git_ignored", hinting((*commit.IgnoredError).Hint)},
	{"git_unfinished", as[*commit.UnfinishedError]("git status says how to finish or abort it")},
	{"edited_message", as[*commit.EditedError]("rename the file if it is a new message; git restore brings the old one back")},
	{"index_locked", hinting(func(e *commit.LockedError) string {
		return "wait for the other git command; if none is running, remove the file: " + visible.ShellCommand("rm", e.Path)
	})},
	{"no_repository", is(change.ErrNoRepository, "--changed compares commits; without it, validate takes files and folders")},
	{"unknown_revision", as[*change.RevisionError](shallow + "; git log lists the commits that are here")},
	{"unrelated", as[*change.UnrelatedError](shallow + "; otherwise, name a commit that HEAD descends from")},
	{"commit_refused", is(commit.ErrRefused, "nothing was committed: fix what git names, such as a hook, the signing program or your name in the settings")},
	{"not_installed", is(git.ErrMissing, "install git")},
	{"git_too_old", is(git.ErrTooOld, "install a newer git")},
	{"dead_letter", as[*watch.DeadLetterError]("")},
	{"invalid_message", as[*validate.InvalidError]("")},
	{"timeout", isOneOf("", context.DeadlineExceeded, pair.ErrTimeout)},
	{"cancelled", is(context.Canceled, "")},
	{"permission", is(fs.ErrPermission, "ls -ld shows the owner and the mode of the path; the owner can give access with chmod")},
	{"read_only", is(syscall.EROFS, "make it writable; in a sandbox, commands can write only to the folder that the program was started in: "+
		"start it in the workspace, or use the tools of oacp mcp")},
	{"disk_full", isOneOf("free disk space and try again", syscall.ENOSPC, syscall.EDQUOT)},
	{"bad_file", isOneOf("replace the link with its target, or remove it", durable.ErrLink, syscall.ELOOP)},
	{"bad_file", isOneOf("a folder belongs there: move the existing file away", durable.ErrNotFolder, syscall.ENOTDIR)},
	{"bad_file", isOneOf("a plain file belongs there: move away what exists", durable.ErrNotRegular, syscall.ENXIO, syscall.EISDIR)},
}

// about matches a sentinel error about the repository of a workspace.
func about(target error, hint func(*gitmail.RepositoryError) string) func(error) (string, bool) {
	return func(err error) (string, bool) {
		text, ok := hinting(hint)(err)
		return text, ok && errors.Is(err, target)
	}
}

// refused matches a remote that did not accept the mail.
func refused(err error) (hint string, ok bool) {
	e, isRemote := errors.AsType[*gitmail.RemoteError](err)
	switch {
	case !isRemote || !e.Refused:
		return "", false
	case e.Cause() == gitmail.CauseDisk:
		return "free space on the disk of the remote; mail waits for the next sync", true
	case e.Cause() == gitmail.CauseSize:
		return "raise the limit of the remote for the size of a push, such as receive.maxInputSize; mail waits for the next sync", true
	case e.Claims:
		return "allow pushes to refs below refs/oacp/claims/ on the remote, and remove conflicting refs: git -C .oacp push oacp :refs/oacp/claims/AGENT", true
	}
	return "allow pushes to the branch on the remote (forced ones for --squash), or choose another: oacp init --git --branch NAME; mail waits for the next sync", true
}

// unavailable matches an agent that cannot be started or reached. The hint says how to find out
// what is missing.
func unavailable(err error) (hint string, ok bool) {
	program, isProgram := errors.AsType[*exec.Error](err)
	switch {
	case !errors.Is(err, agent.ErrUnavailable):
		return "", false
	case isProgram && strings.ContainsAny(program.Name, "|&;<>$`*~( \t\n"):
		hint = "the command is one program with its arguments as words; to use a shell: -- " + visible.ShellCommand("sh", "-c", program.Name)
	case isProgram:
		hint = "command -v " + program.Name + " shows whether it is installed and executable; no message was changed"
	case errors.Is(err, ash.ErrNotReady):
		hint = "the process there does not answer as an Ash bridge; restart it"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		hint = "oacp ash serve --driver claude starts a bridge and prints its socket"
	}
	return hint, true
}
