package project

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// ErrOccupied says that a file or folder with a name that a workspace needs belongs to another program.
var ErrOccupied = failure.New("occupied", "belongs to another program",
	"the same command with --dir makes the workspace in a folder of its own, such as .oacp, or mail with --commit")

// CheckFree returns an error matching ErrOccupied if the folder is not a workspace, but has a
// workspace.json or a folder agents with visible entries.
func CheckFree(dir string) error {
	root, err := durable.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating workspace %s: %w", dir, err)
	}
	defer root.Close() // nothing is written
	m, err := readMarker(root, dir)
	if err == nil && m.ProjectName != "" {
		return nil
	}
	names, listErr := durable.ListFolder(root, dir, schema.AgentsName)
	if listErr != nil && !errors.Is(listErr, fs.ErrNotExist) {
		return fmt.Errorf("creating workspace %s: %w", dir, listErr)
	}
	agents := filepath.Join(dir, schema.AgentsName)
	isMailbox := func(name string) bool {
		return isFolder(filepath.Join(agents, name, string(mailbox.Inbox))) || isFolder(filepath.Join(agents, name, string(mailbox.Outbox)))
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, ".") })
	slices.Sort(names)
	switch {
	case slices.ContainsFunc(names, isMailbox):
		return nil
	case len(names) > 0:
		return fmt.Errorf("%s %w: it has %s, and no mailbox", agents, ErrOccupied, strings.Join(names[:min(3, len(names))], ", "))
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s %w: it has no project_name", filepath.Join(dir, schema.MarkerName), ErrOccupied)
	}
	return nil
}
