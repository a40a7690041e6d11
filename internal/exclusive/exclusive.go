// Package exclusive lets one process at a time do something, and names that process to the others.
// The lock ends with the process that holds it. The next holder ends the processes that a killed
// one left behind.
package exclusive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/orphans"
)

// Holder is the process that holds a lock.
type Holder struct {
	PID  int    `json:"pid"`
	Host string `json:"host"`
	// Since is when the process took the lock.
	Since time.Time `json:"since"`
	// Mark is on all processes that are started in the context of the Hold.
	Mark orphans.Mark `json:"mark,omitempty"`
}

// HeldError reports that another process holds the lock.
type HeldError struct {
	// What and Hint are those of the Lock.
	What, Hint string
	// Holder is nil if the process is unknown.
	Holder *Holder
}

func (e *HeldError) Error() string {
	if e.Holder == nil {
		return e.What + " by another process"
	}
	return fmt.Sprintf("%s by process %d on %s since %s",
		e.What, e.Holder.PID, e.Holder.Host, e.Holder.Since.UTC().Format(time.RFC3339))
}

func (e *HeldError) Explain() (code, hint string) { return "busy", e.Hint }

// A Lock is a place for a lock. It is two files of a folder, because some systems do not let others
// read a locked one.
type Lock struct {
	// Open opens the folder.
	Open func() (*durable.Dir, error)
	// Name is the file that is locked, and Note the one that names the holder.
	Name, Note string
	// What says what the holder does, such as "run 7 is driven", and Hint what to do about it.
	What, Hint string
}

const (
	// patience is how long Take waits for a lock: Held takes it for a moment to see whether it is
	// free.
	patience = 500 * time.Millisecond
	retry    = 10 * time.Millisecond
	// maxNote bounds the size of a note, in bytes.
	maxNote = 1 << 20
)

// Take takes the lock until it is released or the process ends. If another process holds it, Take
// returns a *HeldError after half a second at most. If the previous holder was killed, Take first
// ends the processes that it started.
func (l Lock) Take(ctx context.Context, now time.Time) (_ *Hold, err error) {
	dir, err := l.Open()
	if err != nil {
		return nil, err
	}
	lock, err := dir.NewLock(l.Name)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close(), dir.Close())
		}
	}()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	locked, err := lock.TryLockContext(limited, retry)
	switch {
	case ctx.Err() != nil && !locked:
		return nil, context.Cause(ctx)
	case !locked && (err == nil || errors.Is(err, context.DeadlineExceeded)):
		return nil, &HeldError{l.What, l.Hint, l.holder(dir)}
	case err != nil:
		return nil, fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	hold := &Hold{lock: l, dir: dir, held: lock, mark: l.owner(dir).NewMark()}
	if last := l.holder(dir); last != nil { // its note is still there: it was killed
		if hold.ended, err = l.owner(dir).End(ctx, last.Mark); err != nil {
			return nil, err
		}
	}
	return hold, l.sign(dir, now, hold.mark)
}

// TakeBriefly takes a lock that processes hold only for moments.
func TakeBriefly(lock *flock.Flock) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errors.New("another process holds it"))
	defer cancel()
	if _, err := lock.TryLockContext(ctx, retry); err != nil {
		return fmt.Errorf("locking %s: %w", lock.Path(), cmp.Or(context.Cause(ctx), err))
	}
	return nil
}

// Hold is a lock that this process holds.
type Hold struct {
	lock Lock
	dir  *durable.Dir
	held *flock.Flock
	mark orphans.Mark
	// ended are the processes that the last holder left behind, as orphans.End returns them.
	ended []string
}

// Context returns a context for starting processes that must not outlive the Hold.
func (h *Hold) Context(ctx context.Context) context.Context { return orphans.WithMark(ctx, h.mark) }

// Lost reports whether the lock's file was removed or replaced, so that another process may hold
// the lock.
func (h *Hold) Lost() (bool, error) {
	ours, err := h.held.Stat()
	if err != nil {
		return false, fmt.Errorf("checking %s: %w", h.Path(), err)
	}
	named, err := os.Lstat(h.Path()) // the folder may also have been replaced
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return !os.SameFile(ours, named), nil
}

// Path returns the path of the locked file.
func (h *Hold) Path() string { return h.dir.Path(h.lock.Name) }

// Release releases the lock. The caller ends what it started.
func (h *Hold) Release() error {
	lost, err := h.Lost()
	if err == nil && !lost {
		err = h.dir.Remove(h.lock.Note)
	}
	return errors.Join(err, h.held.Unlock(), h.dir.Close())
}

// Held reports whether a process holds the lock, and which one if that is known.
func (l Lock) Held() (held bool, holder *Holder, err error) {
	dir, err := l.Open()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if there, err := dir.Exists(l.Name); !there {
		return false, nil, err
	}
	lock, err := dir.NewLock(l.Name)
	if err != nil {
		return false, nil, err
	}
	free, err := lock.TryRLock()
	switch {
	case err != nil:
		return false, nil, errors.Join(fmt.Errorf("checking %s: %w", lock.Path(), err), lock.Close())
	case free:
		return false, nil, lock.Unlock()
	}
	return true, l.holder(dir), lock.Close()
}

// sign writes the note that this process holds the lock.
func (l Lock) sign(dir *durable.Dir, now time.Time, mark orphans.Mark) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	data, err := json.Marshal(Holder{PID: os.Getpid(), Host: host, Since: now.UTC().Truncate(time.Second), Mark: mark})
	if err != nil {
		return err
	}
	return dir.Replace(l.Note, append(data, '\n'), 0o644)
}

// owner returns the owner of the marks of holders.
func (l Lock) owner(dir *durable.Dir) orphans.Owner { return orphans.OwnerOf(dir.Path(""), l.Name) }

// holder returns the process that took the lock last, or nil if it is unknown.
func (l Lock) holder(dir *durable.Dir) *Holder {
	data, err := dir.ReadFile(l.Note, maxNote)
	var holder Holder
	if err != nil || json.Unmarshal(data, &holder) != nil || holder.PID < 1 {
		return nil
	}
	return &holder
}
