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

// runFolder holds, for each agent, the file that is locked and one that says
// who locked it.
const runFolder = "state/run"

func lockOf(w *mailbox.Workspace, name schema.AgentName) exclusive.Lock {
	path := filepath.Join(w.Dir(), runFolder, string(name))
	return exclusive.Lock{Path: path + ".lock", Note: path + ".json"}
}

// takeLock makes this process the one that works the inbox, until it releases
// the lock or dies.
func takeLock(ctx context.Context, w *mailbox.Workspace, name schema.AgentName, now time.Time) (release func() error, err error) {
	if err := w.MakeStateFolder(runFolder); err != nil {
		return nil, err
	}
	hold, err := lockOf(w, name).Take(ctx, now)
	var held *exclusive.HeldError
	if errors.As(err, &held) {
		return nil, &BusyError{Agent: name, Holder: held.Holder}
	}
	if err != nil {
		return nil, err
	}
	return hold.Release, nil
}

// lockHolder reports whether a process works the inbox, and who if it can be
// told.
func lockHolder(w *mailbox.Workspace, name schema.AgentName) (running bool, holder *Holder, err error) {
	return lockOf(w, name).Held()
}
