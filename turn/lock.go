package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Holder is the process that works an inbox.
type Holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// BusyError says that another Runner works the inbox.
type BusyError struct {
	Agent schema.AgentName
	// Holder is nil when it cannot be told who that is.
	Holder *Holder
}

// Error names the agent and the process.
func (e *BusyError) Error() string {
	if e.Holder == nil {
		return fmt.Sprintf("the inbox of %s is worked by another process", e.Agent)
	}
	return fmt.Sprintf("the inbox of %s is worked by process %d on %s since %s",
		e.Agent, e.Holder.PID, e.Holder.Host, e.Holder.Since.UTC().Format(time.RFC3339))
}

const (
	// lockPatience is how long a lock is asked for before it counts as taken:
	// Status holds it for a moment to see whether anybody else does.
	lockPatience = 500 * time.Millisecond
	lockRetry    = 10 * time.Millisecond
)

// runFolder holds, for each agent, the file that is locked and one that says
// who locked it. They are two because some systems let nobody read a locked
// file.
const runFolder = "state/run"

func lockPath(w *mailbox.Workspace, name schema.AgentName) string {
	return filepath.Join(w.Dir(), runFolder, string(name)+".lock")
}

func holderPath(w *mailbox.Workspace, name schema.AgentName) string {
	return filepath.Join(w.Dir(), runFolder, string(name)+".json")
}

// takeLock makes this process the one that works the inbox, until it releases
// the lock or dies.
func takeLock(ctx context.Context, w *mailbox.Workspace, name schema.AgentName, now time.Time) (release func() error, err error) {
	path := lockPath(w, name)
	if err := w.MakeStateFolder(runFolder); err != nil {
		return nil, err
	}
	patience, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	lock := durable.NewLock(path)
	locked, err := lock.TryLockContext(patience, lockRetry)
	switch {
	case ctx.Err() != nil:
		return nil, errors.Join(context.Cause(ctx), lock.Close())
	case !locked && (err == nil || errors.Is(err, context.DeadlineExceeded)):
		return nil, errors.Join(&BusyError{Agent: name, Holder: readHolder(w, name)}, lock.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), lock.Close())
	}
	if err := writeHolder(w, name, now); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return lock.Unlock, nil
}

func writeHolder(w *mailbox.Workspace, name schema.AgentName, now time.Time) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	data, err := json.Marshal(Holder{PID: os.Getpid(), Host: host, Since: now.UTC()})
	if err != nil {
		return err
	}
	return os.WriteFile(holderPath(w, name), append(data, '\n'), 0o644)
}

// readHolder returns who took the lock last, or nil if that cannot be told.
func readHolder(w *mailbox.Workspace, name schema.AgentName) *Holder {
	data, err := os.ReadFile(holderPath(w, name))
	var holder Holder
	if err != nil || json.Unmarshal(data, &holder) != nil {
		return nil
	}
	return &holder
}

// lockHolder reports whether a process works the inbox, and who if it can be
// told.
func lockHolder(w *mailbox.Workspace, name schema.AgentName) (running bool, holder *Holder, err error) {
	path := lockPath(w, name)
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil, nil
	}
	lock := durable.NewLock(path)
	locked, err := lock.TryRLock()
	if err != nil {
		return false, nil, errors.Join(fmt.Errorf("looking at %s: %w", path, err), lock.Close())
	}
	if !locked {
		return true, readHolder(w, name), lock.Close()
	}
	return false, nil, lock.Unlock()
}
