package gitmail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/git"
)

// RemoteError says that the remote could not be reached, or refused.
type RemoteError struct {
	// URL is that of the remote, without a password.
	URL string
	// Refused says that the remote was reached and refused the commits.
	Refused bool
	// Claims says that it refused claims.
	Claims bool
	Err    error
}

// Error names the remote and says what git says.
func (e *RemoteError) Error() string {
	if e.Claims {
		return fmt.Sprintf("%s refuses claims: %v", e.URL, e.Err)
	}
	if e.Refused {
		return fmt.Sprintf("%s refuses the mail: %v", e.URL, e.Err)
	}
	return fmt.Sprintf("%s cannot be reached: %v", e.URL, e.Err)
}

// Unwrap returns the cause.
func (e *RemoteError) Unwrap() error { return e.Err }

// fetch sets the base, the tip and the refs of machines. Without a remote, or if it has no mail, the tip is the
// base: its history goes out whole.
func (e *exchange) fetch(ctx context.Context) error {
	present := e.r.settings.URL != ""
	if present {
		var err error
		announced := e.o.announce(e.r.settings.Name())
		present, err = e.r.fetch(e.o.untilEnd(ctx))
		announced()
		if err != nil {
			return err
		}
	}
	refs, err := e.r.refs(ctx, baseRef, trackingRef, nextRef, strings.TrimSuffix(machineRefs, "/"))
	if err != nil {
		return err
	}
	e.baseID, e.tipID, e.there = refs[baseRef], refs[trackingRef], refs[trackingRef]
	next := refs[nextRef]
	for _, ref := range []string{baseRef, trackingRef, nextRef} {
		delete(refs, ref)
	}
	e.machines = refs
	if !present {
		e.tipID, e.there, e.machines = e.baseID, "", make(map[string]string)
	}
	e.recorded = e.baseID
	e.result.Whole = e.there == "" && e.baseID != "" && e.r.settings.URL != ""
	return e.catchUp(ctx, next)
}

// catchUp makes the commit that was last made here the base if the remote has it: a sync ended after its push, before it
// recorded the commit. The workspace had all that the commit has.
func (e *exchange) catchUp(ctx context.Context, next string) error {
	ownRef, err := e.r.machineRef()
	if next == "" || next == e.baseID || e.there == e.baseID || err != nil {
		return err
	}
	pushed := e.machines[ownRef] == next || e.there == next
	if !pushed && e.there != "" {
		if pushed, err = e.r.descends(ctx, e.there, next); pushed && e.baseID != "" && err == nil {
			recorded, err := e.r.descends(ctx, e.baseID, next)
			if recorded || err != nil {
				return err
			}
		}
	}
	if pushed && err == nil {
		e.baseID = next
	}
	return err
}

// descends reports whether the history of a commit holds the older one. A damaged history does not.
func (r *Repository) descends(ctx context.Context, commit, older string) (bool, error) {
	_, err := r.git.Run(ctx, "merge-base", "--is-ancestor", older, commit)
	if code := git.Exit(err); code == 1 || code == damaged {
		return false, nil
	}
	return err == nil, err
}

// fetch fetches the mail, the claims and the refs of machines. It reports whether the remote has the mail's ref.
func (r *Repository) fetch(ctx context.Context) (bool, error) {
	const mostAttempts = 2
	for attempt := 1; ; attempt++ {
		_, fetchErr := r.overNetwork(ctx, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--refmap=", "--prune",
			remoteName, "+"+r.settings.Ref+":"+trackingRef, "+"+claimRefs+"*:"+claimRefs+"*", "+"+machineRefs+"*:"+machineRefs+"*")
		if fetchErr == nil {
			return true, nil
		}
		if present, err := r.hasRef(ctx, fetchErr); !present || err != nil {
			return false, err
		}
		// The remote may have come back after the fetch failed, or a git that a killed sync left was in the
		// way.
		if attempt == mostAttempts {
			return false, fetchErr
		}
		if err := r.clearLocks(ctx, Options{}); err != nil {
			return false, err
		}
	}
}

// The time limits of commands that reach the remote. The first ones may carry years of mail.
const (
	networkLimit = 2 * time.Minute
	firstLimit   = 30 * time.Minute
)

