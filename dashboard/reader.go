package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// entry is something that was said in a conversation.
type entry struct {
	id      string // tells it from the others
	head    string // when, who and to whom
	subject string // if it has one
	text    string
}

// size is about how much memory it takes.
func (e *entry) size() int { return len(e.id) + len(e.head) + len(e.subject) + len(e.text) + 64 }

// wrap breaks it into lines.
func (e *entry) wrap(width int) []line {
	lines := wrap(e.head, width, bold)
	if e.subject != "" {
		lines = append(lines, wrap(e.subject, width, bold)...)
	}
	if e.text != "" {
		lines = append(lines, wrap(e.text, width, plain)...)
	}
	return lines
}

// What is held of a conversation, and of one entry.
const (
	mostEntries = 5000
	mostHeld    = 32 << 20
	mostText    = 256 << 10
)

// backlog is the latest entries of a conversation, and how many older ones
// there were.
type backlog struct {
	entries []*entry
	size    int
	omitted int
}

func (b *backlog) add(e *entry) {
	if len(e.text) > mostText {
		end := mostText
		for end > 0 && !utf8.RuneStart(e.text[end]) {
			end--
		}
		e.text = strings.Clone(e.text[:end]) + fmt.Sprintf("\n(%d more bytes)", len(e.text)-end)
	}
	b.entries = append(b.entries, e)
	b.size += e.size()
	for len(b.entries) > mostEntries || b.size > mostHeld && len(b.entries) > 1 {
		b.size -= b.entries[0].size()
		b.entries[0] = nil
		b.entries = b.entries[1:]
		b.omitted++
	}
}

// A reader reads a conversation, again whenever there may be more of it. Its
// calls do not overlap; they may while the Source gathers.
type reader interface {
	// read is told which messages have come, or nil where that is not known.
	read(ctx context.Context, arrived []Message) reading
}

// reading is what a conversation holds.
type reading struct {
	// changed says that it may be something else than the last time; if not,
	// err alone is told.
	changed bool
	entries []*entry // the oldest first
	omitted int      // how many older ones are not among them
	// ties are what a message has that belongs to it.
	ties map[tie]bool
	err  error
}

// tie is a reason for a message to belong to a conversation: its conversation
// id, its own id, because another one answers it, or that of the one that it
// answers.
type tie struct {
	conversation schema.ConversationID
	id, answered schema.ID
}

// tiedBy reports whether a message has one of the ties.
func (m Message) tiedBy(ties map[tie]bool) bool {
	return m.ConversationID != "" && ties[tie{conversation: m.ConversationID}] || ties[tie{id: m.ID}] ||
		m.parent != "" && ties[tie{answered: m.parent}]
}

// messageReader reads the conversation of a message.
type messageReader struct {
	workspaces []*mailbox.Workspace
	id         schema.ID

	held backlog
	ties map[tie]bool
	last moment // of the message that was written last
}

func (r *messageReader) read(ctx context.Context, arrived []Message) reading {
	var err error
	if arrived == nil || !r.readMore(ctx, arrived) {
		err = r.readAll(ctx)
	}
	return reading{
		changed: true, entries: slices.Clone(r.held.entries), omitted: r.held.omitted, ties: maps.Clone(r.ties), err: err,
	}
}

// readAll looks for the conversation in all mailboxes.
func (r *messageReader) readAll(ctx context.Context) error {
	entries, err := r.thread(ctx)
	if len(entries) == 0 && err != nil {
		return err
	}
	r.held, r.ties, r.last = backlog{}, make(map[tie]bool, 3*len(entries)), moment{}
	for _, e := range entries {
		r.add(e)
	}
	return err
}

// readMore reads messages that continue the conversation. It is false where
// one may stand elsewhere in it than at the end, or tie others to it.
func (r *messageReader) readMore(ctx context.Context, arrived []Message) bool {
	for _, m := range arrived {
		tied := r.ties[tie{conversation: m.ConversationID}] && (m.parent == "" || r.ties[tie{answered: m.parent}])
		at := moment{string(m.CreatedAt), m.written}
		if m.ConversationID == "" || !tied || r.ties[tie{id: m.ID}] || r.ties[tie{answered: m.ID}] || at.compare(r.last) < 0 {
			return false
		}
		e, found := r.find(ctx, m.ID)
		if !found {
			return false
		}
		r.add(e)
	}
	return true
}

func (r *messageReader) find(ctx context.Context, id schema.ID) (mailbox.Entry, bool) {
	for _, w := range r.workspaces {
		if found, err := w.Find(ctx, string(id)); err == nil {
			return found[0], true
		}
	}
	return mailbox.Entry{}, false
}

func (r *messageReader) add(e mailbox.Entry) {
	m := e.Message
	r.held.add(&entry{
		id: string(m.ID), subject: m.Subject, text: bodyText(m.Body),
		head: m.CreatedAt.Time().Format(time.DateTime) + "  " + string(m.From) + " -> " + joinNames(m.To) +
			"  " + string(m.Type) + " " + string(m.Priority),
	})
	r.ties[tie{conversation: m.ConversationID}] = true
	r.ties[tie{id: m.ParentID}] = true
	r.ties[tie{answered: m.ID}] = true
	if at := momentOf(e); at.compare(r.last) > 0 {
		r.last = at
	}
}

// thread returns the messages of the conversation, in order.
func (r *messageReader) thread(ctx context.Context) ([]mailbox.Entry, error) {
	var entries []mailbox.Entry
	var failed error
	for _, w := range r.workspaces {
		found, err := w.Thread(ctx, string(r.id))
		entries = append(entries, found...)
		if missing := new(mailbox.NotFoundError); !errors.As(err, &missing) {
			failed = errors.Join(failed, err)
		}
	}
	return inOrder(entries), failed
}

// moment is when a message was made, and its file written: a second has room
// for many messages.
type moment struct {
	created string
	written time.Time
}

func momentOf(e mailbox.Entry) moment { return moment{string(e.Message.CreatedAt), e.Modified} }

func (m moment) compare(other moment) int {
	return cmp.Or(strings.Compare(m.created, other.created), m.written.Compare(other.written))
}

// inOrder sorts a conversation as sortMessages does, but puts no message
// before what it answers. That is how it comes, but for the order of messages
// of one second.
func inOrder(entries []mailbox.Entry) []mailbox.Entry {
	moments := make(map[schema.ID]moment, len(entries))
	for _, e := range entries {
		at := momentOf(e)
		if answered, ok := moments[e.Message.ParentID]; ok && at.compare(answered) < 0 {
			at = answered
		}
		moments[e.Message.ID] = at
	}
	slices.SortStableFunc(entries, func(a, b mailbox.Entry) int { return moments[a.Message.ID].compare(moments[b.Message.ID]) })
	return entries
}

// bodyText returns a body as text, a structured one as JSON.
func bodyText(body schema.Value) string {
	if len(body.Pairs) == 0 {
		return body.Text
	}
	data, err := json.MarshalIndent(body, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}
