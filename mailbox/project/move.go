package project

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// ErrInTheWay says that a workspace cannot move, because something has the place of a part of it, or leads out of it.
var ErrInTheWay = errors.New("cannot move")

// Moving reports whether Move was killed: the folder has the mailboxes, and the other one still has workspace.json.
func Moving(from, to string) bool {
	return isMarker(from) && !isMarker(to) && isFolder(filepath.Join(to, schema.AgentsName)) && !isFolder(filepath.Join(from, schema.AgentsName))
}

// Move moves a workspace to a folder on the same disk: its mailboxes, its state, other files of it by their names, and
// workspace.json, in this order. Until the last one is there, commands find no workspace, so nothing is delivered to a part
// of one. If Move is killed, nothing is lost, and calling it again finishes the move. Links in the projects of the home that
// lead to the workspace follow it.
func Move(from, to, home string, others ...string) error {
	if err := durable.MakeDirs(to); err != nil {
		return err
	}
	names := append([]string{schema.AgentsName, schema.StateName}, others...)
	for _, name := range names { // before anything moves
		info, err := os.Lstat(filepath.Join(from, name))
		if err != nil {
			continue // it has moved, or there is none
		}
		if _, err := os.Lstat(filepath.Join(to, name)); err == nil {
			return fmt.Errorf("%w %s: %s is there", ErrInTheWay, filepath.Join(from, name), filepath.Join(to, name))
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%w %s: it is a link", ErrInTheWay, filepath.Join(from, name))
		}
	}
	for _, name := range names {
		if err := moveFile(from, to, name); err != nil {
			return err
		}
	}
	if err := followLinks(home, from, to); err != nil {
		return err
	}
	return moveFile(from, to, schema.MarkerName)
}

// moveFile moves a file or folder unless it has moved.
func moveFile(from, to, name string) error {
	source, target := filepath.Join(from, name), filepath.Join(to, name)
	if _, err := os.Lstat(source); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := durable.MakeDirs(filepath.Dir(target))
	if err == nil {
		err = os.Rename(source, target)
	}
	if err == nil {
		err = durable.SyncFolder(filepath.Dir(target))
	}
	if err != nil {
		return err
	}
	if filepath.Dir(source) != from {
		_ = os.Remove(filepath.Dir(source)) // it stays if anything else is in it
	}
	return durable.SyncFolder(from)
}

// followLinks replaces links in the projects of a home that lead to a folder by links to another one.
func followLinks(home, from, to string) error {
	projects := filepath.Join(home, "projects")
	entries, _ := os.ReadDir(projects) // there may be none
	for _, entry := range entries {
		link := filepath.Join(projects, entry.Name())
		if entry.Type()&fs.ModeSymlink == 0 || !sameFile(link, from) {
			continue
		}
		next := filepath.Join(projects, "."+entry.Name()+"-moving")
		_ = os.Remove(next) // of a killed process
		if err := errors.Join(os.Symlink(to, next), os.Rename(next, link)); err != nil {
			return err
		}
	}
	return nil
}

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	second, secondErr := os.Stat(b)
	return err == nil && secondErr == nil && os.SameFile(first, second)
}
