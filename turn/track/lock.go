package track

import (
	"context"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/exclusive"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Holder is the process that works an inbox.
type Holder = exclusive.Holder

// runFolder holds, for each agent, the file that is locked and one that names the process that
// locked it.
const runFolder = "state/run"

func LockOf(w *mailbox.Workspace, name schema.AgentName) exclusive.Lock {
	return exclusive.Lock{
		Open: func() (*durable.Dir, error) { return durable.OpenDir(w.Root(), w.Dir(), runFolder) },
		Name: string(name) + ".lock", Note: string(name) + ".json", What: "the inbox of " + string(name) + " is worked",
	}
}

// IsRunning reports whether a process works the inbox of an agent.
func IsRunning(w *mailbox.Workspace, name schema.AgentName) (bool, error) {
	running, _, err := LockOf(w, name).Held()
	return running, err
}

// LockInbox makes this process the one that works the inbox, until it releases the lock or dies.
func LockInbox(ctx context.Context, w *mailbox.Workspace, name schema.AgentName, now time.Time) (*exclusive.Hold, error) {
	if err := w.MakeStateFolder(runFolder); err != nil {
		return nil, err
	}
	return LockOf(w, name).Take(ctx, now)
}
