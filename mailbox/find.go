package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
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
type UnreadableError struct{ Err error }

// Error names the folders and the causes.
func (e *UnreadableError) Error() string { return e.Err.Error() }

// Unwrap returns the causes.
func (e *UnreadableError) Unwrap() error { return e.Err }

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
// an *AmbiguousError if there is no single such message; a *NotFoundError comes with an
// *UnreadableError if folders could not be read.
func (w *Workspace) Find(ctx context.Context, id string) ([]Entry, error) {
	var short atomic.Bool
	found, err := w.Search(ctx, fileNameFilter(id), func(m *schema.Message) bool {
		match := m.ID.Match(id)
		if match == schema.TooShort {
			short.Store(true)
		}
		return match == schema.Matches
	})
	var unreadable *UnreadableError
	if err != nil && !errors.As(err, &unreadable) {
		return nil, err
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
		return slices.DeleteFunc(found, func(e Entry) bool { return e.Message.ID != ids[0] }), nil
	case len(ids) > 1:
		return nil, &AmbiguousError{Prefix: id, Matches: ids}
	case short.Load():
		return nil, &ShortIDError{id}
	}
	return nil, errors.Join(&NotFoundError{ID: id, Workspace: w.dir}, err)
}

// fileNameFilter spares opening files that cannot hold the message: a complete id contains the
// minute and the sender with which our file names begin. Other file names say nothing about the
// content.
func fileNameFilter(id string) func(agent schema.AgentName, box Box, name string) bool {
	parts, err := schema.ParseID(schema.ID(id))
	if err != nil {
		return nil
	}
	return func(_ schema.AgentName, _ Box, name string) bool {
		parsed, err := schema.ParseFileName(name)
		return err != nil || parsed.From != parts.Sender || isSameMinute(parsed.At, parts.At)
	}
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

// Search returns the files of all mailboxes that are wanted and whose messages match, as far as they
// can be read: the valid ones first, each in the order inbox, archive, dead letters, outbox. A file that is
// held is there only beside the copy of its sender, whose message it has. A nil want wants all. With an
// *UnreadableError, Search also returns what it could read.
func (w *Workspace) Search(ctx context.Context, want func(agent schema.AgentName, box Box, name string) bool,
	match func(*schema.Message) bool) ([]Entry, error) {
	agents, err := w.Agents()
	if err != nil {
		return nil, err
	}
	var found, invalid, held []Entry
	var unreadable error
	for _, box := range boxes {
		for _, agent := range agents {
			entries, err := w.load(ctx, agent, box, func(name string) bool {
				return schema.IsMessageFile(name) && (want == nil || want(agent, box, name))
			}, func(e *Entry) bool { return e.IsHeld() || e.Message != nil && match(e.Message) })
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			unreadable = errors.Join(unreadable, err)
			for _, e := range entries {
				switch {
				case e.Err == nil:
					found = append(found, e)
				case e.IsHeld():
					held = append(held, e)
				default:
					invalid = append(invalid, e)
				}
			}
		}
	}
	found = slices.Concat(found, invalid, nameHeld(held, found))
	if unreadable != nil {
		return found, &UnreadableError{unreadable}
	}
	return found, nil
}

// FindNamed is Find, but also accepts the name of a file, as Inbox lists it, in the agent's inbox
// or, for an empty agent, in the only inbox that has one. Such a file need not be a message. It
// takes precedence; no complete id is a file name. If several inboxes have such a file, FindNamed
// returns a *SeveralInboxesError; if one has it and another cannot be read, an *UnreadableError.
func (w *Workspace) FindNamed(ctx context.Context, idOrName string, agent schema.AgentName) ([]Entry, error) {
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
		return w.Find(ctx, idOrName)
	}
	var found []Entry
	var unreadable error
	for _, agent := range agents {
		entries, err := w.load(ctx, agent, Inbox, func(name string) bool { return name == idOrName }, func(*Entry) bool { return true })
		found, unreadable = append(found, entries...), errors.Join(unreadable, err)
	}
	switch {
	case len(found) == 0:
		return w.Find(ctx, idOrName)
	case unreadable != nil: // that inbox may have such a file, too
		return nil, &UnreadableError{unreadable}
	}
	e, err := onlyEntry(schema.ID(idOrName), found)
	return []Entry{e}, err
}

// Pending returns the copy of a message in the agent's inbox or, for an empty agent, in the only
// inbox that has one. It finds messages and files as FindNamed does. Besides its errors, Pending
// returns a *NotPendingError, a *SeveralInboxesError or a *SeveralFilesError.
func (w *Workspace) Pending(ctx context.Context, idOrName string, agent schema.AgentName) (Entry, error) {
	found, err := w.FindNamed(ctx, idOrName, agent)
	if err != nil {
		return Entry{}, err
	}
	pending := slices.DeleteFunc(slices.Clone(found), func(e Entry) bool {
		return e.Box != Inbox || agent != "" && e.Agent != agent
	})
	if len(pending) == 0 {
		if _, err := durable.StatFolder(w.root, w.dir, BoxName(agent, Inbox)); agent != "" && ignoreMissing(err) != nil {
			return Entry{}, err // the inbox may have it
		}
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
