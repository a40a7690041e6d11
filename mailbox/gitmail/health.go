package gitmail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
)

// Errors about the repository of a workspace.
var (
	// ErrNoRepository is returned for a workspace that has no repository of its own.
	ErrNoRepository = errors.New("the workspace has no git repository of its own")
	// ErrForeignRepository says that the workspace is the top of a repository that Init did not make.
	ErrForeignRepository = failure.New("foreign_repository", "it is a git repository that oacp did not make",
		"name another folder with --dir; oacp init --commit makes mailboxes that are committed with the code")
	// ErrDamaged says that git cannot use the repository that Init made.
	ErrDamaged = errors.New("its git repository is damaged")
	// ErrObjectFormat says that the remote has objects of another format, SHA-1 or SHA-256.
	ErrObjectFormat = errors.New("the object format of its repository is not that of the remote")
)

// RepositoryError is an error about the repository of a workspace. It matches ErrNoRepository,
// ErrForeignRepository, ErrDamaged, ErrObjectFormat, git.ErrSigning or ErrHook.
type RepositoryError struct {
	// Dir is the workspace. Remote and Ref are as in InitOptions, as far as they are known.
	Dir, Remote, Ref string
	Err              error
}

func (e *RepositoryError) Error() string { return fmt.Sprintf("workspace %s: %v", e.Dir, e.Err) }

func (e *RepositoryError) Explain() (code, hint string) {
	switch {
	case errors.Is(e, ErrNoRepository) && errors.Is(e, ErrForeignRepository):
		return "no_repository", "oacp commit commits its mail with the code; oacp init --git moves it into .oacp, with its mail"
	case errors.Is(e, ErrNoRepository):
		return "no_repository", visible.ShellCommand("oacp", "init", "--git", "--dir", e.Dir) +
			" creates one and keeps the mail; for a workspace committed with the code, use oacp commit"
	case errors.Is(e, ErrObjectFormat):
		return "object_format", e.Remake() + " makes one in the format of the remote; all messages are in the workspace, so none is lost"
	case errors.Is(e, ErrHook):
		return "hook_refused", visible.ShellCommand("git", "-C", e.Dir, "config", "oacp.hooks", "false") + " lets no hooks run; mail waits here"
	case errors.Is(e, ErrDamaged):
		return "damaged_repository", e.Remake() + " makes another; all messages are in the workspace, so none is lost"
	case errors.Is(e, git.ErrSigning):
		return "not_signed", "fix the signing program, or commit mail without signatures: " +
			visible.ShellCommand("git", "-C", e.Dir, "config", "commit.gpgsign", "false")
	}
	return "", ""
}

func (e *RepositoryError) Unwrap() error { return e.Err }

// Remake returns the commands that give the workspace another repository.
func (e *RepositoryError) Remake() string {
	words := []string{"oacp", "init", "--git", "--dir", e.Dir}
	if e.Remote != "" {
		words = append(words, "--remote", git.PublicURL(e.Remote))
	}
	if e.Ref != "" && e.Ref != DefaultRef {
		words = append(words, "--ref", e.Ref)
	}
	own := filepath.Join(e.Dir, gitName)
	return visible.ShellCommand("mv", own, own+"-damaged") + "; " + visible.ShellCommand(words...)
}

// about returns the error for a repository with these settings that has to be made again.
func (s Settings) about(w *mailbox.Workspace, why, err error) error {
	return &RepositoryError{Dir: w.Dir(), Remote: s.Remote, Ref: s.Ref, Err: fmt.Errorf("%w: %w", why, err)}
}

// noRepository returns the error for a workspace without a repository of its own, or nil.
func noRepository(w *mailbox.Workspace) error {
	_, err := w.Root().Lstat(gitName)
	if errors.Is(err, fs.ErrNotExist) {
		err = &RepositoryError{Dir: w.Dir(), Err: ErrNoRepository}
	}
	return err
}

// inspect returns the settings in the repository's own file. The error is a *RepositoryError if git cannot use the
// repository, or if Init did not make it. Other errors say that git could not run.
func inspect(ctx context.Context, w *mailbox.Workspace) (s Settings, err error) {
	if err := noRepository(w); err != nil {
		return s, err
	}
	own := repositoryOf(w, false)
	s, err = readSettings(ctx, own, "--file", filepath.Join(own.GitDir, "config"))
	if err == nil && s.Ref != "" {
		_, err = own.Run(ctx, "rev-parse", "--git-dir")
	}
	_, noState := w.Root().Lstat(stateFolder)
	_, noRefs := w.Root().Lstat(gitName + "/refs/oacp")
	switch {
	case err == nil && s.Ref != "", err != nil && git.Exit(err) < 0:
		return s, err
	case noState != nil && noRefs != nil:
		return s, &RepositoryError{Dir: w.Dir(), Err: errors.Join(ErrForeignRepository, err)}
	case err == nil:
		err = errors.New("its settings are gone")
	}
	return s, s.about(w, ErrDamaged, err)
}

// isOtherFormat reports whether git says that the remote has another object format.
func isOtherFormat(err error) bool {
	said := fmt.Sprint(err)
	return strings.Contains(said, "mismatched algorithms") || strings.Contains(said, "does not support this repository's hash algorithm") ||
		strings.Contains(said, "unexpected capabilities^")
}

// explain finds out whether a sync failed because git is too old or the repository is damaged.
func (r *Repository) explain(ctx context.Context, err error) error {
	remote, isRemote := errors.AsType[*RemoteError](err)
	switch exit := git.Exit(err); {
	case errors.Is(err, git.ErrSigning), errors.Is(err, ErrHook):
		return &RepositoryError{Dir: r.w.Dir(), Err: err}
	case isOtherFormat(err):
		return r.settings.about(r.w, ErrObjectFormat, err)
	case exit <= 0, errors.Is(err, syscall.ENOSPC), isRemote && !remote.Refused:
		return err
	}
	if unusable := git.Check(ctx); unusable != nil {
		return unusable
	}
	s, damage := inspect(ctx, r.w)
	if damage != nil {
		return damage
	}
	if damage = r.intact(ctx); git.Exit(damage) > 0 {
		return s.about(r.w, ErrDamaged, damage)
	}
	return err
}

// intact returns an error if git cannot read the sizes of all files of the last sync.
func (r *Repository) intact(ctx context.Context) error {
	refs, err := r.git.Refs(ctx, baseRef, trackingRef, nextRef)
	for _, commit := range slices.Compact(slices.Sorted(maps.Values(refs))) {
		if err == nil {
			_, err = r.git.Run(ctx, "ls-tree", "-r", "--long", "--full-tree", commit)
		}
	}
	return err
}

// Health looks at the repository without asking the remote, and counts the changes that the remote does not have. A
// damaged repository is an error.
func (r *Repository) Health(ctx context.Context) (unsent int, err error) {
	defer func() { err = r.explain(ctx, err) }()
	if err := r.intact(ctx); err != nil {
		return 0, err
	}
	refs, err := r.git.Refs(ctx, baseRef, trackingRef)
	if err != nil {
		return 0, err
	}
	e := r.newExchange(ctx, Options{DryRun: true})
	defer e.Close()
	e.baseID, e.tipID = refs[baseRef], refs[baseRef]
	if e.cache.Base != e.baseID && r.settings.URL != "" {
		e.tipID = refs[trackingRef] // the last push failed
	}
	e.cache = cache{}
	if err := e.open(ctx); err != nil {
		return 0, err
	}
	err = e.makePlan(ctx)
	for err == nil && len(e.copies) > 0 {
		err = nextPiece(ctx, e, e.tipID)
	}
	return e.edited, err
}
