package project

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
)

// OccupiedError says that a folder has something of another program where a workspace has its own.
type OccupiedError struct {
	// Path is that of workspace.json or of the folder agents.
	Path string
	// Others are the entries of the folder agents.
	Others []string
}

// Error names the path, and some of what is in the folder.
func (e *OccupiedError) Error() string {
	if len(e.Others) == 0 {
		return e.Path + " is of another program: it has no project_name"
	}
	return fmt.Sprintf("%s is of another program: it has %s, and no mailbox", e.Path, strings.Join(e.Others[:min(3, len(e.Others))], ", "))
}

// CheckFree returns an *OccupiedError if the folder is no workspace, and has a workspace.json or a folder
// agents with visible entries.
func CheckFree(dir string) error {
	m, err := markerIn(dir)
	if err == nil && m.ProjectName != "" {
		return nil
	}
	isOther := !errors.Is(err, fs.ErrNotExist)
	others, err := otherAgents(dir)
	switch {
	case errors.Is(err, errMailboxes):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("creating workspace %s: %w", dir, err)
	case len(others) > 0:
		return &OccupiedError{filepath.Join(dir, agentsName), others}
	case isOther:
		return &OccupiedError{Path: filepath.Join(dir, MarkerName)}
	}
	return nil
}

// errMailboxes says that a folder agents has mailboxes.
var errMailboxes = errors.New("there are mailboxes")

// otherAgents returns what else the folder agents of a folder has, or errMailboxes.
func otherAgents(dir string) (others []string, err error) {
	agents, err := durable.OpenPath(filepath.Join(dir, agentsName))
	if err != nil {
		return nil, err
	}
	names, err := agents.Names()
	for _, name := range names {
		for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox} {
			if isFolder(agents.Path(name + "/" + string(box))) {
				err = errMailboxes
			}
		}
		if !strings.HasPrefix(name, ".") {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return others, errors.Join(err, agents.Close())
}

// NestedError says that commands in the folder of a new workspace already find another one.
type NestedError struct{ Dir, Found string }

// Error names both.
func (e *NestedError) Error() string {
	return fmt.Sprintf("no workspace is made in %s: commands there use the workspace %s", e.Dir, e.Found)
}

// markerIn reads the workspace.json of a folder.
func markerIn(dir string) (m marker, err error) {
	root, err := durable.OpenRoot(dir)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return unmarshalMarker(durable.ReadFile(root, dir, MarkerName, maxFileSize))
}
