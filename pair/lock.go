package pair

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
)

// Holder is the process that drives a run.
type Holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

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

// The lock and who holds it are two files, because some systems let nobody
// read a locked one.
const (
	lockName   = "pair.lock"
	holderName = "pair.json"
)

// takeLock makes this process the one that drives the run, until it releases
// the lock or dies.
func takeLock(run bridge.Run, now time.Time) (release func() error, err error) {
	path := filepath.Join(run.Folder, lockName)
	lock := durable.NewLock(path)
	locked, err := lock.TryLock()
	switch {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), lock.Close())
	case !locked:
		return nil, errors.Join(&BusyError{Run: run.ID, Holder: readHolder(run)}, lock.Close())
	}
	if err := writeHolder(run, now); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return lock.Unlock, nil
}

func writeHolder(run bridge.Run, now time.Time) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	data, err := json.Marshal(Holder{PID: os.Getpid(), Host: host, Since: now.UTC()})
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(run.Folder, holderName), append(data, '\n'), 0o600)
}

// readHolder returns who took the lock last, or nil if that cannot be told.
func readHolder(run bridge.Run) *Holder {
	data, err := os.ReadFile(filepath.Join(run.Folder, holderName))
	var holder Holder
	if err != nil || json.Unmarshal(data, &holder) != nil {
		return nil
	}
	return &holder
}
