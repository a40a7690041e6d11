package contract

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// CheckDraft returns a *validate.InvalidError if the body of a message does not fit the schemas of
// the workspace, and a *SchemaError if one of them cannot be applied. Root and dir are the workspace
// and its path. CheckDraft calls program, which returns the path of oacp-contract, only if there are
// schemas for the message. Source says which file the body is from.
func CheckDraft(ctx context.Context, root *os.Root, dir string, program func() string, draft *schema.Message, source validate.Source) error {
	wanted := namesFor(draft)
	schemas, err := Load(root, dir, func(name string) bool { return slices.Contains(wanted, name) })
	if err == nil {
		err = schemas.Err()
	}
	if err != nil || len(schemas.Names) == 0 {
		return err
	}
	checker, err := NewChecker(ctx, program(), schemas)
	if err != nil {
		return err
	}
	defer checker.Close()
	if err := schemas.Err(); err != nil {
		return err
	}
	objections, err := checker.Check(ctx, draft)
	if err != nil {
		return err
	}
	return validate.Objections(draft, source, objections).Err()
}

// CheckSchemas returns the names of a workspace's schemas that can be applied. It also returns a
// *SchemaError if others cannot, ErrNotInstalled, or an error that wraps ErrNoAnswer.
func CheckSchemas(ctx context.Context, root *os.Root, dir, program string) ([]string, error) {
	schemas, err := Load(root, dir, nil)
	if err != nil {
		return nil, err
	}
	checker, err := NewChecker(ctx, program, schemas)
	if err != nil {
		return nil, err
	}
	checker.Close()
	return schemas.Names, schemas.Err()
}

// Workspaces checks message files by the schemas of the workspaces that they are in. It starts one
// program for each workspace that has schemas. Any number of goroutines may use it.
type Workspaces struct {
	// Program returns the path of oacp-contract, or nothing if it is not installed.
	Program func() string

	mu sync.Mutex
	// folders holds the workspace of each folder that files were in, nil if there is none. Without it, validating
	// 20,000 files of one folder takes twice as long.
	folders    map[string]*workspace
	workspaces map[string]*workspace
}

// A workspace has schemas, or err says why they cannot be read.
type workspace struct {
	schemas *Schemas
	// names are the names of those that could be read. NewChecker removes some from schemas.
	names []string
	err   error

	// start starts the checker, when the first file needs it, or sets startErr.
	start    sync.Once
	checker  *Checker
	startErr error
}

// CheckOf returns a function that checks the body of a message in a file against the schemas of its
// workspace, or nil if there are none for it. It is meant for validate.FilesOptions.
func (w *Workspaces) CheckOf(file string, m *schema.Message) func(context.Context) ([]validate.Objection, error) {
	at := w.of(file)
	if at == nil {
		return nil
	}
	isFor := func(name string) bool { return slices.Contains(at.names, name) }
	if at.err == nil && !slices.ContainsFunc(namesFor(m), isFor) {
		return nil
	}
	return func(ctx context.Context) ([]validate.Objection, error) {
		at.start.Do(func() {
			if at.startErr = at.err; at.startErr == nil {
				at.checker, at.startErr = NewChecker(ctx, w.Program(), at.schemas)
			}
		})
		if at.startErr != nil {
			return nil, at.startErr
		}
		return at.checker.Check(ctx, m)
	}
}

// of returns the workspace that a file is in, or nil if there is none.
func (w *Workspaces) of(file string) *workspace {
	folder := filepath.Dir(file)
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, known := w.folders[folder]; known {
		return at
	}
	if w.folders == nil {
		w.folders, w.workspaces = make(map[string]*workspace), make(map[string]*workspace)
	}
	dir := workspaceOf(file)
	at := w.workspaces[dir]
	if at == nil && dir != "" {
		at = loadWorkspace(dir)
		w.workspaces[dir] = at
	}
	w.folders[folder] = at
	return at
}

func loadWorkspace(dir string) *workspace {
	root, err := durable.OpenRoot(dir)
	if err != nil {
		return &workspace{err: err}
	}
	schemas, err := Load(root, dir, nil)
	return &workspace{schemas: schemas, names: schemas.Names, err: errors.Join(err, root.Close())}
}

// workspaceOf returns the path of the workspace that a file is in, or nothing: that of its mailbox, or the
// nearest one above the file.
func workspaceOf(file string) string {
	if at, ok := schema.Locate(filepath.ToSlash(file)); ok {
		return filepath.Clean(filepath.FromSlash(at.Workspace))
	}
	folder, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return ""
	}
	for {
		if info, err := os.Stat(filepath.Join(folder, schema.AgentsName)); err == nil && info.IsDir() {
			return folder
		}
		above := filepath.Dir(folder)
		if above == folder {
			return ""
		}
		folder = above
	}
}

// Problems returns the schemas that could not be applied, as files with problems, in the order of
// their names.
func (w *Workspaces) Problems() []validate.File {
	w.mu.Lock()
	defer w.mu.Unlock()
	var files []validate.File
	for _, dir := range slices.Sorted(maps.Keys(w.workspaces)) {
		at := w.workspaces[dir]
		if at.err != nil {
			continue
		}
		problems := at.schemas.Problems
		for _, name := range slices.Sorted(maps.Keys(problems)) {
			files = append(files, validate.File{Name: problems[name][0].File, Diagnostics: problems[name]})
		}
	}
	return files
}

// Close ends the programs.
func (w *Workspaces) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.workspaces {
		if at.checker != nil {
			at.checker.Close()
		}
	}
}
