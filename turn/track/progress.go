package track

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/exclusive"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Stage is the state of a message with one recipient. A state is reported only once it is true.
type Stage string

// The stages of a message. The most urgent come first: those that need a person, then those that are least far.
const (
	// StageDead is a dead letter.
	StageDead Stage = "dead"
	// StageUnknown is a message that may be in an unreadable folder, or of which no copy is left. The
	// reason says which.
	StageUnknown Stage = "unknown"
	// StageAgentRemoved is a message whose recipient was removed before it handled the message.
	StageAgentRemoved Stage = "agent_removed"
	// StageNotSent is a message that nothing has carried to other machines yet, and that nobody here has noticed.
	StageNotSent Stage = "not_sent"
	// StageStored is a message that is sent, and not in the inbox yet.
	StageStored Stage = "stored"
	// StageHeld and StageExpired are messages in the inbox that get no turn.
	StageHeld    Stage = "held"
	StageExpired Stage = "expired"
	// StageWaiting is a message in the inbox. If it has had a turn, that failed or never ended.
	StageWaiting Stage = "waiting"
	// StageNoticed is a message in the inbox that the model of an interactive session got, and that has had
	// no turn since then; see NoteNoticed. It stays noticed when the session ends.
	StageNoticed Stage = "noticed"
	// StageWorking is a message in the inbox that has a turn, or on which the recipient says it works; see NoteWorking.
	StageWorking Stage = "working"
	// StageRecalled is a message that its sender took back before the recipient had noticed it; see Recall.
	StageRecalled Stage = "recalled"
	// StageDone is a message that was acknowledged, or whose turn succeeded. StageAnswered is one with
	// an answer, even if it is still in the inbox; see schema.Message.Answers.
	StageDone     Stage = "done"
	StageAnswered Stage = "answered"
)

var urgency = []Stage{
	StageDead, StageAgentRemoved, StageUnknown, StageNotSent, StageStored, StageHeld, StageExpired, StageWaiting, StageNoticed, StageWorking,
	StageRecalled, StageDone, StageAnswered,
}

// IsPending reports whether the message is in the inbox and has no outcome.
func (s Stage) IsPending() bool {
	return slices.Contains([]Stage{StageNotSent, StageWaiting, StageNoticed, StageWorking, StageHeld, StageExpired}, s)
}

