package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/schema"
)

// Find returns the files of the message that the text names; see schema.ID.Match. It can also be the name of
// one of its files. If several messages match
// and only one is in an inbox, Find returns that one. Valid files come first, each in the order inbox,
// archive, dead letters, outbox. If there is no single match, Find returns a *NotFoundError, a
// *ShortIDError or an *AmbiguousError. A *NotFoundError comes with an *UnreadableError if folders could not
// be read, and with a *HeldError if a held file may be the message. With a plain *UnreadableError, Find
// also returns the files that it could read, of which there is at least one; see SplitUnreadable.
//
// For a complete id, Find first looks for files with the names that oacp gives. If each recipient has one,
// Find lists no folder, and misses copies under other names. For a part of an id, Find searches the inboxes
// first, then the outboxes.
func (w *Workspace) Find(ctx context.Context, id string) ([]Entry, error) {
	if schema.IsMessageFile(id) {
		named, err := SearchNamed(ctx, w, []string{id}, func(m *schema.Message) bool { return isComplete(string(m.ID)) })
		ids := choose(named)
		if _, err = SplitUnreadable(err); err == nil && len(ids) > 1 {
			err = &AmbiguousError{Prefix: id, Matches: ids}
		}
		switch {
		case err != nil:
			return nil, err
		case len(ids) == 1:
			id = string(ids[0])
		}
	}
	mayHold := func(name string) bool { return mayHold(id, name) }
	matches := func(m *schema.Message) bool { return m.ID.Match(id) == schema.Matches }
	var pending []Entry
	if !isComplete(id) {
		inboxes, err := w.Names(func(_ schema.AgentName, box Box) bool { return box == Inbox })
		if err != nil {
			return nil, err
		}
		pending, err = inboxes.Search(ctx, mayHold, matches)
		if ids := idsOf(pending); err == nil && len(ids) == 1 && isComplete(string(ids[0])) {
			id = string(ids[0])
		}
	}
	if found := findByName(ctx, w, schema.ID(id)); isEverywhere(found) {
		return found, nil
	}
	l, err := w.Names(nil)
	if err != nil {
		return nil, err
	}
	if isComplete(id) {
		return l.find(ctx, id, mayHold)
	}
	// Most handled messages are in an outbox, and their other copies have the same name. So first leave out the names of
	// other messages in outboxes.
	outboxes := l.Only(func(_ schema.AgentName, box Box) bool { return box == Outbox })
	sent, _ := outboxes.Search(ctx, mayHold, matches) // find reports what cannot be read
	others := make(map[string]bool)
	for _, name := range outboxes.MessageFiles() {
		others[name] = true
	}
	for _, e := range append(pending, sent...) {
		delete(others, e.Name)
	}
	found, err := l.find(ctx, id, func(name string) bool { return mayHold(name) && !others[name] })
	if _, missing := errors.AsType[*NotFoundError](err); missing {
		return l.find(ctx, id, nil) // other tools choose names without the id, and names of other messages
	}
	return found, err
}

// findByName returns the files of a message that have the names that oacp gives. It returns nothing if one of
// them cannot be read.
func findByName(ctx context.Context, w *Workspace, id schema.ID) []Entry {
	parts, err := schema.ParseID(id)
	if err != nil {
		return nil
	}
	names := namesOf(id, parts, schema.Types()...)
	isIt := func(m *schema.Message) bool { return m.ID == id }
	sent, err := (folder{w, parts.Sender, Outbox}).load(ctx, names, func(e *Entry) bool { return e.Err == nil && isIt(e.Message) })
	if err == nil && len(sent) > 0 {
		names = namesOf(id, parts, sent[0].Message.Type)
	}
	found, err := SearchNamed(ctx, w, names, isIt)
	if err != nil {
		return nil
	}
	return found
}

