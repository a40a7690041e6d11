package gitmail

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/internal/git"
)

// Squashed says what a squash did.
type Squashed struct {
	// Before and After count the commits of the history. They are equal if there was nothing to do.
	Before, After int
	// Commit is the new tip; empty if there is no history.
	Commit string
}

// squash makes one commit of a history, perhaps one whose beginning is missing here. Its tree is the same, so no machine
// sends, delivers or acknowledges anything.
func (e *exchange) squash(ctx context.Context, commit string, shallow bool) (string, error) {
	out, err := e.r.git.Run(ctx, "rev-list", "--count", commit)
	if err != nil {
		return "", err
	}
	before, err := strconv.Atoi(strings.TrimSpace(string(out)))
	e.result.Squashed = Squashed{Before: before, After: 1, Commit: commit}
	if err != nil || before == 1 && !shallow {
		return commit, err
	}
	committer, err := e.r.committer(ctx)
	if err != nil {
		return "", err
	}
	v, err := e.view(commit)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d commits until %s\n\nThe last of them was %s.\n\n[skip ci]\n", before, e.now.UTC().Format("2006-01-02"), commit)
	made := git.Commit{Author: committer, Authored: e.now, Committer: committer, Committed: e.now, Text: text}
	e.result.Squashed.Commit, err = e.r.git.CommitTree(ctx, v.root, "", made, e.r.settings.sign)
	e.r.step("rewritten")
	return e.result.Squashed.Commit, err
}
