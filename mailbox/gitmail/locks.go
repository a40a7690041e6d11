package gitmail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
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

// lockFolders are the folders of a repository in which git makes locks, besides refs, logs and the folders
// below them. A sync does not use the index, so it leaves the lock of the index to users who work in the
// repository by hand.
var lockFolders = [...]string{".", "reftable", "objects", "objects/info", "objects/pack"}

// StaleLocks returns the locks of git in the repository that are too old to belong to a process that
// lives, as paths below the workspace.
func StaleLocks(w *mailbox.Workspace, now time.Time) (names []string, err error) {
	return locksBefore(w, now.Add(-lockAge))
}

// locksBefore returns the locks that were made before a time.
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
		case entry.IsDir():
			return enterForLocks(name)
		case strings.HasSuffix(name, lockSuffix) && name != "index"+lockSuffix && entry.Type().IsRegular():
			stale, err = isOlder(entry, before)
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

// enterForLocks returns fs.SkipDir for a folder in which no locks are looked for.
func enterForLocks(name string) error {
	switch first, _, _ := strings.Cut(name, "/"); {
	case first == "refs", first == "logs", slices.Contains(lockFolders[:], name):
		return nil
	}
	return fs.SkipDir
}

func isOlder(entry fs.DirEntry, limit time.Time) (bool, error) {
	info, err := entry.Info()
	return err == nil && info.ModTime().Before(limit), err
}

// removeStaleLocks removes the locks that StaleLocks finds. The caller holds the lock of the
// repository, so no sync of this machine has made one of them.
func (r *Repository) removeStaleLocks(now time.Time) error {
	names, err := StaleLocks(r.w, now)
	for _, name := range names {
		if removeErr := r.w.Root().Remove(name); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return err
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
		if err := r.removeStaleLocks(r.now()); err != nil {
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
