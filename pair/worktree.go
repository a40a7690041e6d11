package pair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/visible"
)

// branch returns the branch of a run's worktree (AgentPair's worktrees guide, "Branch Naming").
func (m *Manifest) branch() string { return fmt.Sprintf("agentpair/run-%d", m.ID) }

// ErrNoCommit means that there is no commit from which a worktree could start.
var ErrNoCommit = failure.New("no_commit", "a worktree needs a git repository with a commit", "make a commit to start from, or omit --worktree")

// baseCommit returns the commit from which a worktree starts.
func baseCommit(repository string) (string, error) {
	commit, err := runGit(context.Background(), repository, "rev-parse", "--verify", "HEAD^{commit}")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoCommit, err)
	}
	return commit, nil
}

// checkFolder returns an error if the agents' working folder is missing.
func (m *Manifest) checkFolder() error {
	_, err := os.Stat(m.Dir())
	if err != nil && m.WorktreePath != "" {
		again := visible.ShellCommand("git", "-C", m.RepoPath, "worktree", "add", "--force", m.WorktreePath, m.branch())
		err = fmt.Errorf("%w; to make the worktree again from its branch: %s", err, again)
	}
	return err
}

// beginWorktree makes the worktree of a new run, and notes what it lacks.
func (s *Session) beginWorktree(ctx context.Context) error {
	m := &s.manifest
	if err := makeWorktree(ctx, m); err != nil {
		return err
	}
	changes, err := runGit(ctx, m.RepoPath, "status", "--porcelain")
	if err != nil || changes == "" {
		return err
	}
	return s.note(Entry{Type: EntryNotice, Content: fmt.Sprintf("the worktree is without the uncommitted changes in %s", m.RepoPath)})
}

// makeWorktree makes the run's worktree on its branch, and replaces what an interrupted process left of
// it. It returns an error if the branch has commits.
func makeWorktree(ctx context.Context, m *Manifest) error {
	if err := os.RemoveAll(m.WorktreePath); err != nil {
		return fmt.Errorf("removing the remains of a worktree: %w", err)
	}
	if _, err := runGit(ctx, m.RepoPath, "worktree", "prune"); err != nil {
		return err
	}
	tip, err := m.tip(ctx)
	add := []string{"worktree", "add", "--quiet", "-b", m.branch(), m.WorktreePath, m.BaseCommit}
	switch {
	case err != nil:
		return err
	case tip != "" && tip != m.BaseCommit:
		return fmt.Errorf("the branch %s already has other commits: rename or delete it", m.branch())
	case tip != "":
		add = []string{"worktree", "add", "--quiet", m.WorktreePath, m.branch()}
	}
	_, err = runGit(ctx, m.RepoPath, add...)
	return err
}

// tip returns the commit of the run's branch, or "" if there is no such branch.
func (m *Manifest) tip(ctx context.Context) (string, error) {
	return runGit(ctx, m.RepoPath, "for-each-ref", "--format=%(objectname)", "refs/heads/"+m.branch())
}

// tidyWorktree removes the run's worktree and then its branch. If they hold changes, it keeps and returns
// them. Calling it again finishes an interrupted call.
func tidyWorktree(ctx context.Context, m *Manifest) (*Worktree, error) {
	kept, err := m.worktree(ctx)
	if err != nil || kept == nil || kept.Committed || kept.Uncommitted {
		return kept, err
	}
	return nil, kept.remove(ctx, m.RepoPath, false)
}

// worktree returns the run's worktree, nil if both it and its branch are gone.
func (m *Manifest) worktree(ctx context.Context) (*Worktree, error) {
	tip, err := m.tip(ctx)
	if err != nil {
		return nil, err
	}
	w := &Worktree{Path: m.WorktreePath, Branch: m.branch(), Base: m.BaseCommit, Tip: tip, Committed: tip != "" && tip != m.BaseCommit}
	switch _, err := os.Stat(w.Path); {
	case errors.Is(err, fs.ErrNotExist) && tip == "":
		return nil, nil
	case errors.Is(err, fs.ErrNotExist): // an interrupted call has removed it
		w.Gone = true
	case err != nil:
		return nil, err
	default:
		w.Uncommitted, err = hasChanges(ctx, w.Path, cmp.Or(tip, m.BaseCommit))
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

// remove removes the worktree and its branch. Without force, it does not remove a worktree with changes.
func (w *Worktree) remove(ctx context.Context, repository string, force bool) error {
	if !w.Gone {
		arguments := []string{"worktree", "remove", w.Path}
		if force {
			arguments = []string{"worktree", "remove", "--force", w.Path}
		}
		// Git refuses to remove a worktree whose submodules are initialized.
		if _, err := runGit(ctx, repository, arguments...); err != nil {
			return err
		}
	}
	if w.Tip == "" {
		return nil
	}
	_, err := runGit(ctx, repository, "branch", "--quiet", "-D", w.Branch)
	return err
}

// hasChanges reports whether a worktree has uncommitted changes or is at another commit than its
// branch.
func hasChanges(ctx context.Context, path, tip string) (bool, error) {
	status, err := runGit(ctx, path, "status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=none")
	if err != nil || status != "" {
		return true, err
	}
	head, err := runGit(ctx, path, "rev-parse", "--verify", "HEAD")
	return head != tip, err
}

// gitPatience bounds a git command. A checkout of a large repository can take long.
const gitPatience = time.Hour

// runGit runs a git command in a folder and returns its output without outer white space.
func runGit(ctx context.Context, dir string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, gitPatience)
	defer cancel()
	out, err := (&git.Repository{Dir: dir}).Run(ctx, arguments...)
	return strings.TrimSpace(string(out)), err
}
