package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Entry is a message file in a mailbox.
type Entry struct {
	// Agent and Box say which folder the file is in.
	Agent schema.AgentName
	Box   Box
	// Name is the file's name, and Path its path.
	Name string
	Path string
	// Message is nil when the file could not be read as one; then Err says why:
	// a *validate.InvalidError, or an error of the file system.
	Message *schema.Message
	Err     error
	// Modified is when the file was last written; of a link that cannot be
	// followed, when the link was made.
	Modified time.Time
}

// Inbox returns what waits for the agent, in processing order; bad files come
// last. A bad file never fails the listing, and a missing inbox is an empty
// one.
func (w *Workspace) Inbox(ctx context.Context, agent schema.AgentName) ([]Entry, error) {
	return w.List(ctx, agent, Inbox)
}

// List returns the messages in a folder of an agent's mailbox in processing
// order; see Inbox.
func (w *Workspace) List(ctx context.Context, agent schema.AgentName, box Box) ([]Entry, error) {
	entries, err := w.load(ctx, agent, box, schema.IsMessageFile)
	slices.SortFunc(entries, compareEntries)
	return entries, err
}

// compareEntries orders readable messages before bad files.
func compareEntries(a, b Entry) int {
	badA, badB := a.Message == nil, b.Message == nil
	switch {
	case badA && badB:
		return strings.Compare(a.Name, b.Name)
	case badA:
		return 1
	case badB:
		return -1
	}
	if c := schema.Compare(a.Message, b.Message); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// load reads the files of a folder that want accepts, on all cores, in no
// order. Files that vanish while it reads were dealt with and are left out.
func (w *Workspace) load(ctx context.Context, agent schema.AgentName, box Box, want func(name string) bool) (entries []Entry, err error) {
	if err := w.CheckAgent(agent); err != nil {
		return nil, err
	}
	dir, err := w.openBox(agent, box)
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
	read := make([]Entry, len(names))
	err = eachOnAllCores(ctx, len(names), func(i int) {
		read[i] = readEntry(dir, agent, box, names[i])
	})
	entries = slices.DeleteFunc(read, func(e Entry) bool { return e.Name == "" || errors.Is(e.Err, fs.ErrNotExist) })
	return entries, err
}

func readEntry(dir *durable.Dir, agent schema.AgentName, box Box, name string) Entry {
	e := Entry{Agent: agent, Box: box, Name: name, Path: dir.Path(name)}
	data, modified, err := dir.ReadFileTime(name, schema.MaxFileSize)
	e.Modified = modified
	if errors.Is(err, fs.ErrNotExist) {
		// What vanished was dealt with; a link to nothing is still there.
		if there, _ := dir.Exists(name); there {
			err = fmt.Errorf("reading %s: it is a link that leads nowhere", e.Path)
		}
	}
	if err != nil {
		if info, lookErr := dir.Lstat(name); modified.IsZero() && lookErr == nil {
			e.Modified = info.ModTime()
		}
		e.Err = err
		return e
	}
	e.Message, e.Err = validate.Read(data)
	return e
}

// eachOnAllCores calls do for 0 to n-1, in runs of neighbours, until the
// context is cancelled, and returns its cause then.
func eachOnAllCores(ctx context.Context, n int, do func(i int)) error {
	const run = 64
	starts := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n/run+1) {
		workers.Go(func() {
			for start := range starts {
				for i := start; i < min(start+run, n); i++ {
					do(i)
				}
			}
		})
	}
	for start := 0; start < n && ctx.Err() == nil; start += run {
		starts <- start
	}
	close(starts)
	workers.Wait()
	return context.Cause(ctx)
}
