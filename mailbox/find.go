package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// NotFoundError says that the workspace does not have a message.
type NotFoundError struct {
	// ID is the id, or the part of one, that was looked for.
	ID        string
	Workspace string
}

// Error names the id and the workspace.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("workspace %s has no message %s", e.Workspace, e.ID)
}

// AmbiguousError is returned if several messages match a part of an id.
type AmbiguousError struct {
	Prefix string
	// Matches are the ids, sorted.
	Matches []schema.ID
}

// Error names the part and at most three of the ids.
func (e *AmbiguousError) Error() string {
	const most = 3
	more := ""
	if len(e.Matches) > most {
		more = ", …"
	}
	return fmt.Sprintf("%d messages have ids that match %s: %s%s", len(e.Matches), e.Prefix,
		joinNames(e.Matches[:min(most, len(e.Matches))]), more)
}

// ShortIDError is returned if a text is a prefix of message ids, but too short to name one.
type ShortIDError struct{ Text string }

// Error names the text.
func (e *ShortIDError) Error() string { return e.Text + " is too short to name a message" }

// UnreadableError is returned if some mailbox folders could not be read, so that a result lacks
// their files.
type UnreadableError struct {
	Err error
	// Agents are the owners of the folders. What became of their messages is unknown.
	Agents []schema.AgentName
}

// Error names the folders and the causes.
func (e *UnreadableError) Error() string { return e.Err.Error() }

// Unwrap returns the causes.
func (e *UnreadableError) Unwrap() error { return e.Err }

// Hides reports whether a folder of the agent could not be read. A nil error hides nothing.
func (e *UnreadableError) Hides(agent schema.AgentName) bool {
	return e != nil && slices.Contains(e.Agents, agent)
}

// add adds an error about a folder of the agent, once.
func (e *UnreadableError) add(agent schema.AgentName, err error) {
	if err == nil || e.Err != nil && strings.Contains(e.Err.Error(), err.Error()) {
		return
	}
	e.Err, e.Agents = errors.Join(e.Err, err), append(e.Agents, agent)
}

// orNil returns the error if there is one.
func (e *UnreadableError) orNil() error {
	if e.Err == nil {
		return nil
	}
	return e
}

// SplitUnreadable separates an *UnreadableError that came with a result, which lacks what could not be
// read, from an error without a result.
func SplitUnreadable(err error) (*UnreadableError, error) {
	if unreadable, ok := err.(*UnreadableError); ok {
		return unreadable, nil
	}
	return nil, err
}

// NotPendingError says that a message is not in an inbox, or no longer.
type NotPendingError struct {
	ID schema.ID
	// Agent is the owner of the inbox; empty means all inboxes.
	Agent schema.AgentName
	// Elsewhere are the files of the message in other boxes.
	Elsewhere []Entry
}

// Error names the message and the boxes that it is in.
func (e *NotPendingError) Error() string {
	inbox := "any inbox"
	if e.Agent != "" {
		inbox = "the inbox of " + string(e.Agent)
	}
	places := make([]string, len(e.Elsewhere))
	for i, entry := range e.Elsewhere {
		places[i] = fmt.Sprintf("the %s of %s", entry.Box, entry.Agent)
	}
	return fmt.Sprintf("message %s is not in %s; it is in %s", e.ID, inbox, strings.Join(places, ", "))
}

// SeveralInboxesError is returned if a message is in several inboxes and the caller must name one.
type SeveralInboxesError struct {
	// ID is the message's id, or a file name if that was looked for.
	ID     schema.ID
	Agents []schema.AgentName
}

// Error names the message and the agents.
func (e *SeveralInboxesError) Error() string {
	return fmt.Sprintf("message %s is in the inboxes of %s", e.ID, joinNames(e.Agents))
}

// SeveralFilesError is returned if several files of an inbox hold a message and the caller must name
// one.
type SeveralFilesError struct {
	ID    schema.ID
	Agent schema.AgentName
	// Names are the names of the files, sorted.
	Names []string
}

// Error names the message and the agent.
func (e *SeveralFilesError) Error() string {
	return fmt.Sprintf("message %s is in %d files of the inbox of %s", e.ID, len(e.Names), e.Agent)
}

