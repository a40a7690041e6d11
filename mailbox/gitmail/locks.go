package gitmail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

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
// lives, as paths below the workspace.
func StaleLocks(w *mailbox.Workspace, now time.Time) (names []string, err error) {
	return locksBefore(w, now.Add(-lockAge))
}

// locksBefore returns the locks that were made before a time. It leaves the lock of the index, which a sync
// does not use, and those of worktrees to users who work in the repository by hand.
func locksBefore(w *mailbox.Workspace, before time.Time) (names []string, err error) {
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
			stale = err == nil && info.ModTime().Before(before)
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
		left, err := locksBefore(r.w, r.now().Add(lockAge))
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
