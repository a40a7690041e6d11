package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// openBox opens a folder of a mailbox. The agent's name has been checked.
func openBox(w *mailbox.Workspace, agent schema.AgentName, box mailbox.Box) (*durable.Dir, error) {
	return durable.OpenDir(w.Root(), w.Dir(), mailbox.BoxName(agent, box))
}

// readEntry reads a file of an open folder as a message.
func readEntry(dir *durable.Dir, agent schema.AgentName, box mailbox.Box, name string) mailbox.Entry {
	e := mailbox.Entry{Agent: agent, Box: box, Name: name, Path: dir.Path(name)}
	data, modified, err := dir.ReadFileTime(name, schema.MaxFileSize)
	e.Modified = modified
	if err == nil {
		e.Message, e.Err = validate.Read(data)
		return e
	}
	e.Err = err
	info, lookErr := dir.Lstat(name)
	if lookErr != nil {
		return e
	}
	if modified.IsZero() {
		e.Modified = info.ModTime()
	}
	if errors.Is(err, fs.ErrNotExist) {
		e.Err = fmt.Errorf("reading %s: it is a link that leads nowhere", e.Path)
	}
	return e
}

// eachOnAllCores calls do for 0 to n-1 until the context ends, and returns the context's cause then.
func eachOnAllCores(ctx context.Context, n int, do func(i int)) error {
	const run = 64
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for start := 0; start < n && ctx.Err() == nil; start += run {
		group.Go(func() error {
			for i := start; i < min(start+run, n); i++ {
				do(i)
			}
			return nil
		})
	}
	_ = group.Wait() // do returns no error
	return context.Cause(ctx)
}

// load reads the files of a box that want accepts, on all cores, in no order. It leaves out files that vanish meanwhile.
func load(
	ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, box mailbox.Box, want func(name string) bool,
) (entries []mailbox.Entry, err error) {
	if err := w.CheckAgent(agent); err != nil {
		return nil, err
	}
	dir, err := openBox(w, agent, box)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !want(name) })
	read := make([]mailbox.Entry, len(names))
	err = eachOnAllCores(ctx, len(names), func(i int) { read[i] = readEntry(dir, agent, box, names[i]) })
	entries = slices.DeleteFunc(read, func(e mailbox.Entry) bool { return e.Name == "" || errors.Is(e.Err, fs.ErrNotExist) })
	return entries, err
}
