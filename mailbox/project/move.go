package project

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// Moving reports whether Move was killed: the folder has the mailboxes, and the other one still has workspace.json.
func Moving(from, to string) bool {
	return isMarker(from) && !isMarker(to) && isFolder(filepath.Join(to, schema.AgentsName)) && !isFolder(filepath.Join(from, schema.AgentsName))
}

// Move moves a workspace to a folder on the same disk: its mailboxes, its state, other files of it by their names, and
// workspace.json, in this order. Until the last one is there, commands find no workspace, so nothing is delivered to a part
// of one. If Move is killed, nothing is lost, and calling it again finishes the move. Links in the projects of the home that
// lead to the workspace follow it. Move replaces nothing: if something has the place of a part, the error matches fs.ErrExist.
func Move(from, to, home string, others ...string) error {
	for _, name := range append([]string{schema.AgentsName, schema.StateName}, others...) {
		if err := moveFile(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return errors.Join(followLinks(filepath.Join(home, "projects"), from, to), moveFile(filepath.Join(from, schema.MarkerName), filepath.Join(to, schema.MarkerName)))
}

// moveFile moves a file or folder unless it has moved.
func moveFile(source, target string) error {
	from, err := durable.OpenPath(filepath.Dir(source))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer from.Close() // its names are synced
		err = durable.MakeDirs(filepath.Dir(target))
	}
	if err != nil {
		return err
	}
	to, err := durable.OpenPath(filepath.Dir(target))
	if err != nil {
		return err
	}
	defer to.Close() // its names are synced
	name := filepath.Base(source)
	if err := from.Publish(name, to, name, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(to.Sync(), from.Sync())
}

// followLinks replaces links in a folder that lead to a folder by links to another one.
func followLinks(folder, from, to string) error {
	dir, err := durable.OpenPath(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close() // links need no sync: without the new one, the old one leads nowhere
	names, err := dir.Names()
	for _, name := range names {
		info, statErr := dir.Lstat(name)
		if statErr != nil || info.Mode()&fs.ModeSymlink == 0 || !SameFolder(dir.Path(name), from) {
			continue
		}
		next := "." + name + "-moving"
		err = errors.Join(err, dir.Remove(next), os.Symlink(to, dir.Path(next)), dir.SetAside(next, name)) // one may be left of a killed process
	}
	return err
}

// SameFolder reports whether two paths lead to the same folder.
func SameFolder(a, b string) bool {
	first, err := os.Stat(a)
	second, secondErr := os.Stat(b)
	return err == nil && secondErr == nil && os.SameFile(first, second)
}
