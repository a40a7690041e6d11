package turn

import (
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// item is a message in the inbox.
type item struct {
	entry mailbox.Entry
	// record describes the message; what was done about it is in the journal.
	record record
	// expires is zero for a message that never does.
	expires time.Time
	// notBefore is when to try again after trouble that is not the message's.
	notBefore time.Time
	// busy says that somebody is at work on it.
	busy bool
	// replacement is what came into the file's place meanwhile.
	replacement *item
	// reported is what was last told about why it waits.
	reported string
}

// newItem makes an item of an inbox entry that is a message. Of its text no
// more is kept than what puts it in its place: an inbox may be long.
func newItem(e mailbox.Entry) (*item, error) {
	m := e.Message
	k, err := keyOf(m)
	if err != nil {
		return nil, err
	}
	e.Message = &schema.Message{ID: m.ID, From: m.From, Type: m.Type, Priority: m.Priority, CreatedAt: m.CreatedAt}
	return &item{entry: e, expires: m.ExpiresAt.Time(), record: recordOf(e.Name, m, k)}, nil
}

func recordOf(file string, m *schema.Message, k key) record {
	return record{
		key: k, File: file, From: m.From, Type: m.Type, Subject: m.Subject,
		Conversation: mailbox.ConversationOf(m), Notice: isNotice(m),
	}
}

// queue holds the inbox in processing order.
type queue struct {
	items  []*item
	byName map[string]*item
	// sorted is how many items are in order; those behind came later.
	sorted int
}

func newQueue() *queue { return &queue{byName: make(map[string]*item)} }

// add puts an item in, in place of one of the same file that nobody works on.
func (q *queue) add(it *item) {
	q.remove(it.entry.Name)
	q.byName[it.entry.Name] = it
	q.items = append(q.items, it)
}

// remove takes the item of a file out, if there is one.
func (q *queue) remove(name string) {
	it := q.byName[name]
	if it == nil {
		return
	}
	delete(q.byName, name)
	i := slices.Index(q.items, it)
	q.items = slices.Delete(q.items, i, i+1)
	if i < q.sorted {
		q.sorted--
	}
}

// inOrder returns the items in processing order.
func (q *queue) inOrder() []*item {
	if q.sorted < len(q.items) {
		slices.SortFunc(q.items, compareItems)
		q.sorted = len(q.items)
	}
	return q.items
}

func compareItems(a, b *item) int {
	if c := schema.Compare(a.entry.Message, b.entry.Message); c != 0 {
		return c
	}
	return strings.Compare(a.entry.Name, b.entry.Name)
}
