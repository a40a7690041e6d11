package turn

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/internal/exclusive"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Holder is the process that works an inbox.
type Holder = exclusive.Holder

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

// ErrStateLost says that the lock or the journal of a Runner was removed or
// replaced while it worked. Then another one may work the inbox, too.
var ErrStateLost = errors.New("the state of the inbox was removed or replaced while it was worked")

// runFolder holds, for each agent, the file that is locked and one that says
// who locked it.
const runFolder = "state/run"

func lockOf(w *mailbox.Workspace, name schema.AgentName) exclusive.Lock {
	path := filepath.Join(w.Dir(), runFolder, string(name))
	return exclusive.Lock{Path: path + ".lock", Note: path + ".json"}
}

// takeLock makes this process the one that works the inbox, until it releases
// the lock or dies.
func takeLock(ctx context.Context, w *mailbox.Workspace, name schema.AgentName, now time.Time) (*exclusive.Hold, error) {
	if err := w.MakeStateFolder(runFolder); err != nil {
		return nil, err
	}
	hold, err := lockOf(w, name).Take(ctx, now)
	var held *exclusive.HeldError
	if errors.As(err, &held) {
		return nil, &BusyError{Agent: name, Holder: held.Holder}
	}
	return hold, err
}

// checkHeld returns an error matching ErrStateLost if the lock is no longer
// held by this process alone.
func (r *Runner) checkHeld() error {
	lost, err := r.hold.Lost()
	if lost {
		err = fmt.Errorf("%w: %s", ErrStateLost, lockOf(r.workspace, r.config.Agent).Path)
	}
	return err
}

// lockHolder reports whether a process works the inbox, and who if it can be
// told.
func lockHolder(w *mailbox.Workspace, name schema.AgentName) (running bool, holder *Holder, err error) {
	return lockOf(w, name).Held()
}
