package mailbox

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

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
	entries, err := w.ListNamed(ctx, agent, Inbox, nil, func(e *Entry) bool {
		if e.Message != nil {
			e.Message.Body = schema.Value{}
		}
		return true
	})
	return InOrder(entries), err
}

// List is Inbox for any box, with the bodies.
func (w *Workspace) List(ctx context.Context, agent schema.AgentName, box Box) ([]Entry, error) {
	entries, err := w.ListNamed(ctx, agent, box, nil, func(*Entry) bool { return true })
	return InOrder(entries), err
}

// ListNamed returns the entries of a box whose file names are wanted and for which keep returns true, in
// no order. Keep may change an entry's message. Calls of keep may be concurrent. ListNamed ignores files
// that vanish meanwhile: another process has handled them.
func (w *Workspace) ListNamed(ctx context.Context, agent schema.AgentName, box Box, want NameFilter, keep func(*Entry) bool) ([]Entry, error) {
	if err := w.CheckAgent(agent); err != nil {
		return nil, err
	}
	in := folder{w, agent, box}
	names, err := in.names()
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !schema.IsMessageFile(name) || want != nil && !want(name) })
	return in.load(ctx, names, func(e *Entry) bool { return isThere(e) && keep(e) })
}

// Copies returns the files of a message in a box, whatever their names.
func Copies(ctx context.Context, w *Workspace, id schema.ID, agent schema.AgentName, box Box) ([]Entry, error) {
	return w.ListNamed(ctx, agent, box, func(name string) bool { return mayHold(string(id), name) },
		func(e *Entry) bool { return e.Message != nil && e.Message.ID == id })
}

// isThere reports whether the file did not vanish.
func isThere(e *Entry) bool { return !errors.Is(e.Err, fs.ErrNotExist) }

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
		return cmp.Or(cmp.Compare(a.class, b.class), a.age.Compare(&b.age), strings.Compare(a.entry.Name, b.entry.Name))
	})
	result := make([]Entry, len(entries))
	for i, k := range keys {
		result[i] = *k.entry
	}
	return result
}
