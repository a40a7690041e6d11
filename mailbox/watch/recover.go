package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
)

// outgoingName is the folder of copies that are not delivered yet.
const outgoingName = "state/outgoing"

// recovery completes what deliveries left behind in a workspace.
type recovery struct {
	workspace *mailbox.Workspace
	// target is whose events tell of failures.
	target *watched
	// left are the entries of state/outgoing at the last tick, and folder
	// the folder then.
	left   map[string]bool
	folder fs.FileInfo
	// next is when an incomplete delivery is tried again.
	next    time.Time
	failure string
}

// newRecoveries returns one recovery for each workspace.
func newRecoveries(targets []*watched) []*recovery {
	var recoveries []*recovery
	seen := make(map[string]bool)
	for _, t := range targets {
		if !seen[t.workspace.Dir()] {
			seen[t.workspace.Dir()] = true
			recoveries = append(recoveries, &recovery{workspace: t.workspace, target: t})
		}
	}
	return recoveries
}

// noticed reports whether something lies in state/outgoing that lay there at
// the last tick. An empty folder that has not changed is not listed.
func (r *recovery) noticed(now time.Time) bool {
	folder, err := r.workspace.Root().Stat(outgoingName)
	if err != nil {
		return false
	}
	if len(r.left) == 0 && r.folder != nil && folder.ModTime().Equal(r.folder.ModTime()) {
		return false
	}
	names, err := outgoing(r.workspace)
	r.folder = folder
	before := r.left
	r.left = make(map[string]bool, len(names))
	lasting := err != nil
	for _, name := range names {
		r.left[name] = true
		lasting = lasting || before[name]
	}
	return lasting && !now.Before(r.next)
}

// outgoing lists state/outgoing, which need not exist.
func outgoing(w *mailbox.Workspace) ([]string, error) {
	dir, err := durable.OpenDir(w.Root(), w.Dir(), outgoingName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := dir.Names()
	return names, errors.Join(err, dir.Close())
}

// recover completes deliveries, if there are any to complete, and reports a
// failure once.
func (w *Watcher) recover(ctx context.Context, r *recovery) {
	r.next = time.Now().Add(recoverEvery)
	names, err := outgoing(r.workspace)
	if err == nil && len(names) > 0 {
		_, err = r.workspace.Recover(ctx)
	}
	text := ""
	if err != nil && ctx.Err() == nil {
		text = err.Error()
	}
	if text != "" && text != r.failure {
		w.fail(r.target, fmt.Errorf("completing deliveries: %w", err))
	}
	r.failure = text
}

// isGone returns an error when the workspace's folder was removed or
// replaced: then nothing that is open leads to it any more.
func (r *recovery) isGone() error {
	there, err := os.Stat(r.workspace.Dir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // it cannot be told now
	}
	held, heldErr := r.workspace.Root().Stat(".")
	if err == nil && (heldErr != nil || os.SameFile(there, held)) {
		return nil
	}
	return fmt.Errorf("%w: %s was removed or replaced", mailbox.ErrNoWorkspace, r.workspace.Dir())
}
