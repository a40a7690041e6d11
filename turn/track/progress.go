package track

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Stage is the state of a message with one recipient. A state is reported only once it is true.
type Stage string

// The stages of a message.
const (
	// StageStored is a message that is sent, and not in the inbox yet.
	StageStored Stage = "stored"
	// StageWaiting is a message in the inbox. If it had a turn already, that failed or never ended.
	StageWaiting Stage = "waiting"
	// StageNoticed is a message in the inbox that has had no turn since the model of an interactive
	// session got it; see NoteNoticed. It stays noticed when that session ends.
	StageNoticed Stage = "noticed"
	// StageHeld and StageExpired are messages in the inbox that get no turn.
	StageHeld    Stage = "held"
	StageExpired Stage = "expired"
	// StageWorking is a message that an agent is working on.
	StageWorking Stage = "working"
	// StageDone is a message that was acknowledged, or whose turn succeeded. StageAnswered is one with
	// an answer; see schema.Message.Answers.
	StageDone     Stage = "done"
	StageAnswered Stage = "answered"
	// StageDead is a dead letter.
	StageDead Stage = "dead"
	// StageUnknown is a message that may be in a folder that could not be read, or of which no copy is
	// left, as the reason says.
	StageUnknown Stage = "unknown"
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
	// Noticed are the sessions that noticed the message, at whatever stage it is now.
	Noticed []Noticed `json:"noticed,omitempty"`
	// Answer is the id of the first reply that answers the message. Replies are all messages of the
	// recipient that name it as their parent, the oldest first.
	Answer  schema.ID `json:"answer,omitempty"`
	Replies []Reply   `json:"replies,omitempty"`
	// Claim is the claim of a machine on a pending message, as of the last sync. Track leaves it empty.
	Claim *Claim `json:"claim,omitempty"`
	// Path is the recipient's copy, if there is one.
	Path string `json:"path,omitempty"`
}

// Claim names the machine that works on a message.
type Claim struct {
	Machine string `json:"machine"`
	// State is that of a gitmail.Claim, and Attempt how many turns on the message began on any machine.
	State   string    `json:"state"`
	Attempt int       `json:"attempt"`
	Since   time.Time `json:"since"`
	Renewed time.Time `json:"renewed"`
}

// Reply is a message of a recipient that names another one as its parent.
type Reply struct {
	ID        schema.ID        `json:"id"`
	Type      schema.Type      `json:"type"`
	CreatedAt schema.Timestamp `json:"created_at_utc"`
	// Answers reports whether it answers that message.
	Answers bool `json:"answers"`
}

// Track returns how far a message got with each of its recipients. The id may be the unique
// beginning of one. Track changes nothing. Its errors are those of Workspace.Find. It returns an
// *mailbox.UnreadableError with the progress if a stage is unknown.
func Track(ctx context.Context, w *mailbox.Workspace, id string) ([]Progress, error) {
	t := newTracker(w)
	found, err := w.Find(ctx, id)
	if t.unreadable, err = mailbox.SplitUnreadable(err); err != nil {
		return nil, err
	}
	m := found[0].Message
	replies, err := repliesTo(ctx, w, []*schema.Message{m})
	if err != nil {
		return nil, err
	}
	all, err := t.track(m, found, replies[m.ID])
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(p Progress) bool { return p.Stage == StageUnknown }) && t.unreadable != nil {
		return all, t.unreadable
	}
	return all, nil
}

