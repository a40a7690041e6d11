package mailbox

import (
	"context"
	"errors"
	"hash/maphash"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/oacp-go/oacp/schema"
)

// A NameFilter reports whether to open a file of this name. Nil opens all files.
type NameFilter func(name string) bool

// A Listing has the names of the files in mailboxes, as they were when they were listed.
type Listing struct {
	workspace  *Workspace
	agents     []schema.AgentName
	names      map[folder][]string
	unreadable UnreadableError
}

// Names lists the boxes that are wanted; nil wants all. If a folder cannot be read, searches return an
// *UnreadableError.
func (w *Workspace) Names(want func(schema.AgentName, Box) bool) (*Listing, error) {
	agents, err := w.Agents()
	l := &Listing{workspace: w, agents: agents, names: make(map[folder][]string)}
	for _, box := range schema.Boxes() {
		for _, agent := range l.agents {
			if want != nil && !want(agent, box) {
				continue
			}
			in := folder{w, agent, box}
			names, err := in.names()
			l.names[in] = names
			l.unreadable.Add(agent, err)
		}
	}
	return l, err
}

// Only returns the listing without the boxes that are not wanted.
func (l *Listing) Only(want func(schema.AgentName, Box) bool) *Listing {
	only := *l
	only.names = maps.Clone(l.names)
	maps.DeleteFunc(only.names, func(in folder, _ []string) bool { return !want(in.agent, in.box) })
	return &only
}

// SearchNamed searches the files that have one of these names. It lists no box.
func SearchNamed(ctx context.Context, w *Workspace, names []string, match func(*schema.Message) bool) ([]Entry, error) {
	agents, err := w.Agents()
	if err != nil {
		return nil, err
	}
	l := &Listing{workspace: w, agents: agents, names: make(map[folder][]string)}
	for _, agent := range agents {
		for _, box := range schema.Boxes() {
			l.names[folder{w, agent, box}] = names
		}
	}
	return l.Search(ctx, nil, match)
}

// MessageFiles returns the names of the message files in all boxes, in no order. A name repeats if several boxes have it.
func (l *Listing) MessageFiles() (all []string) {
	for _, names := range l.names {
		all = append(all, names...)
	}
	return slices.DeleteFunc(all, func(name string) bool { return !schema.IsMessageFile(name) })
}

// Search returns the files that are wanted and whose messages match: the valid ones first, each in the order
// inbox, archive, dead letters, outbox. A file that is held, unreadable or not valid gets the message of its
// sender's copy, if that has the same name and the file has no other id. With an *UnreadableError, Search also
// returns what it could read.
func (l *Listing) Search(ctx context.Context, want NameFilter, match func(*schema.Message) bool) ([]Entry, error) {
	found, _, err := l.search(ctx, want, match)
	return found, err
}

// search is Search, but also returns the held files without a sender's copy of the same name.
func (l *Listing) search(ctx context.Context, want NameFilter, match func(*schema.Message) bool) (found, held []Entry, err error) {
	unreadable := UnreadableError{l.unreadable.Err, slices.Clone(l.unreadable.Agents)}
	var invalid []Entry
	moved := make(map[schema.AgentName][]string) // names of files that left a box since they were listed
	var mutex sync.Mutex
	// A message has a copy in the outbox of its sender. If that does not match, other files of the same bytes do not.
	seed, others := maphash.MakeSeed(), make(map[uint64]bool)
	for _, box := range []Box{Outbox, Inbox, Archive, DeadLetters} {
		for _, agent := range l.agents {
			in := folder{l.workspace, agent, box}
			listed := l.names[in]
			names := slices.DeleteFunc(slices.Clone(moved[agent]), func(name string) bool { return slices.Contains(listed, name) })
			for _, name := range listed {
				if schema.IsMessageFile(name) && (want == nil || want(name)) {
					names = append(names, name)
				}
			}
			sums := make(map[string]uint64) // of the files of an outbox
			isOther := func(name string, data []byte) bool {
				sum := maphash.Bytes(seed, data)
				if box != Outbox {
					return others[sum]
				}
				mutex.Lock()
				defer mutex.Unlock()
				sums[name] = sum
				return false
			}
			entries, err := in.loadUnless(ctx, names, isOther, func(e *Entry) bool {
				isGone := errors.Is(e.Err, fs.ErrNotExist)
				if e.Err != nil && !isGone || e.Err == nil && match(e.Message) {
					return true
				}
				mutex.Lock()
				defer mutex.Unlock()
				switch {
				case box == Outbox && !isGone:
					others[sums[e.Name]] = true
				case box != Outbox && isGone:
					moved[agent] = append(moved[agent], e.Name)
				}
				return false
			})
			if ctx.Err() != nil {
				return nil, nil, context.Cause(ctx)
			}
			unreadable.Add(agent, err)
			for _, e := range entries {
				if e.Err == nil {
					found = append(found, e)
				} else {
					invalid = append(invalid, e)
				}
			}
		}
	}
	sortByBox(found)
	sortByBox(invalid)
	named, unnamed := nameInvalid(invalid, found)
	for _, e := range unnamed {
		if e.IsHeld() {
			held = append(held, e)
		}
	}
	unnamed = slices.DeleteFunc(unnamed, func(e Entry) bool { return e.IsHeld() || e.Message == nil || !match(e.Message) })
	return slices.Concat(found, unnamed, named), held, unreadable.orNil()
}

func sortByBox(entries []Entry) {
	boxes := schema.Boxes()
	slices.SortStableFunc(entries, func(a, b Entry) int { return slices.Index(boxes, a.Box) - slices.Index(boxes, b.Box) })
}

// nameInvalid separates the files that have the name of a sender's copy, and no other id, from the others. They
// get the message of that copy.
func nameInvalid(invalid, found []Entry) (named, others []Entry) {
	if len(invalid) == 0 {
		return nil, nil
	}
	sent := make(map[string]*schema.Message)
	for _, e := range found {
		if long, err := e.Message.LongFileName(); e.Box == Outbox && e.Err == nil && err == nil {
			sent[e.Name], sent[long] = e.Message, e.Message
		}
	}
	for _, e := range invalid {
		m := sent[e.Name]
		// What is left of a truncated file may end within the id.
		isOther := e.Message != nil && m != nil && !strings.HasPrefix(string(m.ID), string(e.Message.ID))
		if m != nil && !isOther && e.Box != Outbox && m.IsFor(e.Agent) {
			clone := *m
			e.Message = &clone
			named = append(named, e)
		} else {
			others = append(others, e)
		}
	}
	return named, others
}
