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

// fetch sets the base and the tip. Without a remote, or if it has no mail, the tip is the base: its history
// goes out whole.
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
	refs, err := e.r.refs(ctx, baseRef, trackingRef, nextRef, lateRef)
	if err != nil {
		return err
	}
	e.base, e.tip, e.made, e.there, e.lateList = refs[baseRef], refs[trackingRef], refs[nextRef], refs[trackingRef], refs[lateRef]
	if !present {
		e.tip, e.there = e.base, ""
	}
	e.result.Whole = e.there == "" && e.base != "" && e.r.settings.URL != ""
	return nil
}

// fetch fetches the mail and the claims. It reports whether the remote has the mail's ref.
func (r *Repository) fetch(ctx context.Context) (bool, error) {
	const mostAttempts = 2
	for attempt := 1; ; attempt++ {
		_, fetchErr := r.overNetwork(ctx, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--refmap=", "--prune",
			remoteName, "+"+r.settings.Ref+":"+trackingRef, "+"+claimRefs+"*:"+claimRefs+"*")
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

// push makes a commit the tip of the remote, if its tip is still the one that was fetched. A refusal of the
// remote is no error.
func (e *exchange) push(ctx context.Context, commit string) (refusal *RemoteError, err error) {
	s := e.r.settings
	if s.URL == "" {
		return nil, nil
	}
	e.result.Pushes++
	defer e.o.announce(s.Name())()
	out, err := e.r.overNetwork(ctx, "push", "--quiet", "--porcelain", "--atomic", "--force-with-lease="+s.Ref+":"+e.there, remoteName, commit+":"+s.Ref)
	if err == nil {
		return nil, nil
	}
	if unreachable, ok := errors.AsType[*RemoteError](err); ok {
		return unreachable, nil
	}
	// If the remote refuses, git prints a line about the ref, and if the remote ends the connection, the
	// status is 128.
	if git.Exit(err) == 1 && !bytes.HasPrefix(out, []byte("!")) && !bytes.Contains(out, []byte("\n!")) {
		return nil, fmt.Errorf("%w: %w", ErrHook, err)
	}
	return e.r.remoteError(err, true), nil
}

// ErrHook says that a hook of the user refused to push the mail.
var ErrHook = errors.New("a hook of this machine refuses the mail, as oacp.hooks allows it")

// rebase makes the tip the base.
func (e *exchange) rebase(ctx context.Context) error {
	var input strings.Builder
	for _, ref := range []string{baseRef, e.r.settings.branchRef(), trackingRef} {
		fmt.Fprintf(&input, "update %s %s\n", ref, e.tip)
	}
	_, err := e.r.git.RunInput(ctx, strings.NewReader(input.String()), "update-ref", "--stdin")
	if err != nil {
		return fmt.Errorf("recording what the workspace is in step with: %w", err)
	}
	e.base = e.tip
	return nil
}

// descends reports whether the history of a commit holds the older one. A damaged history does not.
func (r *Repository) descends(ctx context.Context, commit, older string) (bool, error) {
	if older == "" {
		return false, nil
	}
	_, err := r.git.Run(ctx, "merge-base", "--is-ancestor", older, commit)
	if code := git.Exit(err); code == 1 || code == damaged {
		return false, nil
	}
	return err == nil, err
}

// catchUp makes the commit that was last made here the base, if the tip holds it and the base is older:
// a sync ended after its push, before it recorded the commit. The commit describes this workspace at that
// time, so it is no news here, and may be out of date.
func (e *exchange) catchUp(ctx context.Context) error {
	if e.made == "" || e.made == e.base {
		return nil
	}
	if e.base != "" {
		if ahead, err := e.r.descends(ctx, e.made, e.base); !ahead || err != nil {
			return err
		}
	}
	pushed, err := e.r.descends(ctx, e.tip, e.made)
	if pushed {
		e.base = e.made
	}
	return err
}

var errTree = errors.New("git printed something that cannot be read")
