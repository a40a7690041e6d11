package track

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
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
	if e.Answer.Marks.Declined {
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
	return "already_working", "oacp status " + e.Request.ID.Short() + " shows how far it gets; --again sends it all the same"
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
	// Asked are the questions back that the last turn on the message has sent and that may still be answered, the oldest first.
	// There are none if the slot is filled.
	Asked []*schema.Message
	// Answer is what fills it, nil if nothing does. Path is its file in the outbox.
	Answer *schema.Message
	Path   string
	// OfThisTurn reports whether the turn that this process belongs to has sent it.
	OfThisTurn bool
}

// A RecalledError says that the sender of a message has taken it back.
type RecalledError struct {
	Message *schema.Message
	At      schema.Timestamp
}

func (e *RecalledError) Error() string {
	return fmt.Sprintf("message %s was recalled: %s took it back at %s", e.Message.ID, e.Message.From, e.At)
}

func (e *RecalledError) Explain() (code, hint string) {
	return "recalled", "leave the message: " + string(e.Message.From) + " does not want an answer any more"
}

// CheckRecalled returns a *RecalledError if, of these files of a message, the agent has one because the sender took the message
// back, and none in its inbox.
func CheckRecalled(w *mailbox.Workspace, agent schema.AgentName, found []mailbox.Entry) error {
	isOwn := func(box mailbox.Box) int {
		return slices.IndexFunc(found, func(e mailbox.Entry) bool { return e.Agent == agent && e.Box == box })
	}
	i := isOwn(mailbox.DeadLetters)
	if i < 0 || isOwn(mailbox.Inbox) >= 0 {
		return nil
	}
	if reason, err := w.Reason(found[i]); err == nil && reason.RecalledBy != "" {
		return &RecalledError{found[i].Message, reason.At}
	}
	return nil
}

// FindRecall is CheckRecalled for the files that the agent has of a message now.
func FindRecall(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, id schema.ID) error {
	letters, err := mailbox.Copies(ctx, w, id, agent, mailbox.DeadLetters)
	if err != nil || len(letters) == 0 {
		return err
	}
	pending, err := mailbox.Copies(ctx, w, id, agent, mailbox.Inbox)
	return cmp.Or(err, CheckRecalled(w, agent, append(letters, pending...)))
}

// Takes reports whether a message can still fill the slot: it is empty, or the agent declined and answers after all.
func (s Slot) Takes(m *schema.Message) bool {
	return s.Answer == nil || s.Answer.Marks.Declined && !m.Marks.Declined
}

// AnswerOf returns the slot of a message. A restore empties it: an answer that was sent before does not count. Callers hold
// the lock of Exclusively until what they send is in the outbox.
func AnswerOf(ctx context.Context, w *mailbox.Workspace, request *schema.Message, agent schema.AgentName) (Slot, error) {
	return slotOf(ctx, w, request, agent, func() (*Record, error) {
		h, err := ReadHistory(w, agent)
		if err != nil {
			return nil, err
		}
		return h.Records[KeyOf(request)], nil
	})
}

// Slot is AnswerOf for a message that may have left the inbox.
func (rec *Record) Slot(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName) (Slot, error) {
	return slotOf(ctx, w, rec.request(agent), agent, func() (*Record, error) { return rec, nil })
}

// request returns what the record knows of the message.
func (rec *Record) request(agent schema.AgentName) *schema.Message {
	m := &schema.Message{ID: rec.ID, From: rec.From, To: []schema.AgentName{agent}, Type: rec.Type}
	if name, err := schema.ParseFileName(rec.File); err == nil {
		m.CreatedAt = schema.NewTimestamp(name.At)
	}
	return m
}

func slotOf(ctx context.Context, w *mailbox.Workspace, request *schema.Message, agent schema.AgentName, record func() (*Record, error)) (slot Slot, err error) {
	sent, err := conversation.Responses(ctx, w, agent, []mailbox.Entry{{Message: request}})
	last := sent[request.ID]
	if err != nil || last.Message == nil {
		return slot, err
	}
	rec, err := record()
	switch {
	case err != nil:
		return slot, err
	case !last.Answers, rec != nil && rec.isOutdated(last.Message, last.Modified):
		slot.Asked, err = rec.askedBack(ctx, w, request, agent)
		return slot, err
	}
	isOwn := rec != nil && rec.Running && rec.isOwn() && rec.isOfTurn(last.Message, last.Modified)
	return Slot{Answer: last.Message, Path: last.Path, OfThisTurn: isOwn}, nil
}

// isOutdated reports whether an answer, whose file was written at that time, does not count any more: the message that it
// answers was restored since.
func (rec *Record) isOutdated(answer *schema.Message, modified time.Time) bool {
	return wasSentBefore(answer, modified, rec.Revived)
}

// wasSentBefore reports whether a message, in a file that was written at the time modified, was sent before another time.
func wasSentBefore(m *schema.Message, modified, then time.Time) bool {
	at, second := m.CreatedAt.Time(), inSeconds(then)
	return at.Before(second) || at.Equal(second) && modified.Before(then)
}

// isOfTurn reports whether a reply was sent during the last turn on the message.
func (rec *Record) isOfTurn(reply *schema.Message, modified time.Time) bool {
	const lag = 10 * time.Millisecond // of the times of files behind the clock
	return !rec.Started.IsZero() && !wasSentBefore(reply, modified.Add(lag), rec.Started) && (rec.Running || wasSentBefore(reply, modified, rec.Ended))
}

// Once returns the message to send for a key of the caller's choice: the draft, with an id and a time from now on, or what an
// earlier call with the same key returned. Sign requires a signature. The error matches mailbox.ErrNotSealed if others wrote
// that message. Callers hold the lock of Exclusively until it is sent.
func Once(w *mailbox.Workspace, agent schema.AgentName, key string, draft schema.Message, sign bool) (schema.Message, error) {
	h, err := ReadHistory(w, agent)
	if err != nil {
		return draft, err
	}
	k := Key{Fingerprint: Fingerprint([]byte("once"), []byte(key))}
	if rec := h.Records[k]; rec != nil && rec.Once != nil {
		noted := *rec.Once
		err := w.CheckSeal(&noted, sign)
		if noted.From != agent {
			err = fmt.Errorf("message %s of %s %w", noted.ID, noted.From, mailbox.ErrNotSealed)
		}
		noted.Auth = ""
		return noted, err
	}
	at := time.Now()
	draft.CreatedAt = schema.NewTimestamp(at)
	if draft.ID, err = schema.NewID(at, agent, draft.Type, schema.LongRand, rand.Reader); err != nil {
		return draft, err
	}
	draft.Priority = cmp.Or(draft.Priority, schema.DefaultPriority)
	noted := draft
	if err := w.Seal(&noted, sign); err != nil {
		return draft, err
	}
	return draft, appendFacts(w, agent, Fact{Kind: once, Envelope: Envelope{Key: k}, Send: &noted})
}
