package setup

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
)

// backups is the folder of a workspace that keeps files of the project as they were.
const backups = "state/setup"

// A backup is a copy of a file as it was before a setup.
type backup struct {
	path string
	// workspace holds the copy, if it is not nil.
	workspace *mailbox.Workspace
}

// backupOf returns the backup of a file. That of a file in the project is in the state of the
// workspace, where git does not see it; others are beside their files.
func (o Options) backupOf(f file, c *Change) *backup {
	if !f.inProject || o.Workspace == nil {
		return &backup{path: c.real + ".before-oacp"}
	}
	sum := sha256.Sum256([]byte(c.real))
	name := fmt.Sprintf("%s-%x", filepath.Base(c.real), sum[:4])
	return &backup{filepath.Join(o.Workspace.Dir(), backups, name), o.Workspace}
}

// read returns the copy, or nil if there is none.
func (b *backup) read() ([]byte, error) {
	data, err := readFile(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

func (b *backup) exists() bool {
	_, err := os.Lstat(b.path)
	return err == nil
}

// write writes the copy, or removes an old one if there is nothing to copy.
func (b *backup) write(data []byte, mode fs.FileMode) error {
	if data == nil {
		return b.remove()
	}
	if w := b.workspace; w != nil {
		if err := w.MakeStateFolder(backups); err != nil {
			return err
		}
		return durable.ReplaceFile(w.Root(), w.Dir(), backups+"/"+filepath.Base(b.path), data, mode&0o600)
	}
	return durable.Replace(b.path, data, mode&0o600)
}

func (b *backup) remove() error {
	if err := os.Remove(b.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
