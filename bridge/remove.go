package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
)

// lastRemovedName is a file beside the folders of runs. It holds the greatest number of a removed run.
// No new run gets that number, because other programs may still refer to the removed run.
const lastRemovedName = "last_removed"

// lastRemoved returns the greatest number of a removed run, or 0 if there is none.
func lastRemoved(folder string) int {
	data, err := durable.ReadPath(filepath.Join(folder, lastRemovedName), 100)
	if err != nil {
		return 0
	}
	return runNumber(strings.TrimSpace(string(data)))
}

// Remove removes the run's folder and everything in it. NewRun does not use the number again.
func (r Run) Remove() error {
	parent := filepath.Dir(r.Folder)
	_, err := os.Lstat(r.Folder)
	if err == nil && r.ID > lastRemoved(parent) {
		err = durable.Replace(filepath.Join(parent, lastRemovedName), []byte(strconv.Itoa(r.ID)+"\n"), 0o600)
	}
	if err == nil {
		err = os.RemoveAll(r.Folder)
	}
	if err != nil {
		return fmt.Errorf("remove run %d: %w", r.ID, err)
	}
	return nil
}
