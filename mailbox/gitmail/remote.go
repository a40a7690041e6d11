package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/internal/visible"
)

// RemoteError says that the remote could not be reached, or that it refused a push.
type RemoteError struct {
	// URL is the URL of the remote, without a password.
	URL string
	// Refused says that the remote refused a push.
	Refused bool
	// Claims says that it refused a push of claims.
	Claims bool
	Err    error
}

func (e *RemoteError) Error() string {
	what := "cannot be reached"
	if e.Claims {
		what = "refuses claims"
	} else if e.Refused {
		what = "refuses the mail"
	}
	return fmt.Sprintf("%s %s: %v", e.URL, what, e.Err)
}

func (e *RemoteError) Explain() (code, hint string) {
	switch {
	case !e.Refused:
		return "remote_unreachable", "mail waits for the next sync; " + visible.ShellCommand("git", "ls-remote", e.URL) + " shows whether git can reach the remote"
	case e.says("no space left on device", "disk quota exceeded", "out of diskspace"):
		hint = "free space on the disk of the remote; mail waits for the next sync"
	case e.TooLarge():
		hint = "raise the limit of the remote for the size of a push, such as receive.maxInputSize; mail waits for the next sync"
	case e.Claims:
		hint = "allow pushes to refs below refs/oacp/claims/ on the remote, and remove conflicting refs: git -C .oacp push oacp :refs/oacp/claims/AGENT"
	default:
		hint = "allow pushes to the branch on the remote (forced ones for --squash), or choose another: oacp init --git --branch NAME; mail waits for the next sync"
	}
	return "remote_refused", hint
}

func (e *RemoteError) Unwrap() error { return e.Err }

// TooLarge reports whether the remote refused a push because of its size.
func (e *RemoteError) TooLarge() bool {
	return e.says("exceeds maximum allowed size", "http 413", "too large", "size limit", "maxinputsize")
}

// says reports whether git or the host said any of these words.
func (e *RemoteError) says(words ...string) bool {
	said := strings.ToLower(fmt.Sprint(e.Err))
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(said, w) })
}

// ErrHook says that a hook of the user refused to push the mail.
var ErrHook = errors.New("a hook of this machine refuses the mail, as oacp.hooks allows it")

// remoteError returns the error for a command that failed because of the remote.
func (r *Repository) remoteError(err error, refused bool) *RemoteError {
	return &RemoteError{URL: git.PublicURL(r.settings.URL), Refused: refused, Err: err}
}

// The time limits of commands that reach the remote. The first sync may carry years of mail.
const (
	networkLimit = 2 * time.Minute
	firstLimit   = 30 * time.Minute
)

// overNetwork bounds the time of a command that reaches the remote. The cause of a timeout is a *RemoteError.
func (r *Repository) overNetwork(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := networkLimit
	if _, err := r.LastSync(); err != nil {
		limit = firstLimit
	}
	return context.WithTimeoutCause(ctx, limit, r.remoteError(fmt.Errorf("no answer within %v: %w", limit, context.DeadlineExceeded), false))
}

// fetchRefs fetches what the refspecs say, with options of git fetch.
func (r *Repository) fetchRefs(ctx context.Context, options []string, specs ...string) error {
	ctx, cancel := r.overNetwork(ctx)
	defer cancel()
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--refmap="}
	g := *r.git
	g.Config = append(slices.Clone(g.Config), "core.fsync=loose-object") // a sync makes refs of the remote again
	_, err := g.Run(ctx, slices.Concat(args, options, []string{remoteName}, specs)...)
	return err
}

