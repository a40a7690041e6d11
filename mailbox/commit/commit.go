// Package commit commits new messages in a workspace that is an ordinary folder of a git
// repository. It commits nothing else: other staged or changed files stay as they are.
//
// git commit --only commits just the named paths. The package first adds new files to the index, and
// removes them from it if the commit fails. git holds the lock of the index until the commit is made, so
// a crash leaves at most staged files of the workspace.
package commit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// attributesName is the file with the settings of git for messages.
const attributesName = ".gitattributes"

const (
	// timeLimit bounds a commit, with its hooks and the program that signs it.
	timeLimit = 2 * time.Minute
	// lockPatience is how long a commit waits for another git command that changes the index.
	lockPatience = 2 * time.Second
	// attempts is how often a commit is tried, because a file may vanish.
	attempts = 5
)

// The reasons for which a workspace cannot be committed.
var (
	// ErrNoRepository is returned if the workspace is in no working folder of a git repository.
	ErrNoRepository = failure.New("no_repository", "not in a git repository",
		"git init creates one; for a workspace with its own repository, use oacp sync")
	// ErrOwnRepository is returned if the workspace has a repository of its own, to which oacp sync commits.
	ErrOwnRepository = failure.New("own_repository", "has a git repository of its own",
		"use oacp sync, which commits mail and exchanges it with the remote")
	// ErrRefused is returned if git did not commit, for example because a hook failed.
	ErrRefused = failure.New("commit_refused", "git did not commit",
		"nothing was committed: fix what git names, such as a hook, the signing program or your name in the settings")
)

// IgnoredError says that git ignores the messages of the workspace.
type IgnoredError struct {
	Workspace string
	// Rule is the file, line and pattern as git prints them.
	Rule string
	// Exception is a line that exempts messages, in the file of the rule. It is empty if git ignores their folder, in which
	// exceptions have no effect.
	Exception string
}

func (e *IgnoredError) Explain() (code, hint string) {
	if e.Exception == "" {
		return "git_ignored", "remove the pattern"
	}
	return "git_ignored", "remove the pattern, or add a line below it: " + e.Exception
}

func (e *IgnoredError) Error() string {
	return fmt.Sprintf("git ignores messages in %s, because of %s", e.Workspace, e.Rule)
}

// errUnfinished says that the user must finish or abort a git operation, such as a rebase, first.
func errUnfinished(what string) error {
	return failure.New("git_unfinished", "a "+what+" is in progress", "git status says how to finish or abort it")
}

// errLocked says that another git command is changing the index or HEAD, or has crashed.
func errLocked(lock string) error {
	return failure.New("index_locked", fmt.Sprintf("the repository is locked: %s exists", lock),
		"wait for the other git command; if none is running, remove the file: "+visible.ShellCommand("rm", lock))
}

// A Repository is the user's repository around a workspace.
type Repository struct {
	workspace *mailbox.Workspace
	git       git.Repository
	// prefix is the path of the workspace below the top of the repository: empty, or with a slash at its
	// end.
	prefix string
	// names are the files and folders to commit, relative to the workspace.
	names []string
	// lock is the path of the lock of the index.
	lock string
	// Branch is the current branch; it is empty if HEAD is detached.
	Branch string
}

// unfinished are the files that show which operation is in progress.
var unfinished = [...]struct{ name, what string }{
	{"MERGE_HEAD", "merge"}, {"rebase-merge", "rebase"}, {"rebase-apply", "rebase"},
	{"CHERRY_PICK_HEAD", "cherry-pick"}, {"REVERT_HEAD", "revert"}, {"sequencer", "cherry-pick or revert"},
}

// Open finds the repository and checks that the workspace can be committed there now.
func Open(ctx context.Context, w *mailbox.Workspace) (*Repository, error) {
	if err := git.Check(ctx); err != nil {
		return nil, err
	}
	r := &Repository{workspace: w, git: git.Repository{Dir: w.Dir()}}
	args := []string{"rev-parse", "--show-toplevel", "--show-prefix", "--git-path", "index.lock"}
	for _, u := range unfinished {
		args = append(args, "--git-path", u.name)
	}
	if _, err := r.git.Run(ctx, "config", "--local", "--get", "oacp.ref"); err == nil {
		return nil, fmt.Errorf("workspace %s %w", w.Dir(), ErrOwnRepository)
	}
	out, err := r.git.Run(ctx, args...)
	if git.Exit(err) == git.Fatal && (strings.Contains(err.Error(), "not a git repository") || strings.Contains(err.Error(), "work tree")) {
		return nil, fmt.Errorf("workspace %s is %w", w.Dir(), ErrNoRepository)
	}
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != 3+len(unfinished) {
		return nil, fmt.Errorf("workspace %s: cannot read where its repository is: %q", w.Dir(), out)
	}
	r.git.Dir, r.prefix, r.lock = lines[0], lines[1], r.absolute(lines[2])
	for i, u := range unfinished {
		if _, err := os.Lstat(r.absolute(lines[3+i])); err == nil {
			return nil, errUnfinished(u.what)
		}
	}
	r.names = namesOf(r.prefix != "")
	if out, err := r.git.Run(ctx, "symbolic-ref", "--quiet", "--short", "HEAD"); err == nil {
		r.Branch = strings.TrimSpace(string(out))
	}
	return r, r.checkIgnored(ctx)
}

// absolute returns a path that git printed relative to the workspace.
func (r *Repository) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.workspace.Dir(), path)
}

