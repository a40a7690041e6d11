package track

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Query says which messages to list. The zero value lists all.
type Query struct {
	// Box limits the list to this box; no other files are opened.
	Box mailbox.Box
	// Agent limits the list to its mailbox or, without a box, to messages from and to it.
	Agent schema.AgentName
	// Since leaves out messages that were made before. Files with older times in their names are
	// not opened.
	Since time.Time
	// From and To are a sender and a recipient; Type is a type.
	From, To schema.AgentName
	Type     schema.Type
	// Subject is a part of the subject, in any case.
	Subject string
	// Limit is the largest number of messages, the newest ones; 0 is no limit.
	Limit int
}

// Recipient is a recipient of a message or, for a query with a box of recipients, the owner of a copy.
type Recipient struct {
	Agent schema.AgentName `json:"agent"`
	Stage Stage            `json:"stage"`
}

// Listed is a message that fits the query.
type Listed struct {
	// Message has no body. It is valid if Err is nil.
	*schema.Message
	Err        error
	Recipients []Recipient
	// Copies are the files, in the order inbox, archive, dead letters, outbox, as far as the query
	// looks at them.
	Copies []mailbox.Entry
}

// List returns the messages that fit, the newest last. It omits files that are not messages, except for a
// query with a box. With a *mailbox.UnreadableError, List also returns what it could read.
func List(ctx context.Context, w *mailbox.Workspace, q Query) ([]Listed, error) {
	listing, err := w.Names(func(agent schema.AgentName, box mailbox.Box) bool {
		return q.Box == "" || box == q.Box && (q.Agent == "" || agent == q.Agent)
	})
	if err != nil {
		return nil, err
	}
	t := newTracker(w)
	messages, unreadable, err := q.newest(ctx, w, listing)
	if err != nil {
		return nil, err
	}
	t.unreadable = unreadable
	if err := t.locate(ctx, q.Box, messages); err != nil {
		return nil, err
	}
	if unreadable != nil {
		return messages, unreadable
	}
	return messages, nil
}

// newest reads as many of the files with the latest times in their names as are needed for the limit.
func (q *Query) newest(ctx context.Context, w *mailbox.Workspace, listing *mailbox.Listing) ([]Listed, *mailbox.UnreadableError, error) {
	since := q.Since.Truncate(time.Minute)
	var times []time.Time // of the names, the latest first
	if q.Limit > 0 {
		names := make(map[string]bool)
		listing.All(func(_ schema.AgentName, _ mailbox.Box, name string) {
			parsed, err := schema.ParseFileName(name)
			if err == nil && !names[name] && !parsed.At.Before(since) {
				names[name], times = true, append(times, parsed.At)
			}
		})
		slices.SortFunc(times, func(a, b time.Time) int { return b.Compare(a) })
	}
	for most := q.Limit; ; most *= 4 {
		all := len(times) <= most
		if !all {
			since = times[most]
		}
		entries, err := q.entries(ctx, w, listing, since)
		unreadable, err := mailbox.SplitUnreadable(err)
		if err != nil {
			return nil, nil, err
		}
		messages := group(entries)
		if all && (q.Limit == 0 || len(messages) <= q.Limit) {
			return messages, unreadable, nil
		}
		// Older messages are here only if the names of their files do not tell their times.
		older, _ := slices.BinarySearchFunc(messages, since, func(m Listed, since time.Time) int { return m.CreatedAt.Time().Compare(since) })
		if all || len(messages)-older >= q.Limit {
			return messages[len(messages)-q.Limit:], unreadable, nil
		}
	}
}

// entries returns the files whose messages fit, of those with names from a time on. In a box, a file that
// is not a message counts as one that has only a subject, its name.
func (q *Query) entries(ctx context.Context, w *mailbox.Workspace, listing *mailbox.Listing, since time.Time) (found []mailbox.Entry, err error) {
	mayHold := func(name string) bool {
		parsed, err := schema.ParseFileName(name)
		return err != nil || !parsed.At.Before(since)
	}
	if q.Box == "" {
		return listing.Search(ctx, func(schema.AgentName, mailbox.Box) mailbox.NameFilter { return mayHold }, func(m *schema.Message) bool {
			if !q.fits(m) {
				return false
			}
			*m = outline(m)
			return true
		})
	}
	agents := []schema.AgentName{q.Agent}
	if q.Agent == "" {
		if agents, err = w.Agents(); err != nil {
			return nil, err
		}
	}
	var unreadable error
	for _, agent := range agents {
		entries, err := w.ListNamed(ctx, agent, q.Box, mayHold, func(e *mailbox.Entry) bool {
			m := schema.Message{Subject: e.Name}
			if e.Message != nil {
				m = *e.Message
			}
			if !q.fits(&m) {
				return false
			}
			m = outline(&m)
			e.Message = &m
			return true
		})
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		found, unreadable = append(found, entries...), errors.Join(unreadable, err)
	}
	if unreadable != nil {
		return found, &mailbox.UnreadableError{Err: unreadable}
	}
	return found, nil
}

