package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/exclusive"
	"github.com/oacp-go/oacp/internal/staging"
	"github.com/oacp-go/oacp/schema"
)

// lockRetry is the pause between attempts to take the lock, which a delivery holds for about a
// millisecond.
const lockRetry = 2 * time.Millisecond

// A process is dead if nobody holds the claim on its copies. Claims of other machines, and of processes that see the
// workspace through another mount, are not visible here. Then the age of the copies decides.
const (
	// staleAfter is the age at which unsent copies count as those of a dead process.
	staleAfter = time.Hour
	// strangerAfter is that age for sent copies, which a living process publishes within milliseconds. It also counts
	// if the clock was set back: any process may publish a sent copy.
	strangerAfter = time.Minute
)

// batch holds the folders that a delivery or recovery needs open, and the workspace's lock if it is
// needed.
type batch struct {
	w        *Workspace
	options  *SendOptions
	outgoing *durable.Dir
	// origin is that of this process.
	origin string
	boxes  map[folder]*durable.Dir
	lock   *flock.Flock
	opened time.Time
	// claimed are the short names that this batch uses.
	claimed map[string]bool
	// synced has the outboxes that were synced after the last change, with the error.
	synced map[*durable.Dir]error
	// left are the staged copies of other processes, as findLeftovers listed them.
	left map[schema.ID]*leftovers
}

func openBatch(w *Workspace, options *SendOptions) (*batch, error) {
	outgoing, err := durable.OpenDir(w.root, w.dir, outgoingName)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeState(w); err != nil {
			return nil, err
		}
		outgoing, err = durable.OpenDir(w.root, w.dir, outgoingName)
	}
	if err != nil {
		return nil, err
	}
	b := &batch{
		w: w, options: cmp.Or(options, &SendOptions{}), outgoing: outgoing, opened: w.now(),
		boxes: make(map[folder]*durable.Dir), claimed: make(map[string]bool), synced: make(map[*durable.Dir]error),
	}
	if b.origin, err = w.files.Origin(outgoing); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *batch) close() error {
	err := errors.Join(b.outgoing.Close(), b.closeBoxes())
	if b.lock != nil {
		err = errors.Join(err, b.lock.Unlock())
	}
	return err
}

func (b *batch) closeBoxes() (err error) {
	for _, dir := range b.boxes {
		err = errors.Join(err, dir.Close())
	}
	return err
}

// takeLock takes the workspace's lock until the batch is closed, if try gets it.
func (b *batch) takeLock(try func(*flock.Flock) (bool, error)) (bool, error) {
	state, err := durable.OpenDir(b.w.root, b.w.dir, schema.StateName)
	if err != nil {
		return false, err
	}
	lock, err := state.NewLock("deliver.lock")
	locked := false
	if err == nil {
		locked, err = try(lock)
	}
	if err = errors.Join(err, state.Close()); err != nil {
		return false, fmt.Errorf("locking %s: %w", state.Path("deliver.lock"), err)
	}
	if locked {
		b.lock = lock
	}
	return locked, nil
}

func (b *batch) waitForLock(ctx context.Context) error {
	_, err := b.takeLock(func(lock *flock.Flock) (bool, error) {
		if b.options.Impatient {
			return true, exclusive.TakeBriefly(lock)
		}
		return lock.TryLockContext(ctx, lockRetry)
	})
	return err
}

// open opens a box until the batch is closed, and makes a missing one.
func (b *batch) open(agent schema.AgentName, box Box) (*durable.Dir, error) {
	return b.openBox(folder{b.w, agent, box}, folder.make)
}

func (b *batch) openBox(in folder, open func(folder) (*durable.Dir, error)) (*durable.Dir, error) {
	if dir, ok := b.boxes[in]; ok {
		return dir, nil
	}
	dir, err := open(in)
	if err == nil {
		b.boxes[in] = dir
	}
	return dir, err
}

// isDead reports whether the process that staged a copy is dead: nobody holds the claim on the copy or, if claims are
// not visible, the copy has the age.
func (b *batch) isDead(name staging.Name, age time.Duration) (bool, error) {
	info, err := b.outgoing.Lstat(name.Entry())
	if err != nil || name.Origin != b.origin {
		return err == nil && b.isOld(info, age), ignoreMissing(err)
	}
	if info.Size() == 0 {
		return b.isOld(info, strangerAfter), nil // its process may be about to claim it
	}
	claimed, err := b.outgoing.Claimed(name.Entry())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return b.isOld(info, age), nil
	}
	return err == nil && !claimed, nil
}

func (b *batch) isOld(info fs.FileInfo, age time.Duration) bool {
	since := b.w.now().Sub(info.ModTime())
	return since >= age || age == strangerAfter && since <= -age
}

// isStale reports whether unsent copies belong to a dead process. If they do, the batch holds the
// lock: otherwise a message with a given id could be staged again under the same names at this
// moment, and its new copies would be taken for the old ones.
func (b *batch) isStale(name staging.Name) (bool, error) {
	for {
		dead, err := b.isDead(name, staleAfter)
		if !dead || err != nil || b.lock != nil {
			return dead, err
		}
		if locked, err := b.takeLock((*flock.Flock).TryLock); !locked {
			return false, err
		}
	}
}
