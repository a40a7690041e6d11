package pair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/bridge"
)

// worktreePath is in the run's folder, so that no two runs share one.
func worktreePath(run bridge.Run) string { return filepath.Join(run.Folder, "worktree") }

// branch is the branch of a run's worktree (AgentPair's worktrees guide,
// "Branch Naming").
func (m *Manifest) branch() string { return fmt.Sprintf("agentpair/run-%d", m.ID) }

// baseCommit returns what a worktree is made from. The error says that there
// is no git repository, or no commit in it.
func baseCommit(repository string) (string, error) {
	commit, err := git(context.Background(), repository, "rev-parse", "--verify", "HEAD^{commit}")
	if err != nil {
		return "", fmt.Errorf("a worktree needs a git repository with a commit: %w", err)
	}
	return commit, nil
}

// makeSureOfFolder makes the folder in which the agents work if it is one of
// the run's own and not there (any more).
func (s *Session) makeSureOfFolder(ctx context.Context) error {
	m := &s.manifest
	_, err := os.Stat(m.Dir())
	if m.WorktreePath == "" || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Written down first: whoever comes after a crash would not know it.
	m.WorktreeLost = true
	if err := s.save(); err != nil {
		return err
	}
	if err := makeWorktree(ctx, m, false); err != nil {
		return err
	}
	return s.note(Entry{Type: EntryNotice, Content: fmt.Sprintf("the worktree %s was gone, with all that was not committed in it, and is made again", m.WorktreePath)})
}

// beginWorktree makes a new run's worktree. What a process that was cut off
// left behind is no one's work.
func (s *Session) beginWorktree(ctx context.Context) error {
	m := &s.manifest
	if err := makeWorktree(ctx, m, true); err != nil {
		return err
	}
	changes, err := git(ctx, m.RepoPath, "status", "--porcelain")
	if err != nil || changes == "" {
		return err
	}
	return s.note(Entry{Type: EntryNotice, Content: fmt.Sprintf("%s has changes that are not committed, and the worktree is without them", m.RepoPath)})
}

// makeWorktree makes the run's worktree. A fresh one takes the place of what
// is there, and its branch is its own.
func makeWorktree(ctx context.Context, m *Manifest, fresh bool) error {
	if fresh {
		if err := os.RemoveAll(m.WorktreePath); err != nil {
			return fmt.Errorf("removing what is left of a worktree: %w", err)
		}
	}
	if _, err := git(ctx, m.RepoPath, "worktree", "prune"); err != nil {
		return err
	}
	tip, err := m.tip(ctx)
	add := []string{"worktree", "add", "--quiet", "-b", m.branch(), m.WorktreePath, m.BaseCommit}
	switch {
	case err != nil:
		return err
	case tip != "" && tip != m.BaseCommit && fresh:
		return fmt.Errorf("the branch %s holds other commits already: rename or delete it", m.branch())
	case tip != "":
		add = []string{"worktree", "add", "--quiet", m.WorktreePath, m.branch()}
	}
	_, err = git(ctx, m.RepoPath, add...)
	return err
}

// tip returns the commit that the run's branch is at, or nothing if there is
// no such branch.
func (m *Manifest) tip(ctx context.Context) (string, error) {
	return git(ctx, m.RepoPath, "for-each-ref", "--format=%(objectname)", "refs/heads/"+m.branch())
}

// tidyWorktree removes the run's worktree and branch unless they hold changes,
// and tells what is kept because it does. The worktree goes first: wherever
// this is cut off, doing it again finishes it.
func tidyWorktree(ctx context.Context, m *Manifest) (kept string, err error) {
	tip, err := m.tip(ctx)
	if err != nil {
		return "", err
	}
	committed := tip != "" && tip != m.BaseCommit
	_, err = os.Stat(m.WorktreePath)
	switch {
	case errors.Is(err, fs.ErrNotExist) && committed:
		return "the branch " + m.branch(), nil
	case errors.Is(err, fs.ErrNotExist): // removed before
	case err != nil:
		return "", err
	default:
		changed, err := holdsChanges(ctx, m)
		if err != nil {
			return "", err
		}
		if committed || changed {
			return fmt.Sprintf("the worktree %s with the branch %s", m.WorktreePath, m.branch()), nil
		}
		if err := removeWorktree(ctx, m); err != nil {
			return "", err
		}
	}
	if tip == "" {
		return "", nil
	}
	_, err = git(ctx, m.RepoPath, "branch", "--quiet", "-D", m.branch())
	return "", err
}

// holdsChanges reports whether something would be lost with the worktree.
func holdsChanges(ctx context.Context, m *Manifest) (bool, error) {
	status, err := git(ctx, m.WorktreePath, "status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=none")
	if err != nil || status != "" {
		return true, err
	}
	head, err := git(ctx, m.WorktreePath, "rev-parse", "--verify", "HEAD")
	if err != nil || head != m.BaseCommit {
		return true, err
	}
	modules, err := submodules(ctx, m.WorktreePath)
	if err != nil {
		return true, err
	}
	for _, module := range modules {
		// The commits of the worktree itself are in the repository; those of a
		// submodule are only here, unless they came from elsewhere.
		own, err := git(ctx, module, "rev-list", "--max-count=1", "--exclude=refs/tags/*", "--all", "--not", "--remotes", "HEAD")
		if err != nil || own != "" {
			return true, err
		}
	}
	return false, nil
}

// submodules lists the folders of the submodules that have been initialised,
// those within others after them.
func submodules(ctx context.Context, folder string) ([]string, error) {
	index, err := git(ctx, folder, "ls-files", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	var found []string
	for entry := range strings.SplitSeq(index, "\x00") {
		about, name, _ := strings.Cut(entry, "\t")
		module := filepath.Join(folder, name)
		if !strings.HasPrefix(about, "160000 ") {
			continue
		}
		if _, err := os.Lstat(filepath.Join(module, ".git")); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		within, err := submodules(ctx, module)
		if err != nil {
			return nil, err
		}
		found = append(append(found, module), within...)
	}
	return found, nil
}

// removeWorktree removes a worktree that holds nothing.
func removeWorktree(ctx context.Context, m *Manifest) error {
	remove := []string{"worktree", "remove", m.WorktreePath}
	if modules, err := submodules(ctx, m.WorktreePath); err != nil {
		return err
	} else if len(modules) > 0 {
		// Git refuses otherwise, whatever is in the submodules.
		remove = []string{"worktree", "remove", "--force", m.WorktreePath}
	}
	_, err := git(ctx, m.RepoPath, remove...)
	return err
}

// git runs a git command in a folder and returns what it printed, without
// white space around it. Variables that would have it act upon another
// repository, as git sets them for its hooks, are taken away.
func git(ctx context.Context, dir string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", arguments...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR"}, name)
	})
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", fmt.Errorf("git %s: %w: %s", arguments[0], err, tail(strings.TrimSpace(problem.String()), 500))
	}
	return strings.TrimSpace(out.String()), nil
}