func (q *Query) fits(m *schema.Message) bool {
	switch {
	case q.Box == "" && q.Agent != "" && m.From != q.Agent && !m.IsFor(q.Agent),
		q.From != "" && m.From != q.From,
		q.To != "" && !m.IsFor(q.To),
		q.Type != "" && m.Type != q.Type,
		!strings.Contains(strings.ToLower(m.Subject), strings.ToLower(q.Subject)):
		return false
	}
	return q.Since.IsZero() || !m.CreatedAt.Time().Before(q.Since)
}

// outline copies what a list shows of a message, whose texts would keep the whole file in memory.
func outline(m *schema.Message) schema.Message {
	to := slices.Clone(m.To)
	for i := range to {
		to[i] = clone(to[i])
	}
	return schema.Message{
		ID: clone(m.ID), From: clone(m.From), To: to, Type: clone(m.Type), Priority: clone(m.Priority),
		CreatedAt: clone(m.CreatedAt), ExpiresAt: clone(m.ExpiresAt), Subject: strings.Clone(m.Subject),
		ConversationID: clone(m.ConversationID), ParentID: clone(m.ParentID),
	}
}

func clone[Text ~string](text Text) Text { return Text(strings.Clone(string(text))) }

// group puts the copies of each message together, in the order of age. An id alone does not identify
// a message: other tools make short ones, which collide.
func group(entries []mailbox.Entry) []Listed {
	type key struct {
		id        schema.ID
		createdAt schema.Timestamp
		subject   string
		path      string
	}
	index := make(map[key]int, len(entries))
	var messages []Listed
	for _, e := range entries {
		k := key{id: e.Message.ID, createdAt: e.Message.CreatedAt, subject: e.Message.Subject}
		if k.id == "" {
			k.path = e.Path
		}
		i, known := index[k]
		if !known {
			i = len(messages)
			index[k] = i
			messages = append(messages, Listed{Message: e.Message, Err: e.Err})
		}
		messages[i].Copies = append(messages[i].Copies, e)
	}
	ages := make(map[*schema.Message]schema.Age, len(messages))
	for _, m := range messages {
		ages[m.Message] = m.Age()
	}
	slices.SortFunc(messages, func(a, b Listed) int {
		first, second := ages[a.Message], ages[b.Message]
		return cmp.Or(first.Compare(&second), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Copies[0].Path, b.Copies[0].Path))
	})
	return messages
}

// locate fills in how far the messages got.
func (t *tracker) locate(ctx context.Context, box mailbox.Box, messages []Listed) error {
	var requests []*schema.Message
	files := make(map[schema.ID][]mailbox.Entry)
	var names []string
	for _, m := range messages {
		if m.Err == nil && m.Type.IsRequest() {
			requests = append(requests, m.Message)
		}
		for _, e := range m.Copies {
			files[m.ID], names = append(files[m.ID], e), append(names, e.Name)
		}
	}
	if box == mailbox.Outbox {
		found, err := mailbox.SearchNamed(ctx, t.w, names, func(m *schema.Message) bool { return files[m.ID] != nil })
		if t.unreadable, err = mailbox.SplitUnreadable(err); err != nil {
			return err
		}
		for _, e := range found {
			files[e.Message.ID] = append(files[e.Message.ID], e)
		}
	}
	replies, err := repliesTo(ctx, t.w, requests)
	if err != nil {
		return err
	}
	for i := range messages {
		m := &messages[i]
		var agents []schema.AgentName
		if m.Err == nil && (box == "" || box == mailbox.Outbox) {
			agents = slices.Clone(m.To)
		}
		for _, e := range m.Copies {
			if e.Box != mailbox.Outbox && !slices.Contains(agents, e.Agent) {
				agents = append(agents, e.Agent)
			}
		}
		m.Recipients = make([]Recipient, len(agents))
		for k, agent := range agents {
			at := m.Copies
			if box == mailbox.Outbox {
				at = files[m.ID]
			}
			p, err := t.progress(m.Message, agent, at, replies[m.ID])
			if err != nil {
				return err
			}
			m.Recipients[k] = Recipient{agent, p.Stage}
		}
	}
	return nil
}