// fetch fetches the mail, the claims and the refs of machines. It reports whether the remote has the mail's ref.
func (r *Repository) fetch(ctx context.Context) (bool, error) {
	const mostAttempts = 2
	for attempt := 1; ; attempt++ {
		fetchErr := r.fetchRefs(ctx, []string{"--prune"}, "+"+r.settings.MailRef()+":"+trackingRef, "+"+claimRefs+"*:"+claimRefs+"*", "+"+machineRefs+"*:"+machineRefs+"*")
		if fetchErr == nil || git.Exit(fetchErr) < 0 { // git did not run, or was stopped
			return fetchErr == nil, fetchErr
		}
		limited, cancel := r.overNetwork(ctx)
		there, err := r.git.RemoteRefs(limited, remoteName, r.settings.MailRef())
		cancel()
		switch {
		case err != nil:
			return false, r.remoteError(err, false)
		case there[r.settings.MailRef()] == "":
			return false, nil
		case attempt == mostAttempts:
			return false, fetchErr
		}
		// The remote may have come back after the fetch failed, or a git that a killed sync started held a lock.
		if err := r.clearLocks(ctx); err != nil {
			return false, err
		}
	}
}

// fetch sets the base, the tip and the refs of machines. If there is no remote, or if the remote has no mail, the tip is
// the base, and the whole history is pushed.
func (e *exchange) fetch(ctx context.Context) (err error) {
	number, err := workspaceNumber(e.r.w, process.System())
	e.ownRef = machineRefs + number // no other machine moves it
	present := false
	if err == nil && e.r.settings.URL != "" {
		announced := e.o.announce(e.r.settings.Name())
		present, err = e.r.fetch(e.o.untilEnd(ctx))
		announced()
	}
	if err != nil {
		return err
	}
	refs, err := e.r.git.Refs(ctx, baseRef, trackingRef, strings.TrimSuffix(machineRefs, "/"))
	if err != nil {
		return err
	}
	e.baseID, e.tipID, e.there, e.machines = refs[baseRef], refs[trackingRef], refs[trackingRef], make(map[string]string)
	e.result.Whole = !present && e.there != "" && e.r.settings.URL != ""
	if !present {
		e.tipID, e.there = e.baseID, ""
		if base, err := e.view(e.baseID); err != nil || base.old {
			e.tipID = "" // its mail begins a new branch
		}
	}
	if present {
		e.machines, e.cache.Seen = chooseMachines(refs, e.ownRef, e.cache.Seen)
	}
	return readOld(ctx, e)
}

// A seen is the commit of a machine's ref that a sync has read. Foreign says that this version cannot read it.
type seen struct {
	Commit  string `json:"commit"`
	Foreign bool   `json:"foreign,omitempty"`
}

// chooseMachines returns the refs of machines that a sync reads, with their commits, and those of all that were seen before. It
// chooses a bounded number, because there can be any number of them: the own one first, then those that no sync has read, and
// last those that this version cannot read. The others follow when these are folded into the branch.
func chooseMachines(refs map[string]string, own string, before map[string]seen) (chosen map[string]string, again map[string]seen) {
	const most = 50
	chosen, again = make(map[string]string), make(map[string]seen)
	rank := func(ref string) int {
		switch at := again[ref]; {
		case ref == own:
			return 0
		case at.Commit == "":
			return 1
		case !at.Foreign:
			return 2
		}
		return 3
	}
	var names []string
	for ref, commit := range refs {
		if strings.HasPrefix(ref, machineRefs) {
			names = append(names, ref)
			if before[ref].Commit == commit {
				again[ref] = before[ref]
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a, b)) })
	for _, ref := range names[:min(len(names), most)] {
		chosen[ref] = refs[ref]
	}
	return chosen, again
}

// push pushes updates independently of each other. It returns the refs that were refused, and for each of them whether
// another machine moved it. The refusal has the remote's reason; err says that the push did not reach the remote.
func (e *exchange) push(ctx context.Context, updates ...git.Update) (refused map[string]bool, refusal *RemoteError, err error) {
	defer e.o.announce(e.r.settings.Name())()
	limited, cancel := e.r.overNetwork(ctx)
	defer cancel()
	pushed, err := e.r.git.Push(limited, remoteName, updates)
	failed, isGit := errors.AsType[*git.Error](err)
	if !isGit {
		return nil, nil, err
	}
	refused = make(map[string]bool)
	for i, p := range pushed {
		if p.Refused != "" {
			refused[updates[i].Ref] = p.Raced
		}
	}
	if len(refused) == 0 && failed.Exit == 1 {
		return nil, nil, fmt.Errorf("%w: %w", ErrHook, err)
	}
	if len(refused) == 0 { // the remote ended the connection
		refused[updates[0].Ref] = false
	}
	if refused[updates[0].Ref] {
		err = errors.New("other machines were faster several times")
	}
	return refused, e.r.remoteError(err, true), nil
}

