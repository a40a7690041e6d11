package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
)

// lastRemovedName is the file, beside the folders of runs, with the greatest number of a run that was
// removed. A new run must not get its number: others may remember what it stood for.
const lastRemovedName = "last_removed"

// lastRemoved returns the greatest number of a run that was removed, 0 if there is none.
func lastRemoved(folder string) int {
	data, err := readFile(filepath.Join(folder, lastRemovedName), 100)
	if err != nil {
		return 0
	}
	return runNumber(strings.TrimSpace(string(data)))
}

// Remove removes the run's folder with all that it holds. NewRun does not use its number again.
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