// IsGone reports whether the error says that a message file no longer exists.
func IsGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// Find returns the files of the message that the text names; see schema.ID.Match. If several match,
// and only one of them is in an inbox, Find returns that one. Valid messages come first, each in
// the order inbox, archive, dead letters, outbox. Find returns a *NotFoundError, a *ShortIDError or
// an *AmbiguousError if there is no single such message; a *NotFoundError comes with an *UnreadableError
// if folders could not be read, and with a *HeldError if a file that is held may be the message. With a plain *UnreadableError, Find also returns the files that it
// could read, of which there is at least one; see SplitUnreadable.
//
// A complete id tells which names its files have, unless another tool made them. If each recipient has such
// a file, Find lists no folder, and misses copies under other names. It looks for the beginning of an id in
// the inboxes first.
func (w *Workspace) Find(ctx context.Context, id string) ([]Entry, error) {
	return w.find(ctx, id, schema.Boxes())
}

// find is Find, but lists all boxes that are not in named.
func (w *Workspace) find(ctx context.Context, id string, named []Box) ([]Entry, error) {
	mayHold := func(name string) bool { return mayHold(id, name) }
	if !isComplete(id) {
		pending, _, err := w.search(ctx, func(_ schema.AgentName, box Box) NameFilter {
			if box != Inbox {
				return nil
			}
			return mayHold
		}, nil, func(m *schema.Message) bool { return m.ID.Match(id) == schema.Matches })
		if ids := idsOf(pending); err == nil && len(ids) == 1 && isComplete(string(ids[0])) {
			id = string(ids[0])
		}
	}
	everywhere := func(schema.AgentName, Box) NameFilter { return mayHold }
	if names := namesOf(schema.ID(id)); names != nil {
		in := make(map[Box][]string, len(named))
		for _, box := range named {
			in[box] = names
		}
		found, _, err := w.search(ctx, everywhere, in, func(m *schema.Message) bool { return string(m.ID) == id })
		if err == nil && isEverywhere(found) {
			return found, nil
		}
	}
	found, err := w.findListed(ctx, id, everywhere)
	if _, missing := errors.AsType[*NotFoundError](err); missing && !isComplete(id) {
		return w.findListed(ctx, id, Everything) // a name need not tell the id
	}
	return found, err
}

// findListed is Find among the files that are wanted.
func (w *Workspace) findListed(ctx context.Context, id string, want func(schema.AgentName, Box) NameFilter) ([]Entry, error) {
	var short atomic.Bool
	found, held, err := w.search(ctx, want, nil, func(m *schema.Message) bool {
		match := m.ID.Match(id)
		if match == schema.TooShort {
			short.Store(true)
		}
		return match == schema.Matches
	})
	unreadable, fatal := SplitUnreadable(err)
	if fatal != nil {
		return nil, fatal
	}
	ids := idsOf(found)
	if exact := schema.ID(id); slices.Contains(ids, exact) {
		ids = []schema.ID{exact}
	}
	if len(ids) > 1 { // in a workspace with a long history, short ids repeat
		waiting := slices.DeleteFunc(slices.Clone(found), func(e Entry) bool { return e.Box != Inbox })
		if pending := idsOf(waiting); len(pending) == 1 {
			ids = pending
		}
	}
	switch {
	case len(ids) == 1:
		return slices.DeleteFunc(found, func(e Entry) bool { return e.Message.ID != ids[0] }), err
	case len(ids) > 1:
		return nil, &AmbiguousError{Prefix: id, Matches: ids}
	case short.Load():
		return nil, &ShortIDError{id}
	}
	err = &NotFoundError{ID: id, Workspace: w.dir}
	switch {
	case unreadable != nil:
		err = errors.Join(err, unreadable)
	case isComplete(id) && len(held) > 0: // a file that may be the message
		err = errors.Join(err, held[0].Err)
	}
	return nil, err
}

func isComplete(id string) bool {
	_, err := schema.ParseID(schema.ID(id))
	return err == nil
}

