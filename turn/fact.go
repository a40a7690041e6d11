package turn

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/schema"
)

// A factKind says what a line of the journal tells.
type factKind string

// The kinds of facts. Those up to buried are about a message.
const (
	// started is written before a turn begins. The others, up to dead, end it:
	// lost is written by the next Runner for a turn that never ended.
	started     factKind = "started"
	succeeded   factKind = "succeeded"
	failed      factKind = "failed"
	interrupted factKind = "interrupted"
	lost        factKind = "lost"
	// dead is a message that is given up, even without a turn.
	dead factKind = "dead"
	// answered, bounced and unsendable say what became of the message that a
	// success or a dead letter is to be followed by.
	answered   factKind = "answered"
	bounced    factKind = "bounced"
	unsendable factKind = "unsendable"
	// acknowledged and buried say that the message has left the inbox.
	acknowledged factKind = "acknowledged"
	buried       factKind = "buried"
	// removed says that somebody took the message out of the inbox before
	// anything came of it.
	removed factKind = "removed"
	// revived is a dead letter that somebody put back into the inbox.
	revived factKind = "revived"
	// held is a message that gets no turn for the time being.
	held factKind = "held"

	// bound is a conversation, or an agent within an hour, that had too many
	// turns; notified says that both sides were told, and resumed that a
	// person lets it go on.
	bound    factKind = "bound"
	notified factKind = "notified"
	resumed  factKind = "resumed"

	// snapshot carries what is known of a message, a conversation or a sender
	// when the journal is written anew.
	snapshot factKind = "snapshot"
)

// fact is one line of the journal.
type fact struct {
	At   time.Time `json:"at"`
	Kind factKind  `json:"fact"`

	key
	File         string                `json:"file,omitempty"`
	From         schema.AgentName      `json:"from,omitempty"`
	Type         schema.Type           `json:"type,omitempty"`
	Subject      string                `json:"subject,omitempty"`
	Conversation schema.ConversationID `json:"conversation_id,omitempty"`
	// Notice says that the message is a notice of Postmaster.
	Notice bool `json:"notice,omitempty"`

	// Marks are borne by the processes of a turn that has started.
	Marks []orphans.Mark `json:"marks,omitempty"`

	Attempt    int         `json:"attempt,omitempty"`
	Reason     string      `json:"reason,omitempty"`
	Output     string      `json:"output,omitempty"`
	RetryAt    time.Time   `json:"retry_at,omitzero"`
	Session    string      `json:"session,omitempty"`
	DurationMS int64       `json:"duration_ms,omitempty"`
	Usage      agent.Usage `json:"usage,omitzero"`
	// Send is the message to be sent because of the fact, complete with its
	// id, so that sending it twice is sending it once.
	Send *schema.Message `json:"send,omitempty"`
	// By is what holds a message, if that is a bound.
	By boundKind `json:"by,omitempty"`
	// Most is the bound on a pair of agents that has tripped.
	Most int `json:"most,omitempty"`
	// Sent is the id of what was sent.
	Sent schema.ID `json:"sent,omitempty"`

	Record *record            `json:"record,omitempty"`
	Thread *conversationState `json:"conversation,omitempty"`
	Sender *senderState       `json:"sender,omitempty"`
}

// key tells messages apart. Ids alone do not: other tools make them short, and
// they collide.
type key struct {
	ID schema.ID `json:"id,omitempty"`
	// Fingerprint is the beginning of a SHA-256 of what the message says.
	Fingerprint string `json:"fingerprint,omitempty"`
}

// keyOf returns the message's key. It does not depend on how the file is
// written.
func keyOf(m *schema.Message) (key, error) {
	data, err := m.MarshalJSON()
	if err != nil {
		return key{}, err
	}
	return key{ID: m.ID, Fingerprint: fingerprint(data)}, nil
}

func fingerprint(data ...[]byte) string {
	hash := sha256.New()
	for _, part := range data {
		hash.Write(part)
		hash.Write([]byte{0})
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// about begins a fact about a message.
func (k factKind) about(rec *record) fact {
	f := k.of(&rec.envelope)
	f.Attempt = rec.Attempts
	return f
}

// of begins a fact about a message that had no turn yet.
func (k factKind) of(m *envelope) fact {
	f := fact{Kind: k, key: m.key}
	if k == started || k == dead || k == held {
		f.File, f.From, f.Type, f.Subject, f.Conversation, f.Notice = m.File, m.From, m.Type, m.Subject, m.Conversation, m.Notice
	}
	return f
}
