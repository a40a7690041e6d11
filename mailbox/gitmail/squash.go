package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Squashed says what a squash did.
type Squashed struct {
	// Before and After count the commits of the history. They are equal if there was nothing to do.
	Before, After int
	// Commit is the new tip; empty if there is no history.
	Commit string
}

// Squash makes one commit of the commits before a time, here and on the remote. The tree of the tip does
// not change, so no machine sends, delivers or acknowledges anything. Because clocks differ, the old
// commits are those before the first one that is not old.
// Merges that somebody made by hand become ordinary commits with the same tree.
//
// Squash first receives what other machines pushed, and begins again if one is faster. The error is
// ErrShallow or one of those of Sync. Of the options, it uses Progress and Waiting.
func (r *Repository) Squash(ctx context.Context, before time.Time, o Options) (s Squashed, err error) {
	unlock, err := r.begin(ctx, o)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	e := r.newExchange(o)
	if err := e.prepare(ctx); err != nil {
		return s, err
	}
	err = e.run(ctx, func(ctx context.Context) (refusal *RemoteError, err error) {
		s, refusal, err = e.squash(ctx, before)
		return refusal, err
	})
	if err == nil && s.After < s.Before {
		_ = r.collectGarbage(ctx)
	}
	if remote, ok := errors.AsType[*RemoteError](err); ok && remote.Refused {
		err = fmt.Errorf("replacing the history, with a forced push: %w", err)
	}
	return s, r.explain(ctx, err)
}

// squash receives, rewrites and pushes once. A refusal of the push is no error.
func (e *exchange) squash(ctx context.Context, before time.Time) (s Squashed, refusal *RemoteError, err error) {
	if e.tip == "" {
		return s, nil, nil
	}
	if e.tip != e.base {
		// The new tip becomes the base, so nothing of the old one may be left to receive.
		if err := e.receive(ctx); err != nil {
			return s, nil, err
		}
	}
	s, err = e.r.rewrite(ctx, e.tip, before)
	if err != nil || s.Commit == e.tip {
		return s, nil, err
	}
	e.r.step("rewritten")
	if refusal, err := e.push(ctx, s.Commit); refusal != nil || err != nil {
		return s, refusal, cmp.Or(context.Cause(ctx), err)
	}
	e.r.step("replaced")
	e.tip = s.Commit
	return s, nil, e.rebase(ctx)
}
