package gitmail

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox/history"
)

// An edit is what a commit changes in the tree of the tip.
type edit struct {
	history.Change
	// own says that the change was made here, so that no other machine has it.
	own    bool
	write  []git.File
	remove []string
}

const (
	// mostCommits is how many changes get a commit each. More share commits, sharedBy changes one.
	mostCommits = 20
	sharedBy    = 1000
	// pieceCommits is how many commits a push of a backlog has.
	pieceCommits = 10
)

// commit makes commits of edits on a parent, which may be empty, and returns the last one.
func (r *Repository) commit(ctx context.Context, parent string, now time.Time, edits []*edit) (string, error) {
	if len(edits) == 0 {
		return parent, nil
	}
	committer, err := r.committer(ctx)
	if err != nil {
		return "", err
	}
	each := 1
	if len(edits) > mostCommits {
		each = sharedBy
	}
	var commits []git.Commit
	for group := range slices.Chunk(edits, each) {
		commits = append(commits, commitOf(group, committer, now))
	}
	return r.git.Import(ctx, nextRef, parent, commits, r.settings.sign)
}

// commitOf returns the commit of edits.
func commitOf(edits []*edit, committer string, now time.Time) git.Commit {
	commit := git.Commit{Author: committer, Authored: now, Committer: committer, Committed: now, Text: message(edits)}
	if c := edits[0].Change; len(edits) == 1 && c.Agent != "" {
		commit.Author = fmt.Sprintf("%s <%[1]s@oacp>", c.Agent)
		if c.Kind == history.Sent {
			commit.Authored = c.At
		}
	}
	for _, edit := range edits {
		for _, path := range edit.remove {
			commit.Files = append(commit.Files, git.File{Path: path, Removed: true})
		}
		commit.Files = append(commit.Files, edit.write...)
	}
	return commit
}

// committer returns the user's name and address, as in a commit: Ann <ann@example.com>.
func (r *Repository) committer(ctx context.Context) (string, error) {
	out, err := r.git.Run(ctx, "var", "GIT_COMMITTER_IDENT")
	if git.Exit(err) == git.Fatal { // git does not know who the user is
		return "oacp <oacp@" + hostName() + ">", nil
	}
	if err != nil {
		return "", err
	}
	name, _, _ := strings.Cut(string(out), ">")
	return name + ">", nil
}

// message returns the text of a commit. It tells CI services not to build.
func message(edits []*edit) string {
	changes := make([]history.Change, len(edits))
	for i, edit := range edits {
		changes[i] = edit.Change
	}
	text := history.Subject(changes)
	if len(edits) == 1 && edits[0].ID != "" {
		text += "\n\n" + string(edits[0].ID)
	}
	return text + "\n\n[skip ci]\n"
}
