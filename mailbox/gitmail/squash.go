package gitmail

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	defer e.close()
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
	if s.Commit, err = e.r.squashed(ctx, e, s.Before); err != nil {
		return s, nil, err
	}
	e.r.step("rewritten")
	if e.r.settings.URL != "" {
		stale, refusal, err := e.push(ctx, s.Commit)
		if stale {
			refusal = e.r.remoteError(errors.New("other machines push all the time"), true)
		}
		if refusal != nil || err != nil {
			return s, refusal, err
		}
	}
	e.r.step("replaced")
	// The base says which states were agreed on, so it stays if there is something to receive.
	update := map[string]string{e.r.settings.branchRef(): s.Commit, trackingRef: s.Commit}
	if e.baseID == e.tipID {
		update[baseRef] = s.Commit
	}
	return s, nil, e.updateRefs(ctx, update)
}

// squashed returns a commit with the tree of the tip and no parent.
func (r *Repository) squashed(ctx context.Context, e *exchange, commits int) (string, error) {
	tip, err := e.view(e.tipID)
	if err != nil {
		return "", err
	}
	committer, err := r.committer(ctx)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s commits until %s\n\nThe last of them was %s.\n\n[skip ci]\n", grouped(commits), e.now.UTC().Format("2006-01-02"), e.tipID)
	s := &stream{last: 1}
	fmt.Fprintf(s, "commit %s\nmark :1\nauthor %s %d +0000\ncommitter %[2]s %[3]d +0000\ndata %d\n%s\nM 040000 %s \"\"\n\n",
		nextRef, committer, e.now.Unix(), len(text), text, tip.root)
	commit, err := r.fastImport(ctx, s)
	if err != nil {
		return "", err
	}
	if commit, err = r.sign(ctx, "", commit, 1); err != nil {
		return "", err
	}
	// The workspace may not have all that the commit has, so that it must not become the base.
	_, err = r.git.Run(ctx, "update-ref", "-d", nextRef)
	return commit, err
}

// grouped writes a number with a comma before each group of three digits.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