// pushPieces pushes the first commits of a large backlog, that many at once, and leaves the rest to pushTip. It ends early
// if another machine was faster.
func (e *exchange) pushPieces(ctx context.Context, commit string, each int) (refusal *RemoteError, err error) {
	if commit == e.there || e.tipID == e.there && e.edited <= sharedBy*each {
		return nil, nil
	}
	args := []string{"rev-list", "--first-parent", "--reverse", commit}
	if e.there != "" {
		args = append(args, "^"+e.there)
	}
	out, err := e.r.git.Run(ctx, args...)
	commits := strings.Fields(string(out))
	for i := each; i < len(commits) && err == nil; i += each {
		var refused map[string]bool
		refused, refusal, err = e.push(ctx, git.Update{Ref: e.r.settings.MailRef(), From: e.there, To: commits[i-1]})
		switch raced, isRefused := refused[e.r.settings.MailRef()]; {
		case err != nil, raced:
			return nil, err
		case isRefused:
			return refusal, nil
		}
		e.there = commits[i-1]
	}
	return nil, err
}

// publish pushes a commit if there is something to send, and deletes the refs of machines whose commits are folded into
// the branch. own says that the commit has something that no other machine has. If the remote limits the size of a push,
// the pieces get smaller.
func (e *exchange) publish(ctx context.Context, commit string, own bool) (refusal *RemoteError, err error) {
	if e.r.settings.URL == "" || !own && e.machines[e.ownRef] == "" {
		return nil, nil
	}
	for each := pieceCommits; ; each = 1 {
		refusal, err = e.pushPieces(ctx, commit, each)
		if refusal == nil && err == nil {
			refusal, err = e.pushTip(ctx, commit, own)
		}
		if refusal == nil || err != nil || each == 1 || !refusal.TooLarge() {
			return refusal, err
		}
	}
}

// pushTip pushes a commit to the branch, or to the ref of this machine.
func (e *exchange) pushTip(ctx context.Context, commit string, own bool) (refusal *RemoteError, err error) {
	mine := git.Update{Ref: e.ownRef, From: e.machines[e.ownRef], To: commit}
	updates := []git.Update{{Ref: e.r.settings.MailRef(), From: e.there, To: commit}}
	if commit == e.there {
		updates = nil
	}
	both := own && e.cache.Contended // others were faster at the last push
	if both {
		updates = append(updates, mine)
	}
	for ref, at := range e.machines {
		if !e.unfolded && !e.cache.Seen[ref].Foreign && (!both || ref != e.ownRef) { // the tip has everything in it, even if this push fails
			updates = append(updates, git.Update{Ref: ref, From: at})
			delete(e.machines, ref) // if it stays, the next fetch finds it
		}
	}
	if len(updates) == 0 { // git would push what push.default says
		return nil, nil
	}
	refused, refusal, err := e.push(ctx, updates...)
	stale, rejected := refused[e.r.settings.MailRef()]
	_, mineToo := refused[mine.Ref]
	switch {
	case commit == e.there:
		return nil, nil // a ref that could not be deleted does no harm
	case err != nil, rejected && !stale, stale && (e.o.Prune != nil || e.o.Squash): // a machine's ref cannot carry that
		return refusal, err
	case !stale:
		e.there = commit
	case own && (!both || mineToo):
		// The others also read this ref, and the next machine whose push succeeds folds it into the branch.
		mine.From = e.machines[e.ownRef]
		if refused, refusal, err = e.push(ctx, mine); len(refused) > 0 || err != nil {
			return refusal, err
		}
	}
	e.cache.Contended = stale
	if own && (stale || both) {
		e.machines[e.ownRef] = commit
	}
	return nil, nil
}
