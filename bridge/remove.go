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
	if err := r.remove(); err != nil {
		return fmt.Errorf("remove run %d: %w", r.ID, err)
	}
	return nil
}

func (r Run) remove() error {
	parent := filepath.Dir(r.Folder)
	if r.ID > lastRemoved(parent) {
		if err := durable.Replace(filepath.Join(parent, lastRemovedName), []byte(strconv.Itoa(r.ID)+"\n"), 0o600); err != nil {
			return err
		}
	}
	// A reader that lists runs does not find a half-removed run under its new name.
	doomed := filepath.Join(parent, ".removed-"+strconv.Itoa(r.ID))
	if err := os.RemoveAll(doomed); err != nil {
		return err
	}
	dir, err := durable.OpenPath(parent)
	if err != nil {
		return err
	}
	defer dir.Close() // nothing is written into it
	if err := dir.SetAside(filepath.Base(r.Folder), filepath.Base(doomed)); err != nil {
		return err
	}
	return os.RemoveAll(doomed)
}
