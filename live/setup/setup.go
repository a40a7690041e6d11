// Package setup writes oacp into the settings of claude and codex, and takes it out again.
//
// What it writes are parts: the hooks that call oacp hook, the MCP server oacp mcp with the
// permission to use it, and a section of instructions. What others wrote into the files keeps its
// bytes. Prepare and PrepareRemoval read and check all files, and Apply writes them, so that a file
// that cannot be changed stops everything before anything has changed.
package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A Scope says for which sessions a setup is.
type Scope string

// The scopes: the sessions in one project, or all sessions of the user.
const (
	Project Scope = "project"
	User    Scope = "user"
)

// Options say what to set up.
type Options struct {
	Program live.Program
	Scope   Scope
	// Agent is the agent that the program acts for.
	Agent schema.AgentName
	// Sync is the value of --sync of the hooks: a time, true for the usual one, or empty.
	Sync string
	// Command names this program in hooks: see Command.
	Command string
	// Dir is the folder of the project: see ProjectDir.
	Dir string
	// Workspace is that of the project. It is nil for the user's scope.
	Workspace *mailbox.Workspace
	// Getenv reads the environment.
	Getenv func(string) string
}

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
	Path string
	// Parts name what oacp has in the file.
	Parts  []string
	Action Action
	// Before and After are the file's bytes; nil means that there is no file.
	Before, After []byte
	// Backup is where the file as it was before the setup is kept, or empty.
	Backup string

	real   string // the path without links
	mode   fs.FileMode
	backup *backup
	fresh  bool // nothing of oacp was in the file
	folder bool // the folder goes with the file if it is empty
}

// A Plan is what a setup or its removal does.
type Plan struct{ Changes []Change }

// IsEmpty reports whether the plan changes nothing.
func (p *Plan) IsEmpty() bool {
	for _, c := range p.Changes {
		if c.Action != Unchanged {
			return false
		}
	}
	return true
}

// Prepare returns what writing oacp into the settings changes.
func Prepare(o Options) (*Plan, error) {
	return o.plan(o.prepareFile, func(config string) []file { return o.instructions(config)[:1] })
}

// PrepareRemoval returns what taking oacp out of the settings changes.
func PrepareRemoval(o Options) (*Plan, error) {
	return o.plan(o.prepareRemoval, o.instructionsToRemove)
}

// plan prepares all files, in the folder of the program's settings and elsewhere.
func (o Options) plan(prepare func(file, *Change) error, instructions func(config string) []file) (*Plan, error) {
	config, err := o.configDir()
	if err != nil {
		return nil, explain(err)
	}
	plan := &Plan{}
	for _, f := range append(o.files(config), instructions(config)...) {
		c := Change{Path: f.path, Action: Unchanged}
		for _, p := range f.parts {
			c.Parts = append(c.Parts, p.name())
		}
		if err := o.read(f, &c); err != nil {
			return nil, explain(err)
		}
		err := prepare(f, &c)
		if err == nil && c.Action != Unchanged {
			err = c.checkWritable()
		}
		if err != nil {
			return nil, explain(fmt.Errorf("%s: %w", f.path, err))
		}
		plan.Changes = append(plan.Changes, c)
	}
	return plan, nil
}

// maxFile bounds the files that are read, in bytes.
const maxFile = 64 << 20

// read reads a file and finds its backup.
func (o Options) read(f file, c *Change) (err error) {
	if c.real, err = realPath(f.path); err != nil {
		return err
	}
	if c.mode, c.folder = f.mode, f.folder; f.inProject {
		top, err := filepath.EvalSymlinks(o.Dir)
		if err != nil {
			return err
		}
		if below, err := filepath.Rel(top, c.real); err != nil || !filepath.IsLocal(below) {
			return fmt.Errorf("%s: %w, to %s", f.path, ErrOutside, c.real)
		}
	}
	info, err := os.Stat(c.real)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s: %w", f.path, durable.ErrNotRegular)
	default:
		c.mode = info.Mode().Perm()
		if c.Before, err = readFile(c.real); err != nil {
			return err
		}
	}
	c.backup = o.backupOf(f, c)
	return nil
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

