package pair

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/exclusive"
)

// Holder is the process that drives a run.
type Holder = exclusive.Holder

// BusyError says that another process drives the run.
type BusyError struct {
	Run int
	// Holder is nil when it cannot be told who that is.
	Holder *Holder
}

// Error names the run and the process.
func (e *BusyError) Error() string {
	if e.Holder == nil {
		return fmt.Sprintf("run %d is driven by another process", e.Run)
	}
	return fmt.Sprintf("run %d is driven by process %d on %s since %s",
		e.Run, e.Holder.PID, e.Holder.Host, e.Holder.Since.UTC().Format(time.RFC3339))
}

func lockOf(run bridge.Run) exclusive.Lock {
	return exclusive.Lock{Path: filepath.Join(run.Folder, "pair.lock"), Note: filepath.Join(run.Folder, "pair.json")}
}

// takeLock makes this process the one that drives the run, until it releases
// the lock or dies. What a process that was killed has left behind is ended.
func takeLock(run bridge.Run, now time.Time) (*exclusive.Hold, error) {
	hold, err := lockOf(run).Take(context.Background(), now)
	var held *exclusive.HeldError
	if errors.As(err, &held) {
		return nil, &BusyError{Run: run.ID, Holder: held.Holder}
	}
	return hold, err
}

// Driven reports whether a process drives the run, and which if that can be
// told.
func Driven(run bridge.Run) (driven bool, holder *Holder, err error) {
	return lockOf(run).Held()
}
