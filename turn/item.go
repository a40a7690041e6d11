package turn

import (
	"cmp"
	"strings"
	"time"
	"unique"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// envelope is what the journal and events say about a message.
type envelope struct {
	key
	File         string                `json:"file,omitempty"`
	From         schema.AgentName      `json:"from,omitempty"`
	Type         schema.Type           `json:"type,omitempty"`
	Subject      string                `json:"subject,omitempty"`
	Conversation schema.ConversationID `json:"conversation_id,omitempty"`
}

// item is a message in the inbox. It holds what orders and describes the message, not its text, so
// that a large inbox fits in memory; the file is read again for a turn. The journal holds what was
// done about it.
type item struct {
	envelope
	priority schema.Priority
	created  schema.Timestamp
	// expires is zero for a message that never expires.
	expires time.Time
	// notice says that the message is a bounce or a notice about a bound.
	notice bool
	// notBefore is when to try again after a failure that is not the message's fault.
	notBefore time.Time
	state     itemState
	// replacement is the message that replaced this one in its file while it was in work.
	replacement *item
	// reported is the reason that was last reported for the message to wait.
	reported string
}

// itemState is the place of an item in the schedule.
type itemState int

const (
	// queued items are in their lanes.
	queued itemState = iota
	inWork
	// skipped and expired items are in no lane: they get no turn and hold up no other message.
	skipped
	expired
)

// newItem makes an item of a message in the inbox. Its texts are copies: the message's own would
// keep the whole file in memory.
func newItem(file string, m *schema.Message) (*item, error) {
	k, err := keyOf(m)
	if err != nil {
		return nil, err
	}
	return &item{
		envelope: envelope{
			key:  key{ID: clone(m.ID), Fingerprint: k.Fingerprint},
			File: clone(file), From: intern(m.From), Type: intern(m.Type), Subject: clone(m.Subject),
			Conversation: clone(mailbox.ConversationOf(m)),
		},
		priority: intern(m.Priority), created: clone(m.CreatedAt), expires: m.ExpiresAt.Time(), notice: isNotice(m),
	}, nil
}

func clone[Text ~string](text Text) Text { return Text(strings.Clone(string(text))) }

// intern is clone for texts that many messages share.
func intern[Text ~string](text Text) Text { return Text(unique.Make(string(text)).Value()) }

// compare orders items as they are to be processed.
func (it *item) compare(other *item) int {
	a := schema.Message{ID: it.ID, Type: it.Type, Priority: it.priority, CreatedAt: it.created}
	b := schema.Message{ID: other.ID, Type: other.Type, Priority: other.priority, CreatedAt: other.created}
	return cmp.Or(schema.Compare(&a, &b), cmp.Compare(it.File, other.File))
}