// Progress is how far a message got with one recipient.
type Progress struct {
	ID schema.ID `json:"id"`
	// Agent is the recipient.
	Agent schema.AgentName `json:"agent"`
	Stage Stage            `json:"stage"`
	// Reason says why the message is held or dead, how its last turn failed, or why it has no
	// answer.
	Reason string `json:"reason,omitempty"`
	// Attempts counts the turns on it. Started and Ended are the times of the last one.
	Attempts int       `json:"attempts"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	// RetryAt is when there will be another turn.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Noticed are the sessions that noticed the message, at whatever stage it is now.
	Noticed []Noticed `json:"noticed,omitempty"`
	// Working is what the recipient said last about its work on the message, at whatever stage it is now.
	Working *Working `json:"working,omitempty"`
	// Answer is the id of the first reply that answers the message. Replies are all messages of the
	// recipient that name it as their parent, the oldest first.
	Answer  schema.ID `json:"answer,omitempty"`
	Replies []Reply   `json:"replies,omitempty"`
	// Claim is the claim of a machine on a pending message, as of the last sync. Track leaves it empty.
	Claim *Claim `json:"claim,omitempty"`
	// Path is the recipient's copy, if there is one.
	Path string `json:"path,omitempty"`

	// hasReplied reports whether the recipient has replied since a person restored the message, if one did.
	hasReplied bool
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

// Track returns how far a message got with each of its recipients. The id may be the unique
// beginning of one. Track changes nothing. Its errors are those of Workspace.Find. It returns an
// *mailbox.UnreadableError with the progress if a stage is unknown.
func Track(ctx context.Context, w *mailbox.Workspace, id string) ([]Progress, error) {
	t := newTracker(w)
	found, err := w.Find(ctx, id)
	if err := t.note(err); err != nil {
		return nil, err
	}
	unreadable := t.unreadable // without what hides only replies
	m := found[0].Message
	if err := t.readReplies(ctx, nil, m); err != nil {
		return nil, err
	}
	t.unreadable = unreadable
	all, err := t.track(m, found)
	if slices.ContainsFunc(all, func(p Progress) bool { return p.Stage == StageUnknown }) && t.unreadable != nil {
		return all, t.unreadable
	}
	return all, err
}

// tracker tells how far messages got. It reads the history of each agent once.
type tracker struct {
	w       *mailbox.Workspace
	now     time.Time
	inboxes map[schema.AgentName]*inboxState
	// replies are those to the messages, by the ids of these.
	replies map[schema.ID][]mailbox.Entry
	// asked are the messages to which readReplies has looked for replies.
	asked map[schema.ID]bool
	// unreadable is set if a folder that may have files of the messages cannot be read.
	unreadable *mailbox.UnreadableError
}

func newTracker(w *mailbox.Workspace) *tracker {
	return &tracker{
		w: w, now: time.Now(), inboxes: make(map[schema.AgentName]*inboxState), replies: make(map[schema.ID][]mailbox.Entry),
		asked: make(map[schema.ID]bool),
	}
}

// note keeps an error that came with a result, and returns any other.
func (t *tracker) note(err error) error {
	unreadable, err := mailbox.SplitUnreadable(err)
	if unreadable != nil {
		t.unreadable = unreadable
	}
	return err
}

// result returns the error that note kept, if any.
func (t *tracker) result() error {
	if t.unreadable == nil {
		return nil
	}
	return t.unreadable
}

// track returns how far a message got with each of its recipients or, if it is not valid, with the owner of its
// first file. There is at least one file, and valid ones come first.
func (t *tracker) track(m *schema.Message, files []mailbox.Entry) ([]Progress, error) {
	recipients := m.To
	if files[0].Err != nil { // the names in it need not be those of agents
		recipients = []schema.AgentName{files[0].Agent}
	}
	all := make([]Progress, len(recipients))
	for i, name := range recipients {
		var err error
		if all[i], err = t.progress(m, name, files); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// progress returns how far a message got with one recipient.
func (t *tracker) progress(m *schema.Message, name schema.AgentName, files []mailbox.Entry) (Progress, error) {
	p := Progress{ID: m.ID, Agent: name}
	state, err := t.inbox(name)
	if err != nil {
		return p, err
	}
	rec := state.record(m)
	p.Attempts = rec.Attempts
	p.Started = inSeconds(rec.Started)
	p.Ended = inSeconds(rec.Ended)
	p.Reason = rec.Reason
	for _, n := range rec.Noticed {
		n.At = inSeconds(n.At)
		p.Noticed = append(p.Noticed, n)
	}
	if rec.Working != nil {
		p.Working = &Working{At: inSeconds(rec.Working.At), Text: rec.Working.Text, Finished: rec.Working.Finished}
	}
	p.addReplies(m, rec, t.replies)
	places := make(map[mailbox.Box]mailbox.Entry)
	for _, e := range files {
		if e.Box == mailbox.Outbox || e.Agent == name {
			places[e.Box] = e
		}
	}
	for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters} {
		if e, ok := places[box]; ok && p.Path == "" {
			p.Path = e.Path
		}
	}
	inbox, isPending := places[mailbox.Inbox]
	if !isPending {
		return p, p.trackGone(t, rec, places)
	}
	p.Stage = state.stage(m, rec, t.now)
	isAnswered := slices.ContainsFunc(p.Replies, func(r Reply) bool { return r.Answers && !r.CreatedAt.Time().Before(rec.Revived) })
	if isAnswered && p.Stage.IsPending() && !(rec.Running && state.running) {
		p.Stage = StageAnswered
	}
	if p.Stage == StageWaiting && p.hasReplied {
		p.Stage = StageNoticed // it was noticed by a means that recorded nothing
	}
	if sent, ok := places[mailbox.Outbox]; ok && p.Stage == StageWaiting && mailbox.IsUnsent(t.w, sent) {
		p.Stage, p.Reason = StageNotSent, "no sync has sent it to other machines yet"
	}
	held, isHeld := errors.AsType[*mailbox.HeldError](inbox.Err)
	switch {
	case isHeld && held.Agent == name:
		p.Stage = StageHeld
		p.Reason = held.Error()
	case isHeld: // for the agent that asks, not for this recipient
	case p.Stage == StageHeld:
		p.Reason = rec.Held
	case inbox.Err != nil:
		p.Reason = inbox.Err.Error()
		if _, isInvalid := errors.AsType[*validate.InvalidError](inbox.Err); isInvalid {
			p.Reason = "it is not valid: " + p.Reason
		}
	case rec.Outcome == Succeeded && rec.Unsent != nil:
		p.Reason = "its turn succeeded, and the answer is not sent yet"
	}
	if p.Stage == StageWaiting || p.Stage == StageNoticed {
		p.RetryAt = inSeconds(rec.RetryAt)
	}
	return p, nil
}

// inSeconds returns a time as programs and people get it.
func inSeconds(at time.Time) time.Time { return at.UTC().Truncate(time.Second) }

// trackGone completes the progress of a message that is not in the inbox.
func (p *Progress) trackGone(t *tracker, rec *Record, places map[mailbox.Box]mailbox.Entry) error {
	letter, isLetter := places[mailbox.DeadLetters]
	_, isArchived := places[mailbox.Archive]
	_, isSent := places[mailbox.Outbox]
	if isLetter && rec.Outcome != Succeeded {
		p.Stage = StageDead
		reason, err := t.w.Reason(letter)
		if err == nil {
			p.Reason = reason.Reason
			p.Attempts = reason.Attempts
			switch {
			case reason.RecalledBy != "" && p.Answer != "": // on another machine, the recipient had noticed it
				p.Stage = StageAnswered
			case reason.RecalledBy != "":
				p.Stage = StageRecalled
			}
		} else if !mailbox.IsGone(err) {
			return err
		}
		return nil
	}
	if rec.Outcome == Dead {
		p.Stage = StageDead
		return nil
	}
	if !isArchived {
		if queued, err := mailbox.IsQueued(t.w, p.ID, p.Agent); queued || err != nil {
			p.Stage = StageStored
			return err
		}
	}
	if rec.Outcome == "" {
		p.Reason = "" // it is how an earlier turn failed
	}
	p.Stage = StageDone
	switch {
	case p.Answer != "":
		p.Stage = StageAnswered
	case rec.Outcome != "" || isArchived || isLetter:
	case t.unreadable.Hides(p.Agent):
		p.Stage = StageUnknown
		p.Reason = "its mailbox cannot be read"
	case !isSent:
		p.Stage = StageUnknown
		p.Reason = "neither its sender nor its recipient has a copy"
	case !t.w.Knows(p.Agent):
		p.Stage = StageAgentRemoved
		p.Reason = "its recipient was removed before it handled the message"
	case !mailbox.Deleting(t.w, p.Agent): // a missing file is no end
		p.Stage = StageUnknown
		p.Reason = "its recipient has no copy of it"
	}
	return nil
}

// inboxState is the state of the turns on messages in an inbox.
type inboxState struct {
	history *History
	// records has the latest record for each id.
	records map[schema.ID]*Record
	running bool
	runner  *exclusive.Holder
	// word is what the agent's status file says.
	word project.Word
}

// inbox returns the state of an agent's inbox. It reads it once.
func (t *tracker) inbox(name schema.AgentName) (*inboxState, error) {
	if s := t.inboxes[name]; s != nil {
		return s, nil
	}
	s := new(inboxState)
	var err error
	if s.running, s.runner, err = lockOf(t.w, name).Held(); err != nil {
		return nil, err
	}
	if s.history, err = ReadHistory(t.w, name); err != nil {
		return nil, err
	}
	s.records = make(map[schema.ID]*Record, len(s.history.Records))
	for k, rec := range s.history.Records {
		if known := s.records[k.ID]; known == nil || known.Last.Before(rec.Last) {
			s.records[k.ID] = rec
		}
	}
	if mailbox.ProvenOnly(t.w) {
		s.history.dropTexts()
	} else {
		word, _ := project.Status(t.w, name)
		s.word = project.ParseStatus(word)
	}
	t.inboxes[name] = s
	return s, nil
}

// known returns the record of a message, or an empty one. The id is precise enough for a report.
func (s *inboxState) known(id schema.ID) *Record {
	if rec := s.records[id]; rec != nil {
		return rec
	}
	return new(Record)
}

// record is known, with what the agent said about its work on another machine.
func (s *inboxState) record(m *schema.Message) *Record {
	rec := s.known(m.ID)
	if rec.Working != nil || s.word.Status != project.Busy || s.word.At.Before(rec.Revived) {
		return rec
	}
	withWord := *rec
	withWord.Working = workingBy(s.word, m)
	return &withWord
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
	case rec.saysWorking():
		return StageWorking
	case rec.hasNoticed():
		return StageNoticed
	}
	return StageWaiting
}
