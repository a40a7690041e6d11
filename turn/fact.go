package turn

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/schema"
)

// A factKind says what a line of the journal records.
type factKind string

const (
	// started is written before a turn begins. One of the next four ends the turn; lost is written
	// by the next Runner, for a turn that never ended.
	started     factKind = "started"
	succeeded   factKind = "succeeded"
	failed      factKind = "failed"
	interrupted factKind = "interrupted"
	lost        factKind = "lost"
	// dead is a message that is given up, even without a turn.
	dead factKind = "dead"
	// answered, bounced and unsendable end the sending of an answer or bounce.
	answered   factKind = "answered"
	bounced    factKind = "bounced"
	unsendable factKind = "unsendable"
	// acknowledged and buried are a handled message, and a dead letter, that left the inbox.
	acknowledged factKind = "acknowledged"
	buried       factKind = "buried"
	// removed is a message that another process removed from the inbox before it had an outcome.
	removed factKind = "removed"
	// revived is a message that is back in the inbox after its outcome: a person restored it. What
	// was recorded of it before does not count.
	revived factKind = "revived"
	// held is a message that gets no turn for the time being.
	held factKind = "held"
	// noticed is a message that the model of an interactive session has; see NoteNoticed.
	noticed factKind = "noticed"

	// bound is a conversation, or a pair of agents within an hour, with too many turns; notified is
	// the notice about it that was sent, and resumed a person who lets it go on. They belong to no
	// message.
	bound    factKind = "bound"
	notified factKind = "notified"
	resumed  factKind = "resumed"

	// snapshot is the state of a message, a conversation or a sender in a compacted journal.
	snapshot factKind = "snapshot"
)

// afterOutcome are the facts about a message that follow its outcome.
var afterOutcome = []factKind{answered, bounced, unsendable, acknowledged, buried}

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
	// Notice is in facts of earlier versions: the message counts toward no bound.
	Notice bool `json:"notice,omitempty"`

	// Marks are in the environment of the processes of a turn that started.
	Marks []orphans.Mark `json:"marks,omitempty"`

	Attempt int       `json:"attempt,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Output  string    `json:"output,omitempty"`
	RetryAt time.Time `json:"retry_at,omitzero"`
	Session string    `json:"session,omitempty"`
	// Program is that of a session that noticed the message.
	Program    string      `json:"program,omitempty"`
	DurationMS int64       `json:"duration_ms,omitempty"`
	Usage      agent.Usage `json:"usage,omitzero"`
	// Send is the message to be sent next, complete with its id: sending it twice is sending it
	// once.
	Send *schema.Message `json:"send,omitempty"`
	// By is the bound that holds a message, if it is one.
	By boundKind `json:"by,omitempty"`
	// Most is the bound on a pair of agents that tripped.
	Most int `json:"most,omitempty"`
	// Sent is the id of the message that was sent.
	Sent schema.ID `json:"sent,omitempty"`

	Record *record            `json:"record,omitempty"`
	Thread *conversationState `json:"conversation,omitempty"`
	Sender *senderState       `json:"sender,omitempty"`
}

// key identifies a message. An id alone does not: other tools make short ones, which collide.
type key struct {
	ID schema.ID `json:"id,omitempty"`
	// Fingerprint is the beginning of a SHA-256 of what the message says.
	Fingerprint string `json:"fingerprint,omitempty"`
}

// KeyOf returns the key of a message with its whole body. The key does not depend on how the file is written.
func KeyOf(m *schema.Message) (key, error) {
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

// of begins a fact about a message that had no turn yet. Facts that may be the first about a
// message describe it.
func (k factKind) of(m *envelope) fact {
	f := fact{Kind: k, key: m.key}
	if k == started || k == dead || k == held {
		f.File, f.From, f.Type, f.Subject, f.Conversation = m.File, m.From, m.Type, m.Subject, m.Conversation
	}
	return f
}
