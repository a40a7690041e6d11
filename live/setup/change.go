package setup

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
)

// An Action says what happens to a file.
type Action string

// The actions.
const (
	Made      Action = "made"
	Changed   Action = "changed"
	Restored  Action = "restored" // it is as it was before the setup
	Removed   Action = "removed"
	Unchanged Action = "unchanged"
)

// A Change is what happens to one file.
type Change struct {
	Path   string `json:"path"`
	Action Action `json:"action"`
	// Parts name what oacp has in the file.
	Parts []string `json:"parts"`
	// Backup is where the file as it was before the setup is kept, or empty.
	Backup string `json:"backup,omitempty"`
	// Before and After are the file's bytes; nil means that there is no file.
	Before, After []byte `json:"-"`

	file
	real string // the path without links
	// backup keeps the file as it was before a setup, in workspace unless that is nil. original is the
	// content of the backup.
	backup    string
	workspace *mailbox.Workspace
	original  []byte
	fresh     bool // nothing of oacp was in the file
	removes   bool // the change is a removal, after which nobody needs the backup
}

const (
	// maxFile bounds the files that are read, in bytes.
	maxFile = 64 << 20
	// backups is the folder of a workspace that keeps files of the project as they were.
	backups = "state/setup"
)

// read reads a file and its backup. That of a file in the project is in the state of the workspace,
// where git does not see it; others are beside their files.
func (c *Change) read(o Options) (err error) {
	if c.real, err = realPath(c.path); err != nil {
		return err
	}
	if c.inProject {
		top, err := filepath.EvalSymlinks(o.Dir)
		if err != nil {
			return err
		}
		if below, err := filepath.Rel(top, c.real); err != nil || !filepath.IsLocal(below) {
			return fmt.Errorf("%s: %w, to %s", c.path, errOutside, c.real)
		}
	}
	if c.Before, err = readFile(c.real); err != nil {
		return err
	}
	if info, err := os.Stat(c.real); err == nil {
		c.mode = info.Mode().Perm()
	}
	if c.backup = c.real + ".before-oacp"; c.inProject && o.Workspace != nil {
		sum, name := sha256.Sum256([]byte(c.real)), filepath.Base(c.real)
		c.workspace, c.backup = o.Workspace, filepath.Join(o.Workspace.Dir(), backups, fmt.Sprintf("%s-%x", name, sum[:4]))
	}
	c.original, err = readFile(c.backup)
	return err
}

// realPath follows the links of a path, of which the last parts need not exist.
func realPath(path string) (string, error) {
	found, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s: it is a link to a file that does not exist", path)
	}
	folder, err := realPath(filepath.Dir(path))
	return filepath.Join(folder, filepath.Base(path)), err
}

// readFile reads a file, without waiting for a pipe or device. It returns nil if there is none.
func readFile(path string) ([]byte, error) {
	dir, err := durable.OpenPath(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data, err := dir.ReadFile(filepath.Base(path), maxFile)
	switch err = errors.Join(err, dir.Close()); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return append([]byte{}, data...), nil
}

// checkWritable returns an error if the file cannot be changed.
func (c *Change) checkWritable() error {
	if c.Before != nil && c.mode&0o200 == 0 {
		return errReadOnly
	}
	folder := filepath.Dir(c.real)
	info, err := os.Stat(folder)
	for ; errors.Is(err, fs.ErrNotExist); info, err = os.Stat(folder) {
		folder = filepath.Dir(folder)
	}
	if err == nil && info.Mode()&0o200 == 0 {
		return fmt.Errorf("folder %s: %w", folder, errReadOnly)
	}
	dir, err := durable.OpenPath(folder)
	if err != nil {
		return err
	}
	return errors.Join(dir.Writable(), dir.Close())
}

func (c *Change) apply() error {
	now, err := readFile(c.real)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, c.Before) || (now == nil) != (c.Before == nil) {
		return fmt.Errorf("%s: %w", c.Path, errChanged)
	}
	switch {
	case c.removes || !c.fresh:
	case c.Before == nil:
		err = c.removeBackup() // it is of another file
	default:
		err = c.writeBackup()
	}
	if err == nil {
		err = c.write()
	}
	if err == nil && c.removes {
		err = c.removeBackup()
	}
	return err
}

func (c *Change) write() error {
	folder := filepath.Dir(c.real)
	if c.Action != Removed {
		return errors.Join(os.MkdirAll(folder, 0o755), durable.Replace(c.real, c.After, c.mode))
	}
	err := os.Remove(c.real)
	if err == nil && c.folder {
		_ = os.Remove(folder) // it stays if anything is in it
	}
	return err
}

func (c *Change) writeBackup() error {
	w := c.workspace
	if w == nil {
		return durable.Replace(c.backup, c.Before, c.mode&0o600)
	}
	if err := w.MakeStateFolder(backups); err != nil {
		return err
	}
	return durable.ReplaceFile(w.Root(), w.Dir(), backups+"/"+filepath.Base(c.backup), c.Before, c.mode&0o600)
}

func (c *Change) removeBackup() error {
	if err := os.Remove(c.backup); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
