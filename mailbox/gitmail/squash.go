package gitmail

import (
	"context"
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

// squash makes one commit of a history. Its tree is the same, so no machine sends, delivers or acknowledges anything.
func (e *exchange) squash(ctx context.Context, commit string) (squashed string, err error) {
	if commit == "" {
		return "", nil
	}
	out, err := e.r.git.Run(ctx, "rev-list", "--count", commit)
	s := Squashed{After: 1, Commit: commit}
	if err == nil {
		s.Before, err = strconv.Atoi(strings.TrimSpace(string(out)))
	}
	if err == nil && s.Before > 1 {
		var v *view
		if v, err = e.view(commit); err == nil {
			s.Commit, err = e.r.squashed(ctx, v, s.Before, e.now)
		}
	}
	e.result.Squashed = s
	e.r.step("rewritten")
	return s.Commit, err
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
