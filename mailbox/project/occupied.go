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
	"github.com/oacp-go/oacp/schema"
)

// ErrOccupied is returned if a folder has another program's file under a name that a workspace needs.
var ErrOccupied = errors.New("is of another program")

// CheckFree returns an error matching ErrOccupied if the folder is not a workspace, and has a
// workspace.json or a folder agents with visible entries.
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
		return fmt.Errorf("%s %w: it has %s, and no mailbox", filepath.Join(dir, schema.AgentsName), ErrOccupied, strings.Join(others[:min(3, len(others))], ", "))
	case isOther:
		return fmt.Errorf("%s %w: it has no project_name", filepath.Join(dir, schema.MarkerName), ErrOccupied)
	}
	return nil
}

// errMailboxes reports a folder agents with mailboxes.
var errMailboxes = errors.New("there are mailboxes")

// otherAgents returns the other entries of the folder agents in a folder, or errMailboxes.
func otherAgents(dir string) (others []string, err error) {
	agents, err := durable.OpenPath(filepath.Join(dir, schema.AgentsName))
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

// markerIn reads the workspace.json of a folder.
func markerIn(dir string) (m marker, err error) {
	root, err := durable.OpenRoot(dir)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return unmarshalMarker(durable.ReadFile(root, dir, schema.MarkerName, maxFileSize))
}