// find is Find in the listed files that are wanted.
func (l *Listing) find(ctx context.Context, id string, want NameFilter) ([]Entry, error) {
	var short atomic.Bool
	found, held, err := l.search(ctx, want, func(m *schema.Message) bool {
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
	ids := choose(found)
	if exact := schema.ID(id); slices.ContainsFunc(found, func(e Entry) bool { return e.Message.ID == exact }) {
		ids = []schema.ID{exact}
	}
	switch {
	case len(ids) == 1:
		return slices.DeleteFunc(found, func(e Entry) bool { return e.Message.ID != ids[0] }), err
	case len(ids) > 1:
		return nil, &AmbiguousError{Prefix: id, Matches: ids}
	case short.Load():
		return nil, &ShortIDError{id}
	}
	missing := &NotFoundError{ID: id, Workspace: l.workspace.dir}
	switch {
	case unreadable != nil:
		return nil, errors.Join(missing, unreadable)
	case isComplete(id) && len(held) > 0: // a file that may be the message
		return nil, errors.Join(missing, held[0].Err)
	}
	return nil, missing
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

// namesOf returns the names that oacp gives to the files of a message of one of the types.
func namesOf(id schema.ID, parts schema.IDParts, types ...schema.Type) (names []string) {
	for _, t := range types {
		m := schema.Message{ID: id, From: parts.Sender, Type: t, CreatedAt: schema.NewTimestamp(parts.At)}
		long, _ := m.LongFileName() // the id is parsed
		names = append(names, m.FileName(), long)
	}
	return names
}

// mayHold reports whether a file of this name may hold the message that the text names. A name that oacp gives
// begins with the minute and the sender, and ends in the random part of the id unless it is short. A file with
// another name may hold any message.
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

// choose returns the ids of the messages, or only that of the one that is in an inbox: in a workspace with a long
// history, short ids and names repeat.
func choose(found []Entry) []schema.ID {
	waiting := slices.DeleteFunc(slices.Clone(found), func(e Entry) bool { return e.Box != Inbox })
	if pending := idsOf(waiting); len(pending) == 1 {
		return pending
	}
	return idsOf(found)
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

// FindNamed is Find, but also accepts the name of a file, as Inbox lists it, in the agent's inbox
// or, for an empty agent, in the only inbox that has one. Such a file need not be a message. It
// takes precedence; no complete id is a file name. If several inboxes have such a file, FindNamed
// returns an error; if one has it and another cannot be read, an *UnreadableError.
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
	if !schema.IsMessageFile(idOrName) || strings.ContainsAny(idOrName, `/\`) {
		return w.Find(ctx, idOrName)
	}
	var found []Entry
	var unreadable UnreadableError
	for _, agent := range agents {
		entries, err := (folder{w, agent, Inbox}).load(ctx, []string{idOrName}, isThere)
		found = append(found, entries...)
		unreadable.Add(agent, err)
	}
	switch {
	case len(found) == 0:
		return w.Find(ctx, idOrName)
	case unreadable.Err != nil: // that inbox may also have such a file
		return nil, fmt.Errorf("%s: %w", idOrName, &unreadable)
	}
	e, err := onlyEntry(schema.ID(idOrName), found)
	return []Entry{e}, err
}

// Pending returns the copy of a message in the agent's inbox or, for an empty agent, in the only
// inbox that has one. It finds messages and files as FindNamed does. Besides its errors, Pending
// returns a *NotPendingError, an error if there are several, or an *UnreadableError if an inbox that may have
// the message could not be read.
func (w *Workspace) Pending(ctx context.Context, idOrName string, agent schema.AgentName) (Entry, error) {
	found, err := w.FindNamed(ctx, idOrName, agent)
	unreadable, err := SplitUnreadable(err)
	if err != nil {
		return Entry{}, err
	}
	m := found[0].Message
	if m == nil {
		return found[0], nil // a file that was named
	}
	pending := slices.DeleteFunc(slices.Clone(found), func(e Entry) bool {
		return e.Box != Inbox || agent != "" && e.Agent != agent
	})
	switch {
	case agent == "" && slices.ContainsFunc(m.To, unreadable.Hides), len(pending) == 0 && unreadable.Hides(agent):
		return Entry{}, fmt.Errorf("looking for message %s: %w", m.ID, unreadable)
	case len(pending) == 0:
		return Entry{}, &NotPendingError{ID: m.ID, Agent: agent, Elsewhere: found}
	}
	return onlyEntry(m.ID, pending)
}

// onlyEntry returns the only entry. Of several, the caller must name the agent or the file; id is the id, or a file name if
// that was looked for.
func onlyEntry(id schema.ID, entries []Entry) (Entry, error) {
	if len(entries) == 1 {
		return entries[0], nil
	}
	var agents []schema.AgentName
	var names []string
	for _, e := range entries {
		agents, names = append(agents, e.Agent), append(names, e.Name)
	}
	agents = slices.Compact(agents)
	problem := fmt.Sprintf("message %s is in the inboxes of %s", id, spelling.Join(agents))
	if len(agents) == 1 {
		problem = fmt.Sprintf("message %s is in %d files of the inbox of %s: %q", id, len(names), agents[0], names)
	}
	return Entry{}, failure.New("ambiguous", problem, "name the agent with --agent, or a file instead of the id")
}
