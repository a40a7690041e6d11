package track

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/schema"
)

// A FactKind is the kind of a line of the journal. Readers ignore kinds that they do not know.
type FactKind string

const (
	// Started is written before a turn begins. One of the next four ends the turn. The next Runner writes
	// Lost for a turn that never ended.
	Started     FactKind = "started"
	Succeeded   FactKind = "succeeded"
	Failed      FactKind = "failed"
	Interrupted FactKind = "interrupted"
	Lost        FactKind = "lost"
	// Asked ends a turn that asked the sender of the message back: the message waits for the answer.
	Asked FactKind = "asked"
	// Dead is a message that is given up, even without a turn.
	Dead FactKind = "dead"
	// Answered, Bounced and Unsendable end the sending of an answer or bounce.
	Answered   FactKind = "answered"
	Bounced    FactKind = "bounced"
	Unsendable FactKind = "unsendable"
	// Acknowledged is a handled message that left the inbox, and Buried a dead letter.
	Acknowledged FactKind = "acknowledged"
	Buried       FactKind = "buried"
	// Revived is a message that a person restored to the inbox after its outcome, or after its turn was stopped. Earlier
	// facts about it no longer count.
	Revived FactKind = "revived"
	// Held is a message that gets no turn for now.
	Held FactKind = "held"
	// stopped asks the Runner to end the turn on a message and give it no other until Revived; see Stop.
	stopped FactKind = "stopped"
	// noted is a message that the model of an interactive session has; see NoteNoticed.
	noted FactKind = "noticed"
	// offered is a message that a holder is given, and returned one that is new again; see Offer and Return. unread is what
	// earlier versions wrote for that.
	offered  FactKind = "offered"
	returned FactKind = "returned"
	unread   FactKind = "unread"
	// awaitedReply is a reply that the turn on another message waited for and was shown; see NoteAwaited.
	awaitedReply FactKind = "awaited"
	// announced is a message that a holder was told of, without its text; see News.Announce.
	announced FactKind = "announced"
	// once is a message that the agent sends once; see Once.
	once FactKind = "once"
	// working is a message that the recipient says it works on, with a text; see NoteWorking. finished belongs to no
	// message: the agent works on none any more.
	working  FactKind = "working"
	finished FactKind = "finished"

	// Bound is a conversation, or a pair of agents within an hour, that has reached its limit on turns.
	// Notified says that the notice about that was sent, and Resumed that a person lifted the limit. They
	// belong to no message.
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

	// Envelope identifies the message; see Of. Facts about a bound have only From or Conversation, or
	// both if the chain of a conversation is too long.
	Envelope

	// Marks are in the environment of the processes of a Started turn.
	Marks []orphans.Mark `json:"marks,omitempty"`

	Attempt int `json:"attempt,omitempty"`
	// Full says that a turn Failed because its session has no room for more.
	Full bool `json:"full,omitempty"`
	// Questions are those of an Asked turn that may still be answered.
	Questions []schema.ID `json:"questions,omitempty"`
	// In is the message whose turn a Started one joined, or that waited for an awaitedReply.
	In      schema.ID `json:"in,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Output  string    `json:"output,omitempty"`
	RetryAt time.Time `json:"retry_at,omitzero"`
	Session string    `json:"session,omitempty"`
	// Program is the program of the session that noticed the message, and Process the process of the agent.
	Program string          `json:"program,omitempty"`
	Process process.Process `json:"process,omitzero"`
	// System is where the process is; see Holder. Unwritten is set if a holder that returns the message was shown nothing of it.
	System     string `json:"system,omitempty"`
	Unwritten  bool   `json:"unwritten,omitempty"`
	DurationMS int64  `json:"duration_ms,omitempty"`
	Usage      Usage  `json:"usage,omitzero"`
	// Text is what the recipient says about its work.
	Text string `json:"text,omitempty"`
	// Send is the message to send next. It has its id, so sending it again changes nothing.
	Send *schema.Message `json:"send,omitempty"`
	// Sent is the id of the message that was sent.
	Sent schema.ID `json:"sent,omitempty"`
	// RecalledAt is when its sender took the message back that is Revived.
	RecalledAt time.Time `json:"recalled_at,omitzero"`

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
	// Hops is how many turns in a row led to it, 0 if it begins a chain.
	Hops int `json:"hops,omitempty"`
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
// short ids, which collide.
type Key struct {
	ID schema.ID `json:"id,omitempty"`
	// Fingerprint is the beginning of a SHA-256 of the message's fields, or of the bytes of an invalid file.
	Fingerprint string `json:"fingerprint,omitempty"`
}

// KeyOf returns the key of a message with its whole body. The key does not depend on how the file is written.
func KeyOf(m *schema.Message) Key {
	data, _ := m.MarshalJSON() // never fails
	return Key{ID: m.ID, Fingerprint: Fingerprint(data)}
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

// About makes a fact about a message, with the number of its attempts.
func (k FactKind) About(rec *Record) Fact {
	f := k.Of(&rec.Envelope)
	f.Attempt = rec.Attempts
	return f
}

// Of makes a fact about a message. Kinds that may be the first about a message have its whole envelope, and others
// only its key.
func (k FactKind) Of(m *Envelope) Fact {
	if k == Started || k == Dead || k == Held {
		return Fact{Kind: k, Envelope: *m}
	}
	return Fact{Kind: k, Envelope: Envelope{Key: m.Key}}
}