// repliesTo returns the messages that the recipients sent in reply, by the ids of what they reply to, as far as
// outboxes can be read.
func repliesTo(ctx context.Context, w *mailbox.Workspace, messages []*schema.Message) (map[schema.ID][]mailbox.Entry, error) {
	recipients := make(map[schema.AgentName]bool)
	replies := make(map[schema.ID][]mailbox.Entry, len(messages))
	var oldest time.Time
	for _, m := range messages {
		for _, to := range m.To {
			recipients[to] = true
		}
		replies[m.ID] = nil
		if at := m.CreatedAt.Time(); oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	found, err := w.Search(ctx, func(agent schema.AgentName, box mailbox.Box) mailbox.NameFilter {
		if box != mailbox.Outbox || !recipients[agent] {
			return nil
		}
		return conversation.Following(oldest)
	}, func(m *schema.Message) bool {
		m.Body = schema.Value{}
		_, isReply := replies[m.ParentID]
		return isReply && m.ParentID != ""
	})
	for _, e := range found {
		replies[e.Message.ParentID] = append(replies[e.Message.ParentID], e)
	}
	_, err = mailbox.SplitUnreadable(err)
	return replies, err
}

// tracker tells how far messages got. It reads the history of each agent once.
type tracker struct {
	w       *mailbox.Workspace
	now     time.Time
	inboxes map[schema.AgentName]*inboxState
	staged  map[schema.ID]bool
	// unreadable are the folders that the files of the messages may be in.
	unreadable *mailbox.UnreadableError
}

func newTracker(w *mailbox.Workspace) *tracker {
	return &tracker{w: w, now: time.Now(), inboxes: make(map[schema.AgentName]*inboxState)}
}

// track returns how far a message got with each of its recipients, or with the owner of its first file if
// it is not valid. files are its files, of which there is at least one, the valid ones first. replies may
// also have unrelated messages.
func (t *tracker) track(m *schema.Message, files, replies []mailbox.Entry) ([]Progress, error) {
	recipients := m.To
	if files[0].Err != nil { // the names in it need not be those of agents
		recipients = []schema.AgentName{files[0].Agent}
	}
	all := make([]Progress, len(recipients))
	for i, name := range recipients {
		var err error
		if all[i], err = t.progress(m, name, files, replies); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// progress returns how far a message got with one recipient.
func (t *tracker) progress(m *schema.Message, name schema.AgentName, files, replies []mailbox.Entry) (Progress, error) {
	p := Progress{ID: m.ID, Agent: name}
	state, err := t.inbox(name)
	if err != nil {
		return p, err
	}
	rec := state.record(m)
	p.Attempts, p.Started, p.Ended, p.Reason = rec.Attempts, inSeconds(rec.Started), inSeconds(rec.Ended), rec.Reason
	for _, n := range rec.Noticed {
		p.Noticed = append(p.Noticed, Noticed{n.Session, n.Program, inSeconds(n.At)})
	}
	p.addReplies(m, rec, replies)
	places := make(map[mailbox.Box]mailbox.Entry)
	for _, e := range files {
		if e.Agent == name && e.Box != mailbox.Outbox {
			places[e.Box] = e
			p.Path = e.Path
		}
	}
	inbox, ok := places[mailbox.Inbox]
	if !ok {
		return p, p.trackGone(t, m, rec, places, files)
	}
	p.Path = inbox.Path
	p.Stage = state.stage(m, rec, t.now)
	held, isHeld := errors.AsType[*mailbox.HeldError](inbox.Err)
	switch {
	case isHeld && held.Agent == name:
		p.Stage, p.Reason = StageHeld, held.Error()
	case isHeld: // by the agent that looks
	case p.Stage == StageHeld:
		p.Reason = rec.Held
	case inbox.Err != nil:
		p.Reason = inbox.Err.Error()
		if _, isInvalid := errors.AsType[*validate.InvalidError](inbox.Err); isInvalid {
			p.Reason = "it is not valid: " + p.Reason
		}
	}
	if p.Stage == StageWaiting || p.Stage == StageNoticed {
		p.RetryAt = inSeconds(rec.RetryAt)
	}
	if rec.Outcome == Succeeded && rec.Unsent != nil {
		p.Reason = "its turn succeeded, and the answer is not sent yet"
	}
	return p, nil
}

// IsPending reports whether the message is in the inbox and has no outcome.
func (s Stage) IsPending() bool {
	return slices.Contains([]Stage{StageWaiting, StageNoticed, StageWorking, StageHeld, StageExpired}, s)
}

// addReplies adds those of the messages that are replies of the recipient.
func (p *Progress) addReplies(m *schema.Message, rec *Record, all []mailbox.Entry) {
	var replies []*schema.Message
	for _, e := range all {
		if r := e.Message; e.Err == nil && r.From == p.Agent && r.ParentID == m.ID && r.ID != m.ID && r.IsFor(m.From) {
			replies = append(replies, r)
		}
	}
	slices.SortFunc(replies, schema.CompareAge)
	automatic := schema.ID("") // of a message that had several, the journal knows which one answers
	if rec.Outcome == Succeeded {
		automatic = rec.Sent
	}
	for i, r := range replies {
		if i > 0 && replies[i-1].ID == r.ID {
			continue // another file of it
		}
		one := Reply{ID: r.ID, Type: r.Type, CreatedAt: r.CreatedAt, Answers: r.ID == automatic || r.Answers(m)}
		if one.Answers && p.Answer == "" {
			p.Answer = r.ID
		}
		p.Replies = append(p.Replies, one)
	}
	if p.Answer == "" {
		p.Answer = automatic
	}
}

// trackGone completes the progress of a message that is not in the inbox.
func (p *Progress) trackGone(t *tracker, m *schema.Message, rec *Record, places map[mailbox.Box]mailbox.Entry, files []mailbox.Entry) error {
	if letter, ok := places[mailbox.DeadLetters]; ok && rec.Outcome != Succeeded {
		p.Stage = StageDead
		reason, err := t.w.Reason(letter)
		switch {
		case err == nil:
			p.Reason, p.Attempts = reason.Reason, reason.Attempts
		case !mailbox.IsGone(err):
			return err
		}
		return nil
	}
	if rec.Outcome == Dead {
		p.Stage = StageDead
		return nil
	}
	if queued, err := t.isQueued(m.ID, p.Agent); queued || err != nil {
		p.Stage = StageStored
		return err
	}
	if _, archived := places[mailbox.Archive]; rec.Outcome == "" && !archived && t.unreadable.Hides(p.Agent) {
		p.Stage, p.Reason = StageUnknown, "its mailbox cannot be read"
		return nil
	}
	isCopy := func(e mailbox.Entry) bool { return e.Box == mailbox.Outbox || e.Agent == p.Agent }
	if rec.Outcome == "" && !slices.ContainsFunc(files, isCopy) {
		p.Stage, p.Reason = StageUnknown, "neither its sender nor its recipient has a copy"
		return nil
	}
	p.Stage = StageDone
	if rec.Outcome == "" {
		p.Reason = "" // it is how an earlier turn failed
	}
	if p.Answer != "" {
		p.Stage = StageAnswered
	}
	return nil
}

// isQueued is mailbox.IsQueued, but lists the staged copies only once unless the message has one.
func (t *tracker) isQueued(id schema.ID, agent schema.AgentName) (bool, error) {
	if t.staged == nil {
		ids, _, err := t.w.Staged()
		if err != nil {
			return false, err
		}
		t.staged = make(map[schema.ID]bool, len(ids))
		for _, id := range ids {
			t.staged[id] = true
		}
	}
	if !t.staged[id] {
		return false, nil
	}
	return mailbox.IsQueued(t.w, id, agent)
}

// inboxState is the state of the turns on messages in an inbox.
type inboxState struct {
	history *History
	ids     map[schema.ID]*Record // one of a message
	running bool
	runner  *Holder
}

// inbox returns the state of an agent's inbox. It reads it once.
func (t *tracker) inbox(name schema.AgentName) (*inboxState, error) {
	if state := t.inboxes[name]; state != nil {
		return state, nil
	}
	state, err := readInbox(t.w, name)
	if err == nil {
		t.inboxes[name] = state
	}
	return state, err
}

func readInbox(w *mailbox.Workspace, name schema.AgentName) (s *inboxState, err error) {
	s = new(inboxState)
	if s.running, s.runner, err = LockOf(w, name).Held(); err != nil {
		return nil, err
	}
	if s.history, err = ReadHistory(w, name); err != nil {
		return nil, err
	}
	s.ids = make(map[schema.ID]*Record, len(s.history.Records))
	for k, rec := range s.history.Records {
		s.ids[k.ID] = rec
	}
	return s, nil
}

// record returns the record of a message, which is empty if there is none. Without its body, the id says which it is.
func (s *inboxState) record(m *schema.Message) *Record {
	if rec := s.ids[m.ID]; rec != nil { // else its key need not be computed
		if m.Body.Kind == schema.Absent {
			return rec
		}
		k, err := KeyOf(m)
		if rec := s.history.Records[k]; err == nil && rec != nil {
			return rec
		}
	}
	return new(Record)
}

// stage returns the stage of a message in the inbox.
func (s *inboxState) stage(m *schema.Message, rec *Record, now time.Time) Stage {
	switch {
	case rec.Running && s.running:
		return StageWorking
	case rec.Outcome == Succeeded && rec.Unsent == nil:
		return StageDone
	case m.ExpiredAt(now):
		return StageExpired
	case rec.Held != "":
		return StageHeld
	case rec.isNoticed():
		return StageNoticed
	}
	return StageWaiting
}