// overNetwork runs a command that reaches the remote.
func (r *Repository) overNetwork(ctx context.Context, args ...string) ([]byte, error) {
	limit := networkLimit
	if _, err := r.LastSync(); err != nil {
		limit = firstLimit
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v: %w", limit, context.DeadlineExceeded))
	defer cancel()
	out, err := r.git.Run(limited, args...)
	if limited.Err() != nil && ctx.Err() == nil {
		err = r.remoteError(err, false)
	}
	return out, err
}

// hasRef reports whether the remote has the ref that a fetch failed to fetch.
func (r *Repository) hasRef(ctx context.Context, fetchErr error) (bool, error) {
	const noneMatches = 2
	if git.Exit(fetchErr) < 0 {
		return false, fetchErr // git did not run, or was stopped
	}
	_, err := r.overNetwork(ctx, "ls-remote", "--exit-code", remoteName, r.settings.Ref)
	switch {
	case err == nil:
		return true, nil
	case git.Exit(err) == noneMatches:
		return false, nil
	}
	return false, r.remoteError(err, false)
}

// remoteError says that a command failed because of the remote.
func (r *Repository) remoteError(err error, refused bool) *RemoteError {
	return &RemoteError{URL: PublicURL(r.settings.URL), Refused: refused, Err: err}
}

// refs returns the objects of refs, as far as there are any.
func (r *Repository) refs(ctx context.Context, names ...string) (map[string]string, error) {
	out, err := r.git.Run(ctx, append([]string{"for-each-ref", "--format=%(refname) %(objectname)"}, names...)...)
	if err != nil {
		return nil, err
	}
	refs := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		name, object, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		refs[name] = object
	}
	return refs, nil
}

// push makes a commit the tip of the remote, if its tip is still the one that was fetched; otherwise, the push is
// stale. A refusal of the remote is no error.
func (e *exchange) push(ctx context.Context, commit string) (stale bool, refusal *RemoteError, err error) {
	ref := e.r.settings.Ref
	e.result.Pushes++
	defer e.o.announce(e.r.settings.Name())()
	out, err := e.r.overNetwork(ctx, "push", "--quiet", "--porcelain", "--force-with-lease="+ref+":"+e.there, remoteName, commit+":"+ref)
	if err == nil {
		return false, nil, nil
	}
	// The client compares with what the remote says first, and the remote once more when it moves the ref.
	failed, isGit := gitError(err)
	for _, race := range []string{"[rejected] (stale info)", "cannot lock ref", "incorrect old value provided", "failed to update ref", "reference already exists"} {
		stale = stale || isGit && (bytes.Contains(out, []byte(race)) || strings.Contains(failed.Stderr, race))
	}
	if stale {
		return true, nil, nil
	}
	refusal, err = e.refusal(out, err)
	return false, refusal, err
}

// refusal turns the error of a push into the refusal of the remote, or the error of a hook of the user's.
func (e *exchange) refusal(out []byte, err error) (*RemoteError, error) {
	if unreachable, ok := errors.AsType[*RemoteError](err); ok {
		return nil, unreachable
	}
	// If the remote refuses, git prints a line about the ref, and if the remote ends the connection, the
	// status is 128.
	if git.Exit(err) == 1 && !bytes.HasPrefix(out, []byte("!")) && !bytes.Contains(out, []byte("\n!")) {
		return nil, fmt.Errorf("%w: %w", ErrHook, err)
	}
	return e.r.remoteError(err, true), nil
}

// pushRef pushes a commit to the ref of this machine, which no other machine moves.
func (e *exchange) pushRef(ctx context.Context, commit, ref string) (refusal *RemoteError, err error) {
	defer e.o.announce(e.r.settings.Name())()
	out, err := e.r.overNetwork(ctx, "push", "--quiet", "--porcelain", remoteName, "+"+commit+":"+ref)
	if err != nil {
		return e.refusal(out, err)
	}
	e.machines[ref] = commit
	_, err = e.r.git.Run(ctx, "update-ref", ref, commit)
	return nil, err
}

// machineRef returns the ref of this machine.
func (r *Repository) machineRef() (string, error) {
	number, err := workspaceNumber(r.w)
	return machineRefs + number, err
}

// removeMachines deletes the refs that are folded into the branch. A ref that moved meanwhile stays, and so does
// one that cannot be deleted: it says nothing new.
func (e *exchange) removeMachines(ctx context.Context) {
	if len(e.machines) == 0 {
		return
	}
	args, refs, local := []string{"push", "--quiet", "--porcelain", "--no-verify"}, []string{remoteName}, ""
	for ref, commit := range e.machines {
		args, refs = append(args, "--force-with-lease="+ref+":"+commit), append(refs, ":"+ref)
		local += "delete " + ref + "\n"
	}
	if _, err := e.r.overNetwork(ctx, append(args, refs...)...); err != nil {
		return
	}
	_, _ = e.r.git.RunInput(ctx, strings.NewReader(local), "update-ref", "--stdin") // the next fetch does the same
	e.machines = nil
}

// ErrHook says that a hook of the user refused to push the mail.
var ErrHook = errors.New("a hook of this machine refuses the mail, as oacp.hooks allows it")
