package turn

import (
	"cmp"
	"strings"
	"time"
	"unique"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// envelope is what the journal, and whoever watches, is told of a message
// itself.
type envelope struct {
	key
	File         string                `json:"file,omitempty"`
	From         schema.AgentName      `json:"from,omitempty"`
	Type         schema.Type           `json:"type,omitempty"`
	Subject      string                `json:"subject,omitempty"`
	Conversation schema.ConversationID `json:"conversation_id,omitempty"`
	// Notice says that the message is a notice of Postmaster, which counts
	// toward no bound.
	Notice bool `json:"notice,omitempty"`
}

// item is a message in the inbox. An inbox may be long, so of the message no
// more is kept than its envelope and what puts it in its place; it is read
// again when its turn comes. What was done about it is in the journal.
type item struct {
	envelope
	urgency unique.Handle[urgency]
	created schema.Timestamp
	// expires is zero for a message that never does.
	expires time.Time
	// notBefore is when to try again after trouble that is not the message's.
	notBefore time.Time
	// place is where it is in its lane, or aside.
	place int
	// busy says that somebody is at work on it, and aside that it has been
	// passed over: it gets no turn and keeps no other message from one.
	busy, aside bool
	// replacement is what came into the file's place meanwhile.
	replacement *item
	// reported is what was last told about why it waits.
	reported string
}

// urgency is what orders messages before their age does.
type urgency struct {
	priority schema.Priority
	kind     schema.Type
}

// newItem makes an item of a message in the inbox. Its texts are copies: those
// of the message would keep the whole file in memory.
func newItem(file string, m *schema.Message) (*item, error) {
	k, err := keyOf(m)
	if err != nil {
		return nil, err
	}
	of := unique.Make(urgency{m.Priority, m.Type})
	return &item{
		envelope: envelope{
			key:  key{ID: clone(m.ID), Fingerprint: k.Fingerprint},
			File: clone(file), From: intern(m.From), Type: of.Value().kind, Subject: clone(m.Subject),
			Conversation: clone(mailbox.ConversationOf(m)), Notice: isNotice(m),
		},
		urgency: of, created: clone(m.CreatedAt), expires: m.ExpiresAt.Time(),
	}, nil
}

func clone[Text ~string](text Text) Text { return Text(strings.Clone(string(text))) }

// intern is clone for texts that many messages have.
func intern[Text ~string](text Text) Text { return Text(unique.Make(string(text)).Value()) }

// compare orders items as they are to be processed.
func (it *item) compare(other *item) int {
	if it.urgency != other.urgency {
		if c := schema.Compare(it.urgency.Value().message(), other.urgency.Value().message()); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(it.created, other.created), cmp.Compare(it.ID, other.ID), cmp.Compare(it.File, other.File))
}

func (u urgency) message() *schema.Message {
	return &schema.Message{Priority: u.priority, Type: u.kind}
}