// isEverywhere reports whether each recipient has a copy.
func isEverywhere(found []Entry) bool {
	return len(found) > 0 && !slices.ContainsFunc(found[0].Message.To, func(to schema.AgentName) bool {
		return !slices.ContainsFunc(found, func(e Entry) bool { return e.Agent == to && e.Box != Outbox })
	})
}

// namesOf returns the names that we give to the files of a message, which has one of the types.
func namesOf(id schema.ID) (names []string) {
	parts, err := schema.ParseID(id)
	if err != nil {
		return nil
	}
	for _, t := range schema.Types() {
		m := schema.Message{ID: id, From: parts.Sender, Type: t, CreatedAt: schema.NewTimestamp(parts.At)}
		long, _ := m.LongFileName() // the id is parsed
		names = append(names, m.FileName(), long)
	}
	return names
}

// mayHold reports whether a file of this name may hold the message that the text names, if the name is one of ours:
// it begins with the minute and the sender, and ends in the random part of the id unless it is short.
func mayHold(id, name string) bool {
	parsed, err := schema.ParseFileName(name)
	if err != nil {
		return true
	}
	parts, err := schema.ParseID(schema.ID("msg-" + strings.TrimPrefix(id, "msg-")))
	if err != nil {
		return parsed.Rand == "" || strings.ContainsAny(id, "-_") || strings.HasPrefix(parsed.Rand, id)
	}
	return parsed.From != parts.Sender || isSameMinute(parsed.At, parts.At)
}

func isSameMinute(a, b time.Time) bool {
	return a.Truncate(time.Minute).Equal(b.Truncate(time.Minute))
}

