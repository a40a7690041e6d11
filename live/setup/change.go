package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/live"
)

// An Action is what a plan does to a file.
type Action string

// The actions.
const (
	Made      Action = "made"
	Changed   Action = "changed"
	Removed   Action = "removed"
	Unchanged Action = "unchanged"
)

// A Change is what a plan does to one file.
type Change struct {
	Path   string `json:"path"`
	Action Action `json:"action"`
	// Parts name what oacp writes into the file or removes from it.
	Parts []string `json:"parts"`
	// Before and After are the file's bytes; nil means that there is no file.
	Before, After []byte `json:"-"`

	file
	real string // the path without links
}

// maxFile is the size of the largest file that setup reads, in bytes.
const maxFile = 64 << 20

// prepare reads the file, and applies the change to each of its parts.
func (c *Change) prepare(o Options, change func(part, []byte) ([]byte, error)) (err error) {
	if c.real, err = realPath(c.path); err != nil {
		return err
	}
	if c.inProject {
		top, err := filepath.EvalSymlinks(o.Dir)
		if err != nil {
			return err
		}
		if below, err := filepath.Rel(top, c.real); err != nil || !filepath.IsLocal(below) {
			return fmt.Errorf("%w, to %s", errOutside, c.real)
		}
	}
	if c.Before, err = readFile(c.real); err != nil {
		return err
	}
	c.After = c.Before
	for _, p := range c.parts {
		c.Parts = append(c.Parts, p.name())
		if c.After, err = change(p, c.After); err != nil {
			return err
		}
	}
	info, statErr := os.Stat(c.real)
	switch {
	case bytes.Equal(c.Before, c.After):
		c.Action = Unchanged
	case c.Before == nil:
		c.Action = Made
	case statErr != nil:
		return statErr
	case info.Mode()&0o200 == 0:
		return errReadOnly
	case c.After == nil:
		c.Action = Removed
	default:
		c.Action, c.mode = Changed, info.Mode().Perm()
	}
	return nil
}

// isOurs reports whether the file will have nothing but its parts and those of the setups of other programs.
func (c *Change) isOurs() bool {
	left := c.After
	for _, p := range c.parts {
		left, _ = p.take(left) // it was changed without an error
	}
	for _, program := range live.Programs() {
		left, _ = section{program}.take(left)
	}
	return c.After != nil && left == nil
}

// realPath resolves the links of a path whose last elements need not exist.
func realPath(path string) (string, error) {
	found, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", errors.New("it is a link to a file that does not exist")
	}
	folder, err := realPath(filepath.Dir(path))
	return filepath.Join(folder, filepath.Base(path)), err
}

// readFile reads a file. It returns nil if the file does not exist.
func readFile(path string) ([]byte, error) {
	data, err := durable.ReadPath(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// apply changes the file, unless it is no longer as prepare read it.
func (c *Change) apply() error {
	now, err := readFile(c.real)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, c.Before) || (now == nil) != (c.Before == nil) {
		return fmt.Errorf("%s: %w", c.Path, errChanged)
	}
	folder := filepath.Dir(c.real)
	if c.Action != Removed {
		return errors.Join(os.MkdirAll(folder, 0o755), durable.Replace(c.real, c.After, c.mode))
	}
	err = os.Remove(c.real)
	if err == nil && c.folder {
		_ = os.Remove(folder) // it stays if anything is in it
	}
	return err
}
