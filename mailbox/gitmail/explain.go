package gitmail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
)

// RepositoryError is an error about the repository of a workspace. It matches ErrNoRepository,
// ErrForeignRepository, ErrDamaged, ErrObjectFormat, ErrSigning or ErrHook.
type RepositoryError struct {
	// Dir is the workspace.
	Dir string
	// Remote and Ref are those that Init was called with, as far as they are known.
	Remote, Ref string
	Err         error
}

// Error names the workspace.
func (e *RepositoryError) Error() string { return fmt.Sprintf("workspace %s: %v", e.Dir, e.Err) }

// Unwrap returns the cause.
func (e *RepositoryError) Unwrap() error { return e.Err }

// Remake returns the commands that give the workspace another repository.
func (e *RepositoryError) Remake() string {
	words := []string{"oacp", "init", "--git", "--dir", e.Dir}
	if e.Remote != "" {
		words = append(words, "--remote", PublicURL(e.Remote))
	}
	if e.Ref != "" && e.Ref != DefaultRef {
		words = append(words, "--ref", e.Ref)
	}
	own := filepath.Join(e.Dir, gitName)
	return visible.Shell("mv", own, own+"-damaged") + "; " + visible.Shell(words...)
}

// usable returns nil if git can use the repository in the folder of a workspace, and Init made it. The
// error matches ErrForeignRepository or ErrDamaged, or git could not run.
func usable(ctx context.Context, w *mailbox.Workspace, own *git.Repository) error {
	s, err := ownSettings(ctx, own)
	ref := s["oacp.ref"]
	if ref != "" {
		_, err = own.Run(ctx, "rev-parse", "--git-dir")
	}
	switch {
	case err != nil && git.Exit(err) < 0:
		return err
	case err == nil && ref != "":
		return nil
	case !isOurs(w):
		return &RepositoryError{Dir: w.Dir(), Err: errors.Join(ErrForeignRepository, err)}
	case err == nil:
		err = errors.New("its settings are gone")
	}
	return remakeError(ctx, w, own, ErrDamaged, err)
}

// isOurs reports whether the folder of a workspace shows that Init made a repository there.
func isOurs(w *mailbox.Workspace) bool {
	for _, name := range []string{stateFolder, gitName + "/refs/oacp"} {
		if _, err := w.Root().Lstat(name); err == nil {
			return true
		}
	}
	return false
}

// remakeError returns the error for a repository that has to be made anew.
func remakeError(ctx context.Context, w *mailbox.Workspace, own *git.Repository, why, err error) error {
	s, _ := ownSettings(ctx, own) // they are only for the hint
	return &RepositoryError{Dir: w.Dir(), Remote: s["oacp.remote"], Ref: s["oacp.ref"], Err: fmt.Errorf("%w: %w", why, err)}
}

// explain finds out why a sync failed: git is too old, or the repository is damaged.
func (r *Repository) explain(ctx context.Context, err error) error {
	const usage = 129
	switch exit := git.Exit(err); {
	case errors.Is(err, ErrSigning), errors.Is(err, ErrHook):
		return &RepositoryError{Dir: r.w.Dir(), Err: err}
	case isOtherFormat(err):
		return remakeError(ctx, r.w, r.git, ErrObjectFormat, err)
	case exit == usage:
		return errors.Join(git.Check(ctx), err)
	case exit <= 0, errors.Is(err, syscall.ENOSPC):
		return err
	}
	if damage := usable(ctx, r.w, r.git); damage != nil {
		return damage
	}
	if damage := r.readAll(ctx); git.Exit(damage) > 0 {
		return remakeError(ctx, r.w, r.git, ErrDamaged, damage)
	}
	return err
}

// isOtherFormat reports whether git says that the remote has another object format.
func isOtherFormat(err error) bool {
	failed, ok := errors.AsType[*git.Error](err)
	return ok && slices.ContainsFunc([]string{"mismatched algorithms", "does not support this repository's hash algorithm", "unexpected capabilities^"},
		func(text string) bool { return strings.Contains(failed.Stderr, text) })
}

// readAll returns an error if the files of the commits that a sync uses cannot be read.
func (r *Repository) readAll(ctx context.Context) error {
	refs, err := r.refs(ctx, baseRef, trackingRef, nextRef)
	if err != nil {
		return err
	}
	var read []string
	for _, commit := range refs {
		if slices.Contains(read, commit) {
			continue
		}
		read = append(read, commit)
		if err := r.listTree(ctx, 4, []string{"-r", "--long", commit}, func(string, []string) {}); err != nil {
			return err
		}
	}
	return nil
}

// noRepository returns the error for a workspace without a repository of its own, or nil.
func noRepository(w *mailbox.Workspace) error {
	_, err := w.Root().Lstat(gitName)
	if errors.Is(err, fs.ErrNotExist) {
		err = &RepositoryError{Dir: w.Dir(), Err: ErrNoRepository}
	}
	return err
}
