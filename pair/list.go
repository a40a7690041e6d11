package pair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/oacp-go/oacp/bridge"
)

// Overview is a run as it is on disk.
type Overview struct {
	Run      bridge.Run
	Manifest Manifest
	// Driven reports whether a process drives the run.
	Driven bool
	// Err is why the run cannot be continued, nil if it can or is over. It matches the errors of
	// ReadManifest.
	Err error
}

// Resumable reports whether Resume continues the run.
func (o Overview) Resumable() bool { return o.Err == nil && !o.Driven && !o.Manifest.State.Final() }

// List returns the runs of repositories, the newest first. It leaves out runs that never began.
func List(root string, repositoryIDs ...string) ([]Overview, error) {
	runs, err := bridge.Runs(root, repositoryIDs...)
	if err != nil {
		return nil, err
	}
	var all []Overview
	for _, run := range runs {
		o := Overview{Run: run}
		// The order matters: a process that no longer drives the run writes nothing more.
		if o.Driven, err = Driven(run); err != nil {
			return nil, err
		}
		o.Manifest, o.Err = ReadManifest(run)
		if !errors.Is(o.Err, ErrNeverBegun) || o.Driven {
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b Overview) int {
		return cmp.Or(b.Manifest.CreatedAt.Compare(a.Manifest.CreatedAt), cmp.Compare(b.Run.ID, a.Run.ID))
	})
	return all, nil
}

// Removal configures Remove.
type Removal struct {
	// Worktree allows removing a worktree and branch that have changes.
	Worktree bool
	// Unfinished allows removing a run that could be continued.
	Unfinished bool
}

// Removed lists what Remove removed.
type Removed struct {
	// Folder is that of the run.
	Folder string `json:"folder"`
	// Worktree is nil if there is none.
	Worktree *Worktree `json:"worktree,omitempty"`
}

// Errors of Remove.
var (
	ErrUnfinished   = errors.New("the run is not finished and can be continued")
	ErrKeepsChanges = errors.New("the run keeps a worktree or a branch with changes")
)

// Remove removes the folder of a run. No later run gets its number. Remove returns a *BusyError if a
// process drives the run, or an error of ReadManifest.
func Remove(ctx context.Context, run bridge.Run, what Removal) (removed Removed, err error) {
	hold, err := lockOf(run).Take(ctx, time.Now())
	if err != nil {
		return removed, err
	}
	defer func() { err = errors.Join(err, hold.Release()) }()
	removed.Folder = run.Folder
	m, err := ReadManifest(run)
	if err != nil && !(what.Unfinished && (errors.Is(err, ErrNeverBegun) || errors.Is(err, ErrLogRun))) {
		return removed, err
	}
	if m.State != "" && !m.State.Final() && !what.Unfinished {
		return removed, fmt.Errorf("run %d: %w", run.ID, ErrUnfinished)
	}
	if m.WorktreePath != "" {
		removed.Worktree, err = m.worktree(ctx)
		if _, gone := os.Stat(m.RepoPath); err != nil && gone != nil {
			err = nil // without its repository, a worktree is useless
		}
		if err != nil {
			return removed, err
		}
	}
	w := removed.Worktree
	if w != nil && (w.Uncommitted || w.Committed) && !what.Worktree {
		return removed, fmt.Errorf("run %d: %w: %s", run.ID, ErrKeepsChanges, w.Branch)
	}
	if w != nil {
		if err := w.remove(ctx, m.RepoPath, true); err != nil {
			return removed, err
		}
	}
	return removed, run.Remove()
}
