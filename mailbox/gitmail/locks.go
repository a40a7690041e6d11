package gitmail

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/git"
)

// clearLocks waits until git has no locks in the repository, and removes those of processes that died.
// A killed sync may have left a git that is at work for a moment.
func (r *Repository) clearLocks(ctx context.Context) error {
	for begun := time.Now(); time.Since(begun) < 2*git.LockAge; { // then git says what is wrong
		_, young, err := git.RemoveStaleLocks(r.w.Root(), gitName, r.now())
		if len(young) == 0 || err != nil {
			return err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
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
