package gitmail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
)

const (
	// lockAge is the age from which a lock of git belongs to a process that died: git holds a lock for
	// milliseconds.
	lockAge = 10 * time.Second
	// lockSuffix ends the names of git's locks. No ref may have such a name.
	lockSuffix = ".lock"
	// walkLimit bounds how many entries of a repository are looked at.
	walkLimit = 200_000
)

// StaleLocks returns the locks of git in the repository that are too old to belong to a process that
// lives, or have a time in the future, as paths below the workspace.
func StaleLocks(w *mailbox.Workspace, now time.Time) (names []string, err error) {
	return locks(w, func(made time.Time) bool { return now.Sub(made).Abs() >= lockAge })
}

// locks returns the locks whose times match. It leaves the lock of the index, which a sync
// does not use, and those of worktrees to users who work in the repository by hand.
func locks(w *mailbox.Workspace, match func(made time.Time) bool) (names []string, err error) {
	root, err := w.Root().OpenRoot(gitName)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	visited := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if visited++; visited > walkLimit {
			return fs.SkipAll
		}
		stale := false
		switch {
		case err != nil:
		case entry.IsDir() && (name == "worktrees" || path.Dir(name) == "objects" && len(path.Base(name)) == 2):
			return fs.SkipDir // worktrees of users, and objects by the beginnings of their names
		case strings.HasSuffix(name, lockSuffix) && name != "index"+lockSuffix && entry.Type().IsRegular():
			var info fs.FileInfo
			info, err = entry.Info()
			stale = err == nil && match(info.ModTime())
		}
		if stale {
			names = append(names, gitName+"/"+name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // its process has just removed it
		}
		return err
	})
	return names, err
}

// removeStaleLocks removes the locks that StaleLocks finds, and returns them. The caller holds the lock of
// the repository, so no sync of this machine has made one of them.
func (r *Repository) removeStaleLocks(now time.Time) (names []string, err error) {
	names, err = StaleLocks(r.w, now)
	for _, name := range names {
		if removeErr := r.w.Root().Remove(name); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return names, err
}

// clearLocks waits until git has no locks in the repository, and removes those of processes that died.
// A killed sync may have left a git that is at work for a moment.
func (r *Repository) clearLocks(ctx context.Context, o Options) error {
	const pause = 50 * time.Millisecond
	var announced func()
	defer func() {
		if announced != nil {
			announced()
		}
	}()
	for begun := time.Now(); time.Since(begun) < 2*lockAge; {
		if _, err := r.removeStaleLocks(r.now()); err != nil {
			return err
		}
		left, err := locks(r.w, func(time.Time) bool { return true })
		if len(left) == 0 || err != nil {
			return err
		}
		if announced == nil {
			announced = o.announce(fmt.Sprintf("git to release %s, a lock that oacp removes when it is %v old", left[0], lockAge))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
	return nil // git says what is wrong
}

// mendRefs removes the refs that hold no name of an object, as a power failure leaves them, and reports whether
// there were any. The remote has what they said.
func (r *Repository) mendRefs() (mended bool) {
	root := r.w.Root()
	for _, folder := range []string{"/refs/oacp", "/refs/remotes", "/refs/heads"} {
		_ = fs.WalkDir(root.FS(), gitName+folder, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() || strings.HasSuffix(name, lockSuffix) {
				return nil
			}
			data, err := durable.ReadFile(root, r.w.Dir(), name, 1<<10)
			object := strings.TrimSpace(string(data))
			if err == nil && (len(object) < 40 || strings.Trim(object, "0123456789abcdef") != "") && !strings.HasPrefix(object, "ref: ") {
				mended = root.Remove(name) == nil || mended
			}
			return nil
		})
	}
	return mended
}