// idsOf returns the ids of the messages, sorted, each once.
func idsOf(entries []Entry) []schema.ID {
	ids := make([]schema.ID, len(entries))
	for i, e := range entries {
		ids[i] = e.Message.ID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// A NameFilter reports whether a file of this name is to be opened.
type NameFilter func(name string) bool

// Everything wants all files, for Search.
func Everything(schema.AgentName, Box) NameFilter { return func(string) bool { return true } }

// Search returns the files of all mailboxes that are wanted and whose messages match, as far as they
// can be read: the valid ones first, each in the order inbox, archive, dead letters, outbox. A file that is
// held, cannot be read or is not valid has the message of the copy of its sender, if that has the same
// name. A file is not opened if its sender's copy has the same name and does not match. Boxes for which want
// returns nil are not listed. With an *UnreadableError, Search also returns what it could read.
func (w *Workspace) Search(ctx context.Context, want func(schema.AgentName, Box) NameFilter, match func(*schema.Message) bool) ([]Entry, error) {
	found, _, err := w.search(ctx, want, nil, match)
	return found, err
}

// search is Search, but also returns the files that are held and not beside the copy of their sender. It does not list
// boxes that have names, and looks for files with these names.
func (w *Workspace) search(ctx context.Context, want func(schema.AgentName, Box) NameFilter, names map[Box][]string,
	match func(*schema.Message) bool) (found, held []Entry, err error) {
	agents, err := w.Agents()
	if err != nil {
		return nil, nil, err
	}
	var invalid []Entry
	var unreadable UnreadableError
	others := make(map[string]bool) // names of files in outboxes whose messages do not match
	var mutex sync.Mutex
	for _, box := range slices.Backward(schema.Boxes()) {
		for _, agent := range agents {
			wantName := want(agent, box)
			if wantName == nil {
				continue
			}
			entries, err := w.load(ctx, agent, box, names[box], func(name string) bool {
				return schema.IsMessageFile(name) && !others[name] && wantName(name)
			}, func(e *Entry) bool {
				if e.Err != nil || match(e.Message) {
					return true
				}
				if box == Outbox && e.Message.From == agent {
					mutex.Lock()
					defer mutex.Unlock()
					others[e.Name] = true
				}
				return false
			})
			if ctx.Err() != nil {
				return nil, nil, context.Cause(ctx)
			}
			unreadable.add(agent, err)
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

// nameInvalid separates the files that are copies of what others sent, by their names, from the others.
// Each gets the message of the sender's copy: nothing in the file counts.
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
		if m := sent[e.Name]; m != nil && e.Box != Outbox && m.IsFor(e.Agent) {
			clone := *m
			e.Message = &clone
			named = append(named, e)
		} else {
			others = append(others, e)
		}
	}
	return named, others
}

// FindNamed is Find, but also accepts the name of a file, as Inbox lists it, in the agent's inbox
// or, for an empty agent, in the only inbox that has one. Such a file need not be a message. It
// takes precedence; no complete id is a file name. If several inboxes have such a file, FindNamed
// returns a *SeveralInboxesError; if one has it and another cannot be read, an *UnreadableError.
func (w *Workspace) FindNamed(ctx context.Context, idOrName string, agent schema.AgentName) ([]Entry, error) {
	return w.findNamed(ctx, idOrName, agent, schema.Boxes())
}

func (w *Workspace) findNamed(ctx context.Context, idOrName string, agent schema.AgentName, named []Box) ([]Entry, error) {
	agents := []schema.AgentName{agent}
	var err error
	if agent == "" {
		agents, err = w.Agents()
	} else {
		err = w.CheckAgent(agent)
	}
	if err != nil {
		return nil, err
	}
	if !schema.IsMessageFile(idOrName) {
		return w.find(ctx, idOrName, named)
	}
	var found []Entry
	var unreadable UnreadableError
	for _, agent := range agents {
		entries, err := w.load(ctx, agent, Inbox, []string{idOrName}, schema.IsMessageFile, func(*Entry) bool { return true })
		found = append(found, entries...)
		unreadable.add(agent, err)
	}
	switch {
	case len(found) == 0:
		return w.find(ctx, idOrName, named)
	case unreadable.Err != nil: // that inbox may have such a file, too
		return nil, fmt.Errorf("%s: %w", idOrName, &unreadable)
	}
	e, err := onlyEntry(schema.ID(idOrName), found)
	return []Entry{e}, err
}

// Pending returns the copy of a message in the agent's inbox or, for an empty agent, in the only
// inbox that has one. It finds messages and files as FindNamed does. Besides its errors, Pending
// returns a *NotPendingError, a *SeveralInboxesError or a *SeveralFilesError; and an *UnreadableError if
// an inbox that may have the message could not be read.
func (w *Workspace) Pending(ctx context.Context, idOrName string, agent schema.AgentName) (Entry, error) {
	found, err := w.findNamed(ctx, idOrName, agent, []Box{Archive, DeadLetters, Outbox}) // two files of an inbox may have it
	unreadable, err := SplitUnreadable(err)
	if err != nil {
		return Entry{}, err
	}
	pending := slices.DeleteFunc(slices.Clone(found), func(e Entry) bool {
		return e.Box != Inbox || agent != "" && e.Agent != agent
	})
	switch {
	case agent == "" && found[0].Message != nil && slices.ContainsFunc(found[0].Message.To, unreadable.Hides),
		len(pending) == 0 && unreadable.Hides(agent):
		return Entry{}, fmt.Errorf("looking for message %s: %w", found[0].Message.ID, unreadable)
	case len(pending) == 0:
		return Entry{}, &NotPendingError{ID: found[0].Message.ID, Agent: agent, Elsewhere: found}
	}
	if found[0].Message == nil {
		return pending[0], nil // a file that was named
	}
	return onlyEntry(found[0].Message.ID, pending)
}

// onlyEntry returns the only entry, or a *SeveralInboxesError or *SeveralFilesError.
func onlyEntry(id schema.ID, entries []Entry) (Entry, error) {
	if len(entries) == 1 {
		return entries[0], nil
	}
	several, files := &SeveralInboxesError{ID: id}, &SeveralFilesError{ID: id, Agent: entries[0].Agent}
	for _, e := range entries {
		several.Agents, files.Names = append(several.Agents, e.Agent), append(files.Names, e.Name)
	}
	slices.Sort(files.Names)
	if several.Agents = slices.Compact(several.Agents); len(several.Agents) == 1 {
		return Entry{}, files
	}
	return Entry{}, several
}

// ReadRaw returns the bytes of a message file, even of one that is held. Use Decode to read them.
func (w *Workspace) ReadRaw(e Entry) (data []byte, err error) {
	dir, err := w.openBox(e.Agent, e.Box)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return dir.ReadFile(e.Name, schema.MaxFileSize)
}
