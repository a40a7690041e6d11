package pair

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Summary describes the outcome of a run or, if it is not over, its progress.
type Summary struct {
	// Repository is the folder for which the run was started, Folder the one in which the agents
	// work.
	Repository string `json:"repository"`
	Folder     string `json:"folder"`
	// Changes are the files that differ from the start of the run, if the folder is in a git repository.
	// Other programs may have changed some of them.
	Changes []Change `json:"changes,omitempty"`
	// Unlisted is how many more changes there are.
	Unlisted int `json:"unlisted_changes,omitempty"`
	// Spent is what all turns of the run have used up.
	Spent Spent `json:"spent"`
	// Worktree is the worktree that is kept, nil if there is none.
	Worktree *Worktree `json:"worktree,omitempty"`
}

// Change is a file that differs from the start of the run.
type Change struct {
	// Path is relative to Summary.Folder.
	Path string `json:"path"`
	// Added and Deleted count lines. They are 0 for a file that is not text, and for a new file that
	// git does not track.
	Added   int `json:"added"`
	Deleted int `json:"deleted"`
	// Untracked reports that git does not track the file.
	Untracked bool `json:"untracked,omitempty"`
}

// maxChanges bounds the changes that are listed.
const maxChanges = 200

// summaryLimit is how long git may take to list the changes.
const summaryLimit = 5 * time.Second

// summarize returns the summary of the run. Old reports that the run was over before this session, so
// that changes may not be the run's.
func (m *Manifest) summarize(ctx context.Context, old bool) *Summary {
	summary := &Summary{Repository: m.RepoPath, Folder: m.Dir(), Spent: m.Spent}
	if old && m.WorktreePath == "" {
		return summary
	}
	ctx, cancel := context.WithTimeout(ctx, summaryLimit)
	defer cancel()
	changes, err := m.changes(ctx)
	if err != nil {
		return summary // a summary without changes is better than none
	}
	summary.Unlisted = max(0, len(changes)-maxChanges)
	summary.Changes = changes[:min(len(changes), maxChanges)]
	return summary
}

// changes lists the files in the agents' folder that are not as they were at the start.
func (m *Manifest) changes(ctx context.Context) ([]Change, error) {
	if m.BaseCommit == "" {
		return nil, nil
	}
	counts, err := runGit(ctx, m.Dir(), "diff", "--relative", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", m.BaseCommit, "--")
	if err != nil {
		return nil, err
	}
	var changes []Change
	for line := range strings.SplitSeq(counts, "\x00") {
		fields := strings.SplitN(line, "\t", 3)
		if len(fields) != 3 {
			continue
		}
		added, _ := strconv.Atoi(fields[0]) // "-" for a file that is not text
		deleted, _ := strconv.Atoi(fields[1])
		changes = append(changes, Change{Path: fields[2], Added: added, Deleted: deleted})
	}
	names, err := runGit(ctx, m.Dir(), "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(names, "\x00") {
		info, err := os.Lstat(filepath.Join(m.Dir(), name))
		// Git does not know the untracked files at the start. The clock of a file system lags a little.
		if name != "" && err == nil && info.ModTime().After(m.CreatedAt.Add(-20*time.Millisecond)) {
			changes = append(changes, Change{Path: name, Untracked: true})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	return changes, nil
}

// startingPoint returns a commit or a tree with what git tracks in a repository at this moment, including
// uncommitted changes, or "" if git fails. It leaves the repository as it is.
func startingPoint(repository string) string {
	for _, command := range [][]string{{"stash", "create"}, {"rev-parse", "--verify", "HEAD^{commit}"}, {"write-tree"}} {
		if point, err := runGit(context.Background(), repository, command...); err == nil && point != "" {
			return point
		}
	}
	return ""
}

// Worktree is a run's worktree that is kept after the run.
type Worktree struct {
	Path   string `json:"path"`
	Branch string `json:"branch"`
	// Base is the commit that the branch starts from, and Tip its last one, "" if there is no such
	// branch.
	Base string `json:"base"`
	Tip  string `json:"tip,omitempty"`
	// Uncommitted reports that the worktree holds changes that are not on the branch, and Committed
	// that the branch holds commits.
	Uncommitted bool `json:"uncommitted"`
	Committed   bool `json:"committed"`
	// Gone reports that only the branch is left.
	Gone bool `json:"gone,omitempty"`
}

// finishWorktree removes the worktree of a run that is over, unless it holds changes. It returns what
// is kept.
func (s *Session) finishWorktree(ctx context.Context) (*Worktree, error) {
	if s.manifest.WorktreePath == "" {
		return nil, nil
	}
	kept, err := tidyWorktree(ctx, &s.manifest)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil: // does not change the result of the run
		content := fmt.Sprintf("the worktree %s could not be removed and is kept: %v", s.manifest.WorktreePath, err)
		return nil, s.note(Entry{Type: EntryNotice, Content: content})
	case kept != nil:
		return kept, nil
	}
	s.manifest.WorktreePath, s.manifest.BaseCommit = "", ""
	return nil, s.save()
}