// cause strips the path that the os package adds; the callers add it.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// readFile reads a file, without waiting for a pipe or device. The result is not nil.
func readFile(path string) ([]byte, error) {
	dir, err := durable.OpenPath(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	data, err := dir.ReadFile(filepath.Base(path), maxFile)
	return append([]byte{}, data...), errors.Join(err, dir.Close())
}

func (o Options) prepareFile(f file, c *Change) error {
	after, fresh := c.Before, !holds(f.parts[0], c.Before)
	var err error
	for _, p := range f.parts {
		if after, err = p.put(after); err != nil {
			return err
		}
	}
	c.After, c.fresh = after, fresh
	switch {
	case c.Before == nil:
		c.Action = Made
	case !bytes.Equal(c.Before, c.After):
		c.Action = Changed
	}
	if c.Before != nil && c.backup.exists() || c.Action == Changed && fresh {
		c.Backup = c.backup.path
	}
	return nil
}

func (o Options) prepareRemoval(f file, c *Change) error {
	c.After = c.Before
	if c.Before == nil {
		return nil
	}
	original, err := c.backup.read()
	if err != nil {
		return err
	}
	// One that was there before the setup stays.
	ours := slices.DeleteFunc(slices.Clone(f.parts), func(p part) bool { return original != nil && holds(p, original) })
	rest, err := each(ours, part.take, c.Before)
	if err != nil || bytes.Equal(rest, c.Before) {
		return err
	}
	c.Action, c.After = Changed, rest
	if original == nil {
		if len(rest) == 0 {
			c.Action = Removed
		}
		return nil
	}
	if again, err := each(f.parts, part.put, original); err == nil {
		if again, err = each(ours, part.take, again); err == nil && bytes.Equal(again, rest) {
			c.Action, c.After = Restored, original
			return nil
		}
	}
	c.Backup = c.backup.path
	if len(rest) == 0 {
		c.After = f.empty // the file was there before
	}
	return nil
}

// each applies a method of several parts to a file.
func each(parts []part, do func(part, []byte) ([]byte, error), data []byte) ([]byte, error) {
	for _, p := range parts {
		var err error
		if data, err = do(p, data); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// holds reports whether a part is in a file.
func holds(p part, data []byte) bool {
	rest, err := p.take(data)
	return err != nil && errors.Is(err, ErrAdded) || err == nil && !bytes.Equal(rest, data)
}

// checkWritable returns an error if the file cannot be changed.
func (c *Change) checkWritable() error {
	if c.Before != nil && c.mode&0o200 == 0 {
		return ErrReadOnly
	}
	folder := filepath.Dir(c.real)
	for {
		info, err := os.Stat(folder)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			folder = filepath.Dir(folder)
			continue
		case err != nil:
			return cause(err)
		case !info.IsDir():
			return fmt.Errorf("%s is no folder", folder)
		case info.Mode()&0o200 == 0:
			return fmt.Errorf("folder %s: %w", folder, ErrReadOnly)
		}
		dir, err := durable.OpenPath(folder)
		if err != nil {
			return err
		}
		return errors.Join(dir.Writable(), dir.Close())
	}
}

// Apply changes the files. If one fails, those before it are changed, and applying a new plan changes
// the others.
func (p *Plan) Apply() error {
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Action != Unchanged {
			if err := c.apply(); err != nil {
				return explain(err)
			}
		}
	}
	return nil
}

func (c *Change) apply() error {
	now, err := readFile(c.real)
	if errors.Is(err, fs.ErrNotExist) {
		now, err = nil, nil
	}
	if err != nil {
		return err
	}
	if !bytes.Equal(now, c.Before) || (now == nil) != (c.Before == nil) {
		return fmt.Errorf("%s: %w", c.Path, ErrChanged)
	}
	switch c.Action {
	case Removed:
		if err := os.Remove(c.real); err != nil {
			return err
		}
		if c.folder {
			_ = os.Remove(filepath.Dir(c.real)) // it stays if anything is in it
		}
		return c.backup.remove()
	case Restored:
		if err := durable.Replace(c.real, c.After, c.mode); err != nil {
			return err
		}
		return c.backup.remove()
	}
	if c.fresh {
		if err := c.backup.write(c.Before, c.mode); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(c.real), 0o755); err != nil {
		return err
	}
	return durable.Replace(c.real, c.After, c.mode)
}
