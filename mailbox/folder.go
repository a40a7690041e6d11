package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// A folder is a box of an agent.
type folder struct {
	w     *Workspace
	agent schema.AgentName
	box   Box
}

func (f folder) open() (*durable.Dir, error) {
	if _, err := schema.ParseAgentName(string(f.agent)); err != nil {
		return nil, err
	}
	if !schema.IsBox(string(f.box)) {
		return nil, fmt.Errorf("a mailbox has no folder %q", f.box)
	}
	return durable.OpenDir(f.w.root, f.w.dir, schema.BoxPath(f.agent, f.box))
}

// make is open, but makes a missing folder.
func (f folder) make() (*durable.Dir, error) {
	dir, err := f.open()
	if errors.Is(err, fs.ErrNotExist) {
		if err = f.w.MakeFolder(schema.BoxPath(f.agent, f.box)); err == nil {
			dir, err = f.open()
		}
	}
	return dir, err
}

// names lists the folder. A missing one is empty.
func (f folder) names() ([]string, error) {
	names, err := durable.ListFolder(f.w.root, f.w.dir, schema.BoxPath(f.agent, f.box))
	return names, ignoreMissing(err)
}

// check returns the check of a file in the folder, which combines those of the owner and the viewer.
func (f folder) check() func(data []byte) *HeldError {
	readers := []schema.AgentName{f.agent}
	if viewer := f.w.viewer(); viewer != "" && viewer != f.agent {
		readers = append(readers, viewer)
	}
	screens := make([]Screen, len(readers))
	for i, reader := range readers {
		screens[i] = f.w.screen(f.w, reader)
	}
	return func(data []byte) *HeldError {
		for i, reader := range readers {
			if screens[i] == nil {
				continue
			}
			if held := screens[i].Check(data, f.agent, f.box); held != nil {
				held.Agent = reader
				return held
			}
		}
		return nil
	}
}

// load reads the files with these names, and returns those for which keep returns true. It also calls keep
// for files that do not exist.
func (f folder) load(ctx context.Context, names []string, keep func(*Entry) bool) ([]Entry, error) {
	return f.loadUnless(ctx, names, func(string, []byte) bool { return false }, keep)
}

// loadUnless is load, but does not decode the files for whose names and bytes skip returns true.
func (f folder) loadUnless(
	ctx context.Context, names []string, skip func(name string, data []byte) bool, keep func(*Entry) bool,
) (entries []Entry, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	dir, err := f.open()
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	read, check := make([]Entry, len(names)), f.check()
	err = onAllCores(ctx, len(names), func(start, end int) {
		var buffer []byte
		for i := start; i < end; i++ {
			if e := f.read(dir, names[i], check, skip, &buffer); e.Name != "" && keep(&e) {
				read[i] = e
			}
		}
	})
	return slices.DeleteFunc(read, func(e Entry) bool { return e.Name == "" }), err
}

// read reads a file as a message, unless the check holds it. It reads into the buffer, which may grow. The entry of a file
// to skip has no name.
func (f folder) read(
	dir *durable.Dir, name string, check func([]byte) *HeldError, skip func(string, []byte) bool, buffer *[]byte,
) Entry {
	data, modified, err := dir.AppendFile((*buffer)[:0], name, schema.MaxFileSize)
	*buffer = data
	if err == nil && skip(name, data) {
		return Entry{}
	}
	e := Entry{Agent: f.agent, Box: f.box, Name: name, Path: dir.Path(name), Modified: modified, Err: err}
	if err == nil {
		e.Message, e.Err = decode(check, e.Path, data, modified)
	} else if info, lookErr := dir.Lstat(name); lookErr == nil && modified.IsZero() {
		e.Modified = info.ModTime()
	}
	return e
}

// onAllCores divides the numbers from 0 to n-1 into ranges and calls do for them in parallel, until
// the context is canceled; then it returns the cause.
func onAllCores(ctx context.Context, n int, do func(start, end int)) error {
	const most = 64
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for start := 0; start < n && ctx.Err() == nil; start += most {
		group.Go(func() error {
			do(start, min(start+most, n))
			return nil
		})
	}
	_ = group.Wait() // no call returns an error
	return context.Cause(ctx)
}
