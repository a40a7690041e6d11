package track

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/schema"
)

// A FactKind is the kind of a line of the journal. Readers ignore kinds that they do not know.
type FactKind string

const (
	// Started is written before a turn begins. One of the next four ends the turn; lost is written
	// by the next Runner, for a turn that never ended.
	Started     FactKind = "started"
	Succeeded   FactKind = "succeeded"
	Failed      FactKind = "failed"
	Interrupted FactKind = "interrupted"
	Lost        FactKind = "lost"
	// Dead is a message that is given up, even without a turn.
	Dead FactKind = "dead"
	// Answered, bounced and unsendable end the sending of an answer or bounce.
	Answered   FactKind = "answered"
	Bounced    FactKind = "bounced"
	Unsendable FactKind = "unsendable"
	// Acknowledged and buried are a handled message, and a dead letter, that left the inbox.
	Acknowledged FactKind = "acknowledged"
	Buried       FactKind = "buried"
	// Revived is a message that is back in the inbox after its outcome: a person restored it. What
	// was recorded of it before does not count.
	Revived FactKind = "revived"
	// Held is a message that gets no turn for the time being.
	Held FactKind = "held"
	// noted is a message that the model of an interactive session has; see NoteNoticed.
	noted FactKind = "noticed"

	// Bound is a conversation, or a pair of agents within an hour, with too many turns; notified is
	// the notice about it that was sent, and resumed a person who lets it go on. They belong to no
	// message.
	Bound    FactKind = "bound"
	Notified FactKind = "notified"
	Resumed  FactKind = "resumed"

	// snapshot is the state of a message, a conversation or a sender in a compacted journal.
	snapshot FactKind = "snapshot"
)

// Fact is one line of the journal.
type Fact struct {
	At   time.Time `json:"at"`
	Kind FactKind  `json:"fact"`

	// Envelope identifies the message; see Of. Facts about a bound have only From or Conversation.
	Envelope

	// Marks are in the environment of the processes of a turn that started.
	Marks []orphans.Mark `json:"marks,omitempty"`

	Attempt int       `json:"attempt,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Output  string    `json:"output,omitempty"`
	RetryAt time.Time `json:"retry_at,omitzero"`
	Session string    `json:"session,omitempty"`
	// Program is that of a session that noticed the message.
	Program    string `json:"program,omitempty"`
	DurationMS int64  `json:"duration_ms,omitempty"`
	Usage      Usage  `json:"usage,omitzero"`
	// Send is the message to be sent next, complete with its id: sending it twice is sending it
	// once.
	Send *schema.Message `json:"send,omitempty"`
	// Sent is the id of the message that was sent.
	Sent schema.ID `json:"sent,omitempty"`

	Record *Record            `json:"record,omitempty"`
	Thread *conversationState `json:"conversation,omitempty"`
	Sender *senderState       `json:"sender,omitempty"`
}

// Envelope is what the journal and events say about a message.
type Envelope struct {
	Key
	From         schema.AgentName      `json:"from,omitempty"`
	Type         schema.Type           `json:"type,omitempty"`
	Subject      string                `json:"subject,omitempty"`
	Conversation schema.ConversationID `json:"conversation_id,omitempty"`
	// File is the name of its file in the inbox.
	File string `json:"file,omitempty"`
}

// Usage is what a turn used, as far as the agent says; see agent.Usage.
type Usage struct {
	// Turns is how often the model answered.
	Turns        int64   `json:"turns,omitempty"`
	InputTokens  int64   `json:"input_tokens,omitempty"`
	OutputTokens int64   `json:"output_tokens,omitempty"`
	CostUSD      float64 `json:"cost_usd,omitempty"`
}

// A Key identifies a message in a journal, even after its file is removed. An id alone does not: other tools make
// short ones, which collide.
type Key struct {
	ID schema.ID `json:"id,omitempty"`
	// Fingerprint is the beginning of a SHA-256 of what the message says.
	Fingerprint string `json:"fingerprint,omitempty"`
}

// KeyOf returns the key of a message with its whole body. The key does not depend on how the file is written.
func KeyOf(m *schema.Message) (Key, error) {
	data, err := m.MarshalJSON()
	if err != nil {
		return Key{}, err
	}
	return Key{ID: m.ID, Fingerprint: Fingerprint(data)}, nil
}

// Fingerprint returns the beginning of a SHA-256 of the parts, in hexadecimal digits.
func Fingerprint(data ...[]byte) string {
	hash := sha256.New()
	for _, part := range data {
		hash.Write(part)
		hash.Write([]byte{0})
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// About begins a fact about a message.
func (k FactKind) About(rec *Record) Fact {
	f := k.Of(&rec.Envelope)
	f.Attempt = rec.Attempts
	return f
}

// Of begins a fact about a message that had no turn yet. Facts that may be the first about a message describe it.
func (k FactKind) Of(m *Envelope) Fact {
	if k == Started || k == Dead || k == Held {
		return Fact{Kind: k, Envelope: *m}
	}
	return Fact{Kind: k, Envelope: Envelope{Key: m.Key}}
}
