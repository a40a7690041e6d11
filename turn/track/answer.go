package track

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// AnsweredError reports that an agent has answered a request before.
type AnsweredError struct {
	Request, Answer *schema.Message
	// Pending reports whether the request is still in the inbox of the agent.
	Pending bool
}

func (e *AnsweredError) Error() string {
	did := "answered"
	if e.Answer.IsDeclined() {
		did = "declined"
	}
	return fmt.Sprintf("%s %s message %s at %s with %s", e.Answer.From, did, e.Request.ID, e.Answer.CreatedAt, e.Answer.ID)
}

func (e *AnsweredError) Explain() (code, hint string) {
	hint = "oacp read " + e.Answer.ID.Short() + " shows the answer; --again sends another one"
	if e.Pending {
		hint += "; oacp ack " + e.Request.ID.Short() + " acknowledges the message"
	}
	return "already_answered", hint
}

// A BusyError reports that an agent answers a request on which a turn of a Runner works, or another process of the agent
// says that it works.
type BusyError struct {
	Request *schema.Message
	Agent   schema.AgentName
	// Since is when the turn began, or when the other process said so.
	Since time.Time
	// Process is the other process, or zero for a turn.
	Process process.Process
}

func (e *BusyError) Error() string {
	if e.Process.PID > 0 {
		return fmt.Sprintf("another process of %s, %d, says since %s that it works on message %s",
			e.Agent, e.Process.PID, schema.NewTimestamp(e.Since), e.Request.ID)
	}
	return fmt.Sprintf("a turn of oacp run for %s works on message %s since %s", e.Agent, e.Request.ID, schema.NewTimestamp(e.Since))
}

func (e *BusyError) Explain() (code, hint string) {
	return "already_working", "oacp status " + e.Request.ID.Short() + " shows how far it gets; --again sends an answer all the same"
}

// CheckBusy returns a *BusyError if a turn works on the request to which this process does not belong or, unless by is a
// person, if another living holder says that it works on it.
func CheckBusy(w *mailbox.Workspace, request *schema.Message, agent schema.AgentName, by Holder) error {
	state, err := newTracker(w).inbox(agent)
	if err != nil {
		return err
	}
	rec := state.history.Records[KeyOf(request)]
	if rec != nil && rec.saysWorking() && by != Person && rec.Working.holder() != by && rec.Working.holder().lives(rec.Working.At, time.Now()) {
		return &BusyError{request, agent, inSeconds(rec.Working.At), rec.Working.Process}
	}
	if !state.running || rec == nil || !rec.Running || rec.isOwn() {
		return nil
	}
	return &BusyError{Request: request, Agent: agent, Since: inSeconds(rec.Started)}
}

// A Slot is the place for the one answer of an agent to a message.
type Slot struct {
	// Answer is what fills it, nil if nothing does. Path is its file in the outbox.
	Answer *schema.Message
	Path   string
	// OfThisTurn reports whether the turn that this process belongs to has sent it.
	OfThisTurn bool
}

// Takes reports whether a message can still fill the slot: it is empty, or the agent declined and answers after all.
func (s Slot) Takes(m *schema.Message) bool {
	return s.Answer == nil || s.Answer.IsDeclined() && !m.IsDeclined()
}

// AnswerOf returns the slot of a message. A restore empties it: an answer that was sent before does not count. Callers hold
// the agent's Lock until what they send is in the outbox.
func AnswerOf(ctx context.Context, w *mailbox.Workspace, request *schema.Message, agent schema.AgentName) (slot Slot, err error) {
	sent, err := conversation.Responses(ctx, w, agent, []mailbox.Entry{{Message: request}})
	last := sent[request.ID]
	if err != nil || !last.Answers {
		return slot, err
	}
	h, err := ReadHistory(w, agent)
	if err != nil {
		return slot, err
	}
	at := last.Message.CreatedAt.Time()
	rec := h.Records[KeyOf(request)]
	if rec != nil && (at.Before(inSeconds(rec.Revived)) || at.Equal(inSeconds(rec.Revived)) && last.Modified.Before(rec.Revived)) {
		return slot, nil
	}
	isOwn := rec != nil && rec.Running && rec.isOwn() && !at.Before(inSeconds(rec.Started))
	return Slot{Answer: last.Message, Path: last.Path, OfThisTurn: isOwn}, nil
}

// Once returns the message to send for a key of the caller's choice: the draft, with an id and a time from now on, or what an
// earlier call with the same key returned. Callers hold the agent's Lock until it is sent.
func Once(w *mailbox.Workspace, agent schema.AgentName, key string, draft schema.Message) (schema.Message, error) {
	h, err := ReadHistory(w, agent)
	if err != nil {
		return draft, err
	}
	k := Key{Fingerprint: Fingerprint([]byte("once"), []byte(key))}
	if rec := h.Records[k]; rec != nil && rec.Once != nil {
		return *rec.Once, nil
	}
	at := time.Now()
	draft.CreatedAt = schema.NewTimestamp(at)
	if draft.ID, err = schema.NewID(at, agent, draft.Type, schema.LongRand, rand.Reader); err != nil {
		return draft, err
	}
	return draft, appendFacts(w, agent, Fact{Kind: once, Envelope: Envelope{Key: k}, Send: &draft})
}
