package turn

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// AgentStatus is the state of an agent's inbox.
type AgentStatus struct {
	Agent schema.AgentName `json:"agent"`
	// Running says that a Runner works the inbox. Runner is its process, if that is known.
	Running bool    `json:"running"`
	Runner  *Holder `json:"runner,omitempty"`
	// Pending counts the messages in the inbox that have a turn or wait for one. Held, Expired and
	// Invalid count the others.
	Pending int `json:"pending"`
	Held    int `json:"held"`
	Expired int `json:"expired"`
	Invalid int `json:"invalid"`
	// Oldest is when the oldest pending message was created.
	Oldest      time.Time `json:"oldest,omitzero"`
	DeadLetters int       `json:"dead_letters"`
	// InTurn are the messages that have a turn now.
	InTurn []Turn `json:"in_turn,omitempty"`
	// Last is the turn that ended last, and Failures how many failed since the last success.
	Last     *Turn `json:"last,omitempty"`
	Failures int   `json:"failures"`
	// Conversations are those with messages in the inbox, those with a turn within the hour, and
	// those that wait for Resume; the latest first.
	Conversations []Conversation `json:"conversations,omitempty"`
}

// Turn is a turn on a message.
type Turn struct {
	ID           schema.ID             `json:"id"`
	From         schema.AgentName      `json:"from"`
	Type         schema.Type           `json:"type"`
	Subject      string                `json:"subject"`
	Conversation schema.ConversationID `json:"conversation_id"`
	Attempt      int                   `json:"attempt"`
	Started      time.Time             `json:"started"`
	Ended        time.Time             `json:"ended,omitzero"`
	Succeeded    bool                  `json:"succeeded"`
	Reason       string                `json:"reason,omitempty"`
	Usage        agent.Usage           `json:"usage,omitzero"`
}

// Conversation is the state of a conversation.
type Conversation struct {
	ID   schema.ConversationID `json:"id"`
	With schema.AgentName      `json:"with"`
	// Turns counts since the conversation began or a person resumed it.
	Turns int `json:"turns"`
	// Bound says that it has had as many turns as are allowed.
	Bound bool      `json:"bound"`
	Last  time.Time `json:"last"`
}

// Status returns the states of the agents' inboxes, or of all inboxes if no agent is named. It
// changes nothing.
func Status(ctx context.Context, w *mailbox.Workspace, agents ...schema.AgentName) ([]AgentStatus, error) {
	if len(agents) == 0 {
		all, err := w.Agents()
		if err != nil {
			return nil, err
		}
		agents = all
	}
	statuses := make([]AgentStatus, 0, len(agents))
	for _, name := range agents {
		status, err := statusOf(ctx, w, name)
		if err != nil {
			return nil, err
		}
		statuses = append(statuses, status)
	}
	return statuses, nil
}

func statusOf(ctx context.Context, w *mailbox.Workspace, name schema.AgentName) (AgentStatus, error) {
	s := AgentStatus{Agent: name}
	entries, err := w.List(ctx, name, mailbox.Inbox) // with the bodies: keys depend on them
	if err != nil {
		return s, err
	}
	if s.Running, s.Runner, err = lockOf(w, name).Held(); err != nil {
		return s, err
	}
	h, err := readHistory(w, name)
	if err != nil {
		return s, err
	}
	dead, err := w.List(ctx, name, mailbox.DeadLetters)
	if err != nil {
		return s, err
	}
	s.DeadLetters = len(dead)
	now := time.Now()
	waiting := make(map[schema.ConversationID]bool)
	ids := make(map[schema.ID]bool, len(h.records))
	for k := range h.records {
		ids[k.ID] = true
	}
	for _, e := range entries {
		rec := new(record)
		if e.Err == nil && ids[e.Message.ID] {
			rec = recordFor(h, e.Message)
		}
		s.count(e, rec, now, waiting)
	}
	for _, rec := range h.records {
		if rec.Running && s.Running {
			s.InTurn = append(s.InTurn, turnOf(rec))
		}
	}
	slices.SortFunc(s.InTurn, func(a, b Turn) int { return a.Started.Compare(b.Started) })
	if h.last != nil {
		last := turnOf(h.last)
		s.Last, s.Failures = &last, h.failures
	}
	s.Conversations = conversationsOf(h, now, waiting)
	return s, nil
}

// count counts a message in the inbox.
func (s *AgentStatus) count(e mailbox.Entry, rec *record, now time.Time, waiting map[schema.ConversationID]bool) {
	if e.Err != nil {
		s.Invalid++
		return
	}
	waiting[conversation.Of(e.Message)] = true
	switch stageInInbox(e.Message, rec, s.Running, now) {
	case StageHeld:
		s.Held++
	case StageExpired:
		s.Expired++
	default:
		s.Pending++
		if at := e.Message.CreatedAt.Time(); s.Oldest.IsZero() || at.Before(s.Oldest) {
			s.Oldest = at
		}
	}
}

// recordFor returns the record of a message, which is empty if there is none.
func recordFor(h *history, m *schema.Message) *record {
	k, err := keyOf(m)
	if rec := h.records[k]; err == nil && rec != nil {
		return rec
	}
	return new(record)
}

func turnOf(rec *record) Turn {
	t := Turn{
		ID: rec.ID, From: rec.From, Type: rec.Type, Subject: rec.Subject, Conversation: rec.Conversation,
		Attempt: rec.Attempts, Started: rec.Started,
	}
	if !rec.Running {
		t.Ended, t.Succeeded, t.Reason, t.Usage = rec.Ended, rec.Outcome == succeeded, rec.Reason, rec.Usage
	}
	return t
}

func conversationsOf(h *history, now time.Time, waiting map[schema.ConversationID]bool) []Conversation {
	var conversations []Conversation
	for id, c := range h.conversations {
		if c.With != "" && (c.Bound || waiting[id] || now.Sub(c.Last) < pairWindow) {
			conversations = append(conversations, Conversation{ID: id, With: c.With, Turns: c.Turns, Bound: c.Bound, Last: c.Last})
		}
	}
	slices.SortFunc(conversations, func(a, b Conversation) int { return b.Last.Compare(a.Last) })
	return conversations
}

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
	// StageDone is a message whose turn succeeded, or that was acknowledged.
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
	recipients := m.To
	if len(recipients) == 0 { // it is not valid
		recipients = []schema.AgentName{found[0].Agent}
	}
	var all []Progress
	for _, name := range recipients {
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
		if inbox.Err != nil {
			p.Reason = "it is not valid: " + inbox.Err.Error()
		}
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
	case rec.Running && running:
		return StageInTurn
	case rec.Outcome == succeeded:
		return StageDone
	case m.ExpiredAt(now):
		return StageExpired
	case rec.Held != "":
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
		if e.Err == nil && e.Message.ParentID == m.ID && e.Message.IsFor(m.From) {
			return e.Message.ID, nil
		}
	}
	return "", nil
}
