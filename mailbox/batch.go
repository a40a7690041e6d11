package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// lockRetry is how often a lock is tried again. A delivery holds it for about a
// millisecond, so a longer pause would be most of the wait.
const lockRetry = 2 * time.Millisecond

// A batch delivers parcels together. It keeps the folders it needs open.
type batch struct {
	w        *Workspace
	options  *SendOptions
	outgoing *durable.Dir
	boxes    map[string]*durable.Dir
	lock     *flock.Flock
	// claimed are the short names, and started the ids, of this round.
	claimed map[string]bool
	started map[schema.ID]bool
	// unready is why the names of the staged copies of this round may not be
	// durable.
	unready error
	// unsynced is why the outboxes of this round may not be durable.
	unsynced error
}

func (w *Workspace) openBatch(options *SendOptions) (*batch, error) {
	outgoing, err := durable.OpenDir(w.root, w.dir, outgoingName)
	if errors.Is(err, fs.ErrNotExist) {
		if err := w.makeState(); err != nil {
			return nil, err
		}
		outgoing, err = durable.OpenDir(w.root, w.dir, outgoingName)
	}
	if err != nil {
		return nil, err
	}
	return &batch{w: w, options: options, outgoing: outgoing, boxes: make(map[string]*durable.Dir)}, nil
}

func (b *batch) close() error {
	err := b.outgoing.Close()
	for _, dir := range b.boxes {
		err = errors.Join(err, dir.Close())
	}
	if b.lock != nil {
		err = errors.Join(err, b.lock.Unlock())
	}
	return err
}

// lockIfGiven takes the workspace's lock when a message came with its id:
// several processes may deliver the very same one, and the lock makes what
// they find staged under that id the leftovers of a dead one.
func (b *batch) lockIfGiven(ctx context.Context, parcels []*parcel) error {
	if !slices.ContainsFunc(parcels, (*parcel).given) {
		return nil
	}
	b.lock = b.newLock()
	if _, err := b.lock.TryLockContext(ctx, lockRetry); err != nil {
		return fmt.Errorf("locking %s: %w", b.lock.Path(), err)
	}
	return nil
}

// tryLock takes the workspace's lock, for as long as the batch lasts, unless
// somebody else has it.
func (b *batch) tryLock() (bool, error) {
	if b.lock != nil {
		return true, nil
	}
	lock := b.newLock()
	locked, err := lock.TryLock()
	if err != nil {
		return false, fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	if locked {
		b.lock = lock
	}
	return locked, nil
}

func (b *batch) newLock() *flock.Flock {
	return durable.NewLock(b.outgoing.Path("../deliver.lock"))
}

// box opens a mailbox folder once per batch and checks that it can be
// written to, so that most refusals come before anything is staged.
func (b *batch) box(agent schema.AgentName, box Box) (*durable.Dir, error) {
	name := BoxName(agent, box)
	if dir, ok := b.boxes[name]; ok {
		return dir, dir.Writable()
	}
	dir, err := b.w.makeBox(agent, box)
	if err != nil {
		return nil, err
	}
	b.boxes[name] = dir
	return dir, dir.Writable()
}
