package turn

import (
	"context"
	"errors"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Stage is the state of a message with one recipient. A state is reported only once it is true.
type Stage string

// The stages of a message.
const (
	// StageStored is a message that is sent, and not in the inbox yet.
	StageStored Stage = "stored"
	// StageWaiting is a message in the inbox. If it had a turn already, that failed or never ended.
	StageWaiting Stage = "waiting"
	// StageHeld and StageExpired are messages in the inbox that get no turn.
	StageHeld    Stage = "held"
	StageExpired Stage = "expired"
	// StageInTurn is a message that an agent is working on.
	StageInTurn Stage = "in_turn"
	// StageDone is a message whose turn succeeded, or that somebody took out of the inbox.
	// StageAnswered is one that also has an answer.
	StageDone     Stage = "done"
	StageAnswered Stage = "answered"
	// StageDead is a dead letter.
	StageDead Stage = "dead"
)

// Progress is how far a message got with one recipient.
type Progress struct {
	ID schema.ID `json:"id"`
	// Agent is the recipient.
	Agent schema.AgentName `json:"agent"`
	Stage Stage            `json:"stage"`
	// Reason says why the message is held or dead, how its last turn failed, or why it has no
	// answer.
	Reason string `json:"reason,omitempty"`
	// Attempts counts the turns on it. Started and Ended are those of the last one.
	Attempts int       `json:"attempts"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	// RetryAt is when there will be another turn.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Answer is the id of the answer.
	Answer schema.ID `json:"answer,omitempty"`
	// Path is the recipient's copy, if there is one.
	Path string `json:"path,omitempty"`
}

// Track returns how far a message got with each of its recipients. The id may be the unique
// beginning of one. Track changes nothing. Its errors are those of Workspace.Find.
func Track(ctx context.Context, w *mailbox.Workspace, id string) ([]Progress, error) {
	found, err := w.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	m := found[0].Message
	var all []Progress
	for _, name := range m.To {
		p, err := track(ctx, w, m, name, found)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func track(ctx context.Context, w *mailbox.Workspace, m *schema.Message, name schema.AgentName, found []mailbox.Entry) (Progress, error) {
	p := Progress{ID: m.ID, Agent: name}
	running, _, err := lockOf(w, name).Held()
	if err != nil {
		return p, err
	}
	h, err := readHistory(w, name)
	if err != nil {
		return p, err
	}
	rec := recordFor(h, m)
	if rec == nil {
		rec = &record{}
	}
	p.Attempts, p.Started, p.Ended, p.Reason = rec.Attempts, rec.Started, rec.Ended, rec.Reason
	places := make(map[mailbox.Box]mailbox.Entry)
	for _, e := range found {
		if e.Agent == name && e.Box != mailbox.Outbox {
			places[e.Box] = e
			p.Path = e.Path
		}
	}
	if inbox, ok := places[mailbox.Inbox]; ok {
		p.Path = inbox.Path
		p.Stage = stageInInbox(m, rec, running, time.Now())
		if p.Stage == StageHeld {
			p.Reason = rec.Held
		}
		if p.Stage == StageWaiting {
			p.RetryAt = rec.RetryAt
		}
		return p, nil
	}
	return p, p.trackGone(ctx, w, m, rec, places)
}

// stageInInbox returns the stage of a message in the inbox.
func stageInInbox(m *schema.Message, rec *record, running bool, now time.Time) Stage {
	switch {
	case rec != nil && rec.Running && running:
		return StageInTurn
	case rec != nil && rec.Outcome == succeeded:
		return StageDone
	case m.ExpiredAt(now):
		return StageExpired
	case rec != nil && rec.Held != "":
		return StageHeld
	}
	return StageWaiting
}

// trackGone fills in what became of a message that is not in the inbox.
func (p *Progress) trackGone(ctx context.Context, w *mailbox.Workspace, m *schema.Message, rec *record, places map[mailbox.Box]mailbox.Entry) error {
	if letter, ok := places[mailbox.DeadLetters]; ok && rec.Outcome != succeeded {
		p.Stage = StageDead
		reason, err := w.Reason(letter)
		switch {
		case err == nil:
			p.Reason, p.Attempts = reason.Reason, reason.Attempts
		case !mailbox.IsGone(err):
			return err
		}
		return nil
	}
	if rec.Outcome == dead {
		p.Stage = StageDead
		return nil
	}
	if queued, err := w.IsQueued(m.ID, p.Agent); queued || err != nil {
		p.Stage = StageStored
		return err
	}
	p.Stage, p.Answer = StageDone, rec.Sent
	if rec.Outcome == "" {
		p.Reason = "" // how an earlier turn failed
	}
	if p.Answer == "" {
		var err error
		if p.Answer, err = answerBy(ctx, w, m, p.Agent); err != nil {
			return err
		}
	}
	if p.Answer != "" {
		p.Stage = StageAnswered
	}
	return nil
}

// answerBy returns the id of an answer that the agent sent without a Runner, or the empty id.
func answerBy(ctx context.Context, w *mailbox.Workspace, m *schema.Message, name schema.AgentName) (schema.ID, error) {
	sent, err := w.List(ctx, name, mailbox.Outbox)
	var unknown *mailbox.UnknownAgentError
	if err != nil && !errors.As(err, &unknown) {
		return "", err
	}
	for _, e := range sent {
		if e.Message != nil && e.Message.ParentID == m.ID && e.Message.IsFor(m.From) {
			return e.Message.ID, nil
		}
	}
	return "", nil
}
