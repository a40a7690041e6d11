package gitmail

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
)

const (
	// looseLimit is how many loose objects there may be in one of their 256 folders, and packLimit how
	// many packs, before a repository is packed. Both are what git gc --auto takes.
	looseLimit = 27
	packLimit  = 50
	// looseFolder is the folder that is counted.
	looseFolder = "objects/17"
	packFolder  = "objects/pack"
	// collectTime bounds how long a collection may keep others from syncing, and collectPause how soon
	// after one the next may follow.
	collectTime  = 2 * time.Minute
	collectPause = time.Hour
	// pruneAge is the age at which git removes an unreachable object, such as a commit that lost a race.
	pruneAge = "1.hour.ago"
	// collectedName is the file whose time is that of the last collection. It is in stateFolder.
	collectedName = "collected"
	// crashPrefix begins the names of the files that fast-import leaves behind when it fails.
	crashPrefix = "fast_import_crash_"
)

// collectGarbage packs the repository if it has many loose objects or packs, and removes what
// fast-import left behind. The caller holds the lock. A sync need not fail after an error: another one
// tries again an hour later.
func (r *Repository) collectGarbage(ctx context.Context) error {
	root, dir := r.w.Root(), r.w.Dir()
	names, err := durable.ListFolder(root, dir, gitName)
	for _, name := range names {
		if strings.HasPrefix(name, crashPrefix) {
			err = errors.Join(err, root.Remove(gitName+"/"+name))
		}
	}
	if err != nil || !r.worthCollecting() {
		return err
	}
	stamp := stateFolder + "/" + collectedName
	if last, err := root.Lstat(stamp); err == nil && r.now().Sub(last.ModTime()).Abs() < collectPause {
		return nil
	}
	if err := r.w.MakeStateFolder(stateFolder); err != nil {
		return err
	}
	if err := durable.ReplaceFile(root, dir, stamp, nil, 0o644); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, collectTime)
	defer cancel()
	g := *r.git
	g.Config = append(slices.Clone(g.Config), "gc.auto=6700", "gc.autoPackLimit=50", "gc.autoDetach=false")
	// With --auto, git packs only the loose objects, unless there are many packs: in a large repository,
	// that takes a second instead of a minute.
	_, err = g.Run(ctx, "gc", "--auto", "--quiet", "--prune="+pruneAge)
	return err
}

// worthCollecting reports whether the repository has many loose objects or packs. It starts no
// process: objects have random names, so one folder tells how many there are in all.
func (r *Repository) worthCollecting() bool {
	loose, _ := durable.ListFolder(r.w.Root(), r.w.Dir(), gitName+"/"+looseFolder) // it may be missing
	if len(loose) > looseLimit {
		return true
	}
	files, _ := durable.ListFolder(r.w.Root(), r.w.Dir(), gitName+"/"+packFolder)
	packs := 0
	for _, name := range files {
		if strings.HasSuffix(name, ".pack") {
			packs++
		}
	}
	return packs > packLimit
}
