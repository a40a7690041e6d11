package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// Entry is a message file in a mailbox.
type Entry struct {
	// Agent and Box say which folder the file is in.
	Agent schema.AgentName
	Box   Box
	// Name is the file's name, and Path its path.
	Name string
	Path string
	// Message is valid if Err is nil. Otherwise it is what could be read, or nil, and Err is a
	// *validate.InvalidError, a *HeldError, or an error of the file system.
	Message *schema.Message
	Err     error
	// Modified is when the file was last written, or a broken link was made.
	Modified time.Time
}

// Inbox returns the pending messages of the agent, in processing order, without their bodies. Files
// that are not valid messages come last. A missing inbox is empty.
func (w *Workspace) Inbox(ctx context.Context, agent schema.AgentName) ([]Entry, error) {
	entries, err := w.load(ctx, agent, Inbox, nil, schema.IsMessageFile, func(e *Entry) bool {
		if e.Message != nil {
			e.Message.Body = schema.Value{}
		}
		return true
	})
	return InOrder(entries), err
}

// List is Inbox for any box, with the bodies.
func (w *Workspace) List(ctx context.Context, agent schema.AgentName, box Box) ([]Entry, error) {
	entries, err := w.load(ctx, agent, box, nil, schema.IsMessageFile, func(*Entry) bool { return true })
	return InOrder(entries), err
}

// ListNamed returns the entries of a box whose file names are wanted and which keep returns true for,
// in no order. Keep may change an entry's message. Calls of keep may be concurrent.
func (w *Workspace) ListNamed(ctx context.Context, agent schema.AgentName, box Box, want func(name string) bool, keep func(*Entry) bool) ([]Entry, error) {
	wantMessage := func(name string) bool { return schema.IsMessageFile(name) && want(name) }
	return w.load(ctx, agent, box, nil, wantMessage, keep)
}

// InOrder returns the entries in the order in which pending messages are processed.
// Files that are not valid messages come last.
func InOrder(entries []Entry) []Entry {
	// Sorting keys is faster than sorting the entries, which are large.
	type key struct {
		class int
		age   schema.Age
		entry *Entry
	}
	keys := make([]key, len(entries))
	for i := range entries {
		keys[i] = key{class: math.MaxInt, entry: &entries[i]}
		if m := entries[i].Message; m != nil {
			keys[i].age = m.Age()
			if entries[i].Err == nil {
				keys[i].class = m.Class()
			}
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if c := cmp.Compare(a.class, b.class); c != 0 {
			return c
		}
		if c := a.age.Compare(&b.age); c != 0 {
			return c
		}
		return strings.Compare(a.entry.Name, b.entry.Name)
	})
	result := make([]Entry, len(entries))
	for i, k := range keys {
		result[i] = *k.entry
	}
	return result
}

// load reads the files of a box whose names and contents are wanted, in no order: those with the given
// names or, without names, all. It leaves out files that vanish while it reads: another process has
// handled them.
func (w *Workspace) load(ctx context.Context, agent schema.AgentName, box Box, names []string, wantName func(string) bool,
	want func(*Entry) bool) (entries []Entry, err error) {
	if err := w.CheckAgent(agent); err != nil {
		return nil, err
	}
	dir, err := w.openBox(agent, box)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if names == nil {
		names, err = dir.Names()
	} else {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			_, err := dir.Lstat(name)
			return strings.ContainsAny(name, `/\`) || errors.Is(err, fs.ErrNotExist)
		})
	}
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !wantName(name) })
	read, check := make([]Entry, len(names)), w.checkOf(agent, box)
	err = onAllCores(ctx, len(names), func(start, end int) {
		var buffer []byte
		for i := start; i < end; i++ {
			e := readEntry(dir, agent, box, names[i], check, &buffer)
			if !errors.Is(e.Err, fs.ErrNotExist) && want(&e) {
				read[i] = e
			}
		}
	})
	return slices.DeleteFunc(read, func(e Entry) bool { return e.Name == "" }), err
}

// readEntry reads a file as a message, unless the check holds it. It reuses the buffer, and sets it.
func readEntry(dir *durable.Dir, agent schema.AgentName, box Box, name string, check func([]byte) *HeldError, buffer *[]byte) Entry {
	e := Entry{Agent: agent, Box: box, Name: name, Path: dir.Path(name)}
	data, modified, err := dir.AppendFile((*buffer)[:0], name, schema.MaxFileSize)
	*buffer = data
	e.Modified = modified
	if err == nil {
		e.Message, e.Err = decode(check, e.Path, data)
		return e
	}
	if info, lookErr := dir.Lstat(name); lookErr == nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("reading %s: the link is broken", e.Path)
		}
		if modified.IsZero() {
			e.Modified = info.ModTime()
		}
	}
	e.Err = err
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
