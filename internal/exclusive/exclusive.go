// Package exclusive lets one process at a time do a thing, and tells the
// others which process that is. The lock ends with the process that holds it,
// however that ends; what that process has started and left behind is ended by
// the next one that takes the lock.
package exclusive

import (
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
	// Mark is on all that the process starts in the context of its Hold.
	Mark orphans.Mark `json:"mark,omitempty"`
}

// HeldError says that another process holds the lock.
type HeldError struct {
	// Holder is nil when it cannot be told who that is.
	Holder *Holder
}

// Error names the process.
func (e *HeldError) Error() string {
	if e.Holder == nil {
		return "another process does that"
	}
	return fmt.Sprintf("process %d on %s does that since %s", e.Holder.PID, e.Holder.Host, e.Holder.Since.UTC().Format(time.RFC3339))
}

// A Lock is a place for a lock. It is two files, because some systems let
// nobody read a locked one.
type Lock struct {
	// Path is locked, and Note says who locked it. Their folder exists.
	Path string
	Note string
}

const (
	// patience is how long a lock is asked for before it counts as taken:
	// Held holds it for a moment to see whether anybody else does.
	patience = 500 * time.Millisecond
	retry    = 10 * time.Millisecond
)

// Take takes the lock until it is released or the process ends. Where another
// process holds it the error is a *HeldError, after half a second at most. If
// the process that held it before was killed, all that it had started is ended
// first.
func (l Lock) Take(ctx context.Context, now time.Time) (*Hold, error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	lock := durable.NewLock(l.Path)
	locked, err := lock.TryLockContext(limited, retry)
	switch {
	case ctx.Err() != nil && !locked:
		return nil, errors.Join(context.Cause(ctx), lock.Close())
	case !locked && (err == nil || errors.Is(err, context.DeadlineExceeded)):
		return nil, errors.Join(&HeldError{l.holder()}, lock.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("locking %s: %w", l.Path, err), lock.Close())
	}
	hold := &Hold{lock: l, held: lock, mark: orphans.NewMark()}
	if hold.Orphans, err = l.endOrphans(ctx); err == nil {
		err = l.sign(now, hold.mark)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return hold, nil
}

// endOrphans ends what the last holder left behind, if it could not release
// the lock: then its note is still there.
func (l Lock) endOrphans(ctx context.Context) ([]orphans.Process, error) {
	last := l.holder()
	if last == nil {
		return nil, nil
	}
	if host, err := os.Hostname(); err != nil || host != last.Host {
		return nil, nil // its processes are not on this machine
	}
	return orphans.End(ctx, last.Mark)
}

// Hold is a lock that this process holds.
type Hold struct {
	// Orphans are the processes that the last holder had left behind.
	Orphans []orphans.Process

	lock Lock
	held *flock.Flock
	mark orphans.Mark
}

// Context returns a context in which processes are to be started that must
// not outlive the Hold.
func (h *Hold) Context(ctx context.Context) context.Context { return orphans.WithMark(ctx, h.mark) }

// Lost reports whether the lock's file is no longer the one that this process
// has locked, so that another process may hold a lock of the same name.
func (h *Hold) Lost() (bool, error) {
	ours, err := h.held.Stat()
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", h.lock.Path, err)
	}
	named, err := os.Lstat(h.lock.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return !os.SameFile(ours, named), nil
}

// Release lets go of the lock. What was started is for the caller to end.
func (h *Hold) Release() error {
	lost, err := h.Lost()
	if err == nil && !lost {
		err = os.Remove(h.lock.Note)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // somebody cleaned up
	}
	return errors.Join(err, h.held.Unlock())
}

// Held reports whether a process holds the lock, and which if that can be
// told. A lock that nobody ever took is not held.
func (l Lock) Held() (held bool, holder *Holder, err error) {
	if _, err := os.Lstat(l.Path); errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	lock := durable.NewLock(l.Path)
	free, err := lock.TryRLock()
	switch {
	case err != nil:
		return false, nil, errors.Join(fmt.Errorf("looking at %s: %w", l.Path, err), lock.Close())
	case free:
		return false, nil, lock.Unlock()
	}
	return true, l.holder(), lock.Close()
}

// sign notes that this process holds the lock.
func (l Lock) sign(now time.Time, mark orphans.Mark) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	data, err := json.Marshal(Holder{PID: os.Getpid(), Host: host, Since: now.UTC(), Mark: mark})
	if err != nil {
		return err
	}
	return durable.Replace(l.Note, append(data, '\n'), 0o600)
}

// holder returns who took the lock last, or nil if that cannot be told.
func (l Lock) holder() *Holder {
	data, err := os.ReadFile(l.Note)
	var holder Holder
	if err != nil || json.Unmarshal(data, &holder) != nil {
		return nil
	}
	return &holder
}
