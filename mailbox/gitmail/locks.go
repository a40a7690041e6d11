package gitmail

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
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
)

// Locks returns the locks of git in the repository, as paths below the workspace. The stale ones are too old to
// belong to a process that lives, or have a time in the future. It leaves the lock of the index, which a sync
// does not use, and those of worktrees to users who work in the repository by hand.
func Locks(w *mailbox.Workspace, now time.Time) (stale, young []string, err error) {
	err = fs.WalkDir(w.Root().FS(), gitName, func(name string, entry fs.DirEntry, err error) error {
		below := strings.TrimPrefix(name, gitName+"/")
		if err == nil && entry.IsDir() && (below == "worktrees" || path.Dir(below) == "objects" && len(path.Base(below)) == 2) {
			return fs.SkipDir // worktrees of users, and objects by the beginnings of their names
		}
		if err == nil && strings.HasSuffix(name, lockSuffix) && below != "index"+lockSuffix && entry.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil && now.Sub(info.ModTime()).Abs() >= lockAge {
				stale = append(stale, name)
			} else if err == nil {
				young = append(young, name)
			}
		}
		if errors.Is(err, fs.ErrNotExist) && name != gitName {
			return nil // its process has just removed it
		}
		return err
	})
	return stale, young, err
}

// RemoveStaleLocks removes stale locks while it holds the lock of the repository, so that no sync of this machine has
// made one of them, and returns them.
func (r *Repository) RemoveStaleLocks(ctx context.Context) (names []string, err error) {
	err = r.locked(ctx, func() (err error) {
		names, _, err = r.removeStaleLocks()
		return err
	})
	return names, err
}

func (r *Repository) removeStaleLocks() (stale, young []string, err error) {
	stale, young, err = Locks(r.w, r.now())
	for _, name := range stale {
		if removeErr := r.w.Root().Remove(name); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return stale, young, err
}

// locked calls the function while it holds the lock of the repository.
func (r *Repository) locked(ctx context.Context, do func() error) error {
	unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	err = do()
	return errors.Join(err, unlock())
}

// clearLocks waits until git has no locks in the repository, and removes those of processes that died.
// A killed sync may have left a git that is at work for a moment.
func (r *Repository) clearLocks(ctx context.Context, o Options) error {
	announced := false
	for begun := time.Now(); time.Since(begun) < 2*lockAge; { // then git says what is wrong
		_, young, err := r.removeStaleLocks()
		if len(young) == 0 || err != nil {
			return err
		}
		if !announced {
			announced = true
			defer o.announce(fmt.Sprintf("git to release %s, a lock that oacp removes when it is %v old", young[0], lockAge))()
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// mendRefs removes the refs that hold no name of an object, as a power failure leaves them, and reports whether
// there were any. The remote has what they said.
func (r *Repository) mendRefs() (mended bool) {
	root := r.w.Root()
	_ = fs.WalkDir(root.FS(), gitName+"/refs", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.HasSuffix(name, lockSuffix) {
			return nil
		}
		data, err := durable.ReadFile(root, r.w.Dir(), name, 1<<10)
		object := strings.TrimSpace(string(data))
		_, notHex := hex.DecodeString(object)
		if err == nil && (len(object) < 40 || notHex != nil) && !strings.HasPrefix(object, "ref: ") {
			mended = root.Remove(name) == nil || mended
		}
		return nil
	})
	return mended
}

// collectGarbage packs the repository if git finds that worth while, and removes what fast-import left behind. The
// caller holds the lock.
func (r *Repository) collectGarbage(ctx context.Context) error {
	const longest = 2 * time.Minute // others wait that long
	crashes, err := fs.Glob(r.w.Root().FS(), gitName+"/fast_import_crash_*")
	for _, name := range crashes {
		err = errors.Join(err, r.w.Root().Remove(name))
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	g := *r.git
	g.Config = append(slices.Clone(g.Config), "gc.auto=6700", "gc.autoDetach=false")
	// An unreachable object is a commit that lost a race.
	_, gcErr := g.Run(ctx, "gc", "--auto", "--quiet", "--prune=1.hour.ago")
	return errors.Join(err, gcErr)
}
