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

// makeWorktree makes the run's worktree unless it is there. A fresh one is
// made anew: what a process that was cut off left behind is no one's work.
func makeWorktree(ctx context.Context, m *Manifest, fresh bool) error {
	_, err := os.Stat(m.WorktreePath)
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if there && !fresh {
		return nil
	}
	if there {
		if err := os.RemoveAll(m.WorktreePath); err != nil {
			return fmt.Errorf("removing what is left of a worktree: %w", err)
		}
	}
	if _, err := git(ctx, m.RepoPath, "worktree", "prune"); err != nil {
		return err
	}
	add := []string{"worktree", "add", "--quiet", "-b", m.branch(), m.WorktreePath, m.BaseCommit}
	tip, err := git(ctx, m.RepoPath, "for-each-ref", "--format=%(objectname)", "refs/heads/"+m.branch())
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

// tidyWorktree removes the run's worktree and branch if they hold no changes,
// and reports whether they are gone.
func tidyWorktree(ctx context.Context, m *Manifest) (removed bool, err error) {
	if _, err := os.Stat(m.WorktreePath); errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	status, err := git(ctx, m.WorktreePath, "status", "--porcelain", "--untracked-files=normal")
	if err != nil || status != "" {
		return false, err
	}
	for _, name := range []string{"HEAD", "refs/heads/" + m.branch()} {
		commit, err := git(ctx, m.WorktreePath, "rev-parse", "--verify", name)
		if err != nil || commit != m.BaseCommit {
			return false, err
		}
	}
	if _, err := git(ctx, m.RepoPath, "worktree", "remove", m.WorktreePath); err != nil {
		return false, err
	}
	_, err = git(ctx, m.RepoPath, "branch", "--quiet", "-D", m.branch())
	return err == nil, err
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