// checkIgnored returns an *IgnoredError if git ignores a message that an agent would send.
func (r *Repository) checkIgnored(ctx context.Context) error {
	const message = "agents/claude/outbox/20260313T1430Z_claude_task_request.yaml"
	out, err := r.git.Run(ctx, "check-ignore", "--no-index", "--verbose", "--", r.prefix+message)
	switch rule, _, _ := strings.Cut(string(out), "\t"); {
	case git.Exit(err) == 1, err == nil && strings.Contains(rule, ":!"):
		return nil
	case err == nil:
		ignored := &IgnoredError{Workspace: r.workspace.Dir(), Rule: rule}
		if _, err := r.git.Run(ctx, "check-ignore", "--quiet", "--no-index", "--", r.prefix+path.Dir(message)); git.Exit(err) == 1 {
			file, _, _ := strings.Cut(rule, ":")
			below, _ := strings.CutPrefix(r.prefix, path.Dir(file)+"/")
			ignored.Exception = "!" + below + "agents/**"
		}
		return ignored
	}
	return err
}

// namesOf returns the files and folders to commit. A workspace at the top of the repository shares that folder
// with the code, so only the folders of agents and workspace.json are committed there.
func namesOf(below bool) []string {
	names := []string{schema.AgentsName, schema.MarkerName}
	if below {
		names = append(names, attributesName, "schemas", "trust", ".gitignore", ".gitkeep")
	}
	return names
}

// A Commit is what Commit committed.
type Commit struct {
	// ID is empty if there was nothing to commit.
	ID      string
	Message string
	Changes
}

// Plan returns what Commit would commit.
func (r *Repository) Plan(ctx context.Context, message string) (planned Commit, err error) {
	if planned.Changes, err = r.look(ctx); err != nil || len(planned.Files) == 0 {
		return planned, err
	}
	planned.Message = cmp.Or(message, planned.text())
	return planned, nil
}

// Commit commits the changes of the workspace. An empty message is replaced by one about the changes. If Commit
// fails, it leaves the index and the branch as they were.
func (r *Repository) Commit(ctx context.Context, message string) (done Commit, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeLimit,
		fmt.Errorf("git commit did not end within %v: %w", timeLimit, context.DeadlineExceeded))
	defer cancel()
	for range attempts {
		if done, err = r.Plan(ctx, message); err != nil || len(done.Files) == 0 {
			return done, err
		}
		if err = r.commit(ctx, done); err == nil {
			id, err := r.git.Run(ctx, "rev-parse", "--verify", "HEAD")
			done.ID = strings.TrimSpace(string(id))
			return done, err
		}
		if !isVanished(err) {
			break
		}
	}
	now, lookErr := r.look(context.WithoutCancel(ctx))
	if lookErr == nil && len(now.Files) == 0 {
		return Commit{Changes: now}, nil
	}
	return done, err
}

// isVanished reports whether git did not find a new file.
func isVanished(err error) bool { return strings.Contains(err.Error(), "did not match any file") }

// commit tries to commit the changes. If it fails, it removes the new files from the index.
func (r *Repository) commit(ctx context.Context, c Commit) error {
	if err := r.awaitLock(ctx); err != nil {
		return err
	}
	isNew := slices.DeleteFunc(slices.Clone(c.Files), func(f File) bool { return !f.isNew })
	if _, err := r.git.RunInput(ctx, r.paths("", isNew), "update-index", "--add", "--remove", "-z", "--stdin"); err != nil {
		return r.explain(err)
	}
	// The option --literal-pathspecs would also apply to the hooks.
	_, err := r.git.RunInput(ctx, r.paths(literal, slices.Concat(c.Files, c.unstaged)), "commit", "--quiet", "--only", "--cleanup=whitespace", "--message="+c.Message,
		"--pathspec-from-file=-", "--pathspec-file-nul")
	if err == nil {
		return nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockPatience)
	defer cancel()
	if waitErr := r.awaitLock(undo); waitErr != nil {
		return errors.Join(r.explain(err), fmt.Errorf("new messages are staged: %w", waitErr))
	}
	_, undoErr := r.git.RunInput(undo, r.paths("", isNew), "update-index", "--force-remove", "-z", "--stdin")
	if undoErr != nil {
		undoErr = fmt.Errorf("new messages are staged: %w", undoErr)
	}
	return errors.Join(r.explain(err), undoErr)
}

// literal begins a pattern that stands for one path below the top of the repository.
const literal = ":(top,literal)"

// paths returns the paths of files, each with the prefix before, in the form that git reads.
func (r *Repository) paths(before string, files []File) *bytes.Buffer {
	var all bytes.Buffer
	for _, f := range files {
		all.WriteString(before + r.prefix + f.Path)
		all.WriteByte(0)
	}
	return &all
}

// explain turns an error of git into errLocked or ErrRefused.
func (r *Repository) explain(err error) error {
	failed, ok := errors.AsType[*git.Error](err)
	if !ok {
		return err
	}
	_, lock, _ := strings.Cut(failed.Stderr, "Unable to create '")
	if lock, _, locked := strings.Cut(lock, "': File exists"); locked { // of the index, or of HEAD, if a commit was killed
		return errLocked(lock)
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

// awaitLock waits until no other git command has the lock of the index. It returns an error if that takes
// too long.
func (r *Repository) awaitLock(ctx context.Context) error {
	deadline := time.Now().Add(lockPatience)
	for {
		if _, err := os.Lstat(r.lock); err != nil {
			return nil
		}
		if time.Now().After(deadline) {
			return errLocked(r.lock)
		}
		select {
		case <-ctx.Done():
			return errors.Join(errLocked(r.lock), context.Cause(ctx))
		case <-time.After(lockPatience / 40):
		}
	}
}
