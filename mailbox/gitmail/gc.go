package gitmail

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
)

// collectGarbage packs the repository if git finds that worth while, and removes what fast-import left behind. The
// caller holds the lock.
func (r *Repository) collectGarbage(ctx context.Context) error {
	const longest = 2 * time.Minute // others wait that long
	root, dir := r.w.Root(), r.w.Dir()
	names, err := durable.ListFolder(root, dir, gitName)
	for _, name := range names {
		if strings.HasPrefix(name, "fast_import_crash_") {
			err = errors.Join(err, root.Remove(gitName+"/"+name))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	g := *r.git
	g.Config = append(slices.Clone(g.Config), "gc.auto=6700", "gc.autoDetach=false")
	// An unreachable object is a commit that lost a race.
	_, gcErr := g.Run(ctx, "gc", "--auto", "--quiet", "--prune=1.hour.ago")
	return errors.Join(err, gcErr)
}
