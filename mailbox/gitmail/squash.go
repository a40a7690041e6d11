package gitmail

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/git"
)

// Squashed says what a squash did.
type Squashed struct {
	// Before and After count the commits of the history. They are equal if there was nothing to do.
	Before, After int
	// Commit is the new tip; empty if there is no history.
	Commit string
}

// Squash makes one commit of the history, here and on the remote. The tree of the tip does not change, so no
// machine sends, delivers or acknowledges anything. It begins again if another machine pushes meanwhile. The
// error is one of those of Sync. Of the options, Squash uses Waiting; a dry run only counts.
func (r *Repository) Squash(ctx context.Context, o Options) (s Squashed, err error) {
	unlock, err := r.begin(ctx, o)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	e := r.newExchange(ctx, o)
	defer e.Close()
	err = e.run(ctx, func(ctx context.Context) (refusal *RemoteError, err error) {
		s, refusal, err = e.squash(ctx)
		return refusal, err
	})
	if err == nil && s.After < s.Before && !o.DryRun {
		_ = r.collectGarbage(ctx)
	}
	if remote, ok := errors.AsType[*RemoteError](err); ok && remote.Refused {
		err = fmt.Errorf("replacing the history, with a forced push: %w", err)
	}
	return s, r.explain(ctx, err)
}

// squash makes the commit and pushes it once. A refusal of the push is no error.
func (e *exchange) squash(ctx context.Context) (s Squashed, refusal *RemoteError, err error) {
	if e.tipID == "" {
		return s, nil, nil
	}
	out, err := e.r.git.Run(ctx, "rev-list", "--count", e.tipID)
	if err == nil {
		s.Before, err = strconv.Atoi(strings.TrimSpace(string(out)))
	}
	if s.After, s.Commit = min(s.Before, 1), e.tipID; err != nil || s.Before < 2 || e.o.DryRun {
		return s, nil, err
	}
	tip, err := e.view(e.tipID)
	if err != nil {
		return s, nil, err
	}
	if s.Commit, err = e.r.squashed(ctx, tip, s.Before, e.now); err != nil {
		return s, nil, err
	}
	e.r.step("rewritten")
	if e.r.settings.URL != "" {
		refused, refusal, err := e.push(ctx, git.Update{Ref: e.r.settings.Ref, From: e.there, To: s.Commit})
		if len(refused) > 0 || err != nil {
			return s, refusal, err
		}
	}
	e.r.step("replaced")
	// The base says which states were agreed on, so it stays if there is something to receive.
	update := map[string]string{e.r.settings.branchRef(): s.Commit, trackingRef: s.Commit}
	if e.baseID == e.tipID {
		update[baseRef] = s.Commit
	}
	return s, nil, e.r.git.UpdateRefs(ctx, update)
}

// squashed returns a commit with the tree of a commit and no parent.
func (r *Repository) squashed(ctx context.Context, v *view, commits int, now time.Time) (string, error) {
	committer, err := r.committer(ctx)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d commits until %s\n\nThe last of them was %s.\n\n[skip ci]\n", commits, now.UTC().Format("2006-01-02"), v.commit)
	return r.git.CommitTree(ctx, v.root, "", git.Commit{Author: committer, Authored: now, Committer: committer, Committed: now, Text: text}, r.settings.sign)
}
