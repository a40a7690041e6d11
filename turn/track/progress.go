package track

import (
	"cmp"
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
	// Offered are the living holders that were given the message, but for sessions that noticed it: nobody else of the recipient gets it.
	Offered []Noticed `json:"offered,omitempty"`
	// MaySeen reports whether the recipient may have seen the message, so that its sender cannot take it back.
	MaySeen bool `json:"-"`
	// Working is what the recipient said last about its work on the message, at whatever stage it is now.
	Working *Working `json:"working,omitempty"`
	// Answer is the id of the first reply that answers the message or, if none does, of the one that declines it; none after a
	// restore until there is another one. Replies are all messages of the recipient that name it as their parent, the oldest first.
	Answer  schema.ID `json:"answer,omitempty"`
	Replies []Reply   `json:"replies,omitempty"`
	// Recall is what became of the sender's request to take the message back, nil unless other machines may have the message.
	Recall *RecallRequest `json:"recall,omitempty"`
	// Claim is the claim of a machine on a pending message, as of the last sync. Track leaves it empty.
	Claim *Claim `json:"claim,omitempty"`
	// Path is the recipient's copy, if there is one.
	Path string `json:"path,omitempty"`

	// isInInbox reports whether the recipient has a copy in its inbox.
	isInInbox bool
	// asks reports whether the recipient asked back what may still be answered. Until then, the message does not expire.
	asks bool
	// hasReplied reports whether the recipient has replied since a person restored the message, if one did.
	hasReplied bool
}

// A RecallRequest is the request of a sender that other machines take a message back.
type RecallRequest struct {
	// At is when the sender made it. It is zero on machines that took nothing back.
	At time.Time `json:"requested_at,omitzero"`
	// Kept reports whether the recipient kept the message, because it had been shown it. Else that may still happen.
	Kept bool `json:"kept"`
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
	asides  map[schema.AgentName]*mailbox.Aside
	// unsent has the long names of the messages that nothing has carried to other machines; nil until they are listed.
	unsent map[string]bool
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
		asked: make(map[schema.ID]bool), asides: make(map[schema.AgentName]*mailbox.Aside),
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

// addUnreadable keeps the error of an agent whose state cannot be read, and returns its text. It hides no other agent.
func (t *tracker) addUnreadable(name schema.AgentName, err error) string {
	if t.unreadable == nil {
		t.unreadable = new(mailbox.UnreadableError)
	}
	t.unreadable.Add(name, err)
	return err.Error()
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
		p.Stage, p.Reason = StageUnknown, t.addUnreadable(name, err)
		return p, nil
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
	for _, n := range rec.Offered {
		isNamed := n.Session != "" && slices.ContainsFunc(rec.Noticed, func(by Noticed) bool { return by.Holder == n.Holder })
		if !isNamed && n.lives(later(n.At, state.history.signs[n.Holder]), t.now) {
			n.At = inSeconds(n.At)
			p.Offered = append(p.Offered, n)
		}
	}
	if rec.Working != nil {
		p.Working = &Working{At: inSeconds(rec.Working.At), Text: rec.Working.Text, Finished: rec.Working.Finished}
	}
	p.addReplies(m, rec, t.replies, t.now)
	p.MaySeen = rec.mayBeSeen() || p.hasReplied
	if state.hasKept(m) {
		p.Recall = &RecallRequest{inSeconds(rec.RecalledAt), true}
	}
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
	inbox, isInInbox := places[mailbox.Inbox]
	if p.isInInbox = isInInbox; !isInInbox {
		return p, p.trackGone(t, m, rec, places)
	}
	p.Stage = state.stage(rec, m.ExpiredAt(t.now) && !p.asks)
	if p.Answer != "" && p.Stage.IsPending() && !(rec.Running && state.running) {
		p.answered()
	}
	if taken := state.takenBy(rec, t.now); taken != nil && p.Stage.IsPending() && p.Stage != StageHeld && p.Stage != StageExpired {
		p.Stage, p.Reason = StageHeld, taken.Taken()
	}
	if p.Stage == StageWaiting && (p.hasReplied || p.Recall != nil) {
		p.Stage = StageNoticed // it was noticed by a means that recorded nothing, or on another machine
	}
	if p.Stage == StageWaiting && t.isUnsent(m) {
		p.Stage, p.Reason = StageNotSent, "no sync has sent it to other machines yet"
	}
	held, isHeld := errors.AsType[*mailbox.HeldError](inbox.Err)
	switch {
	case isHeld && held.Agent == name:
		p.Stage = StageHeld
		p.Reason = held.Error()
	case isHeld: // for the agent that asks, not for this recipient
	case p.Stage == StageHeld:
		p.Reason = cmp.Or(rec.Held, p.Reason)
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

// isUnsent reports whether nothing has carried a message to other machines yet. It lists those messages once.
func (t *tracker) isUnsent(m *schema.Message) bool {
	if t.unsent == nil {
		t.unsent = make(map[string]bool)
		names, _ := mailbox.Unsent(t.w) // without them, nobody says that a message is not sent
		for _, name := range names {
			t.unsent[name] = true
		}
	}
	if len(t.unsent) == 0 {
		return false
	}
	name, err := m.LongFileName()
	return err == nil && t.unsent[name]
}

// inSeconds returns a time as programs and people get it.
func inSeconds(at time.Time) time.Time { return at.UTC().Truncate(time.Second) }

// inboxState is the state of the turns on messages in an inbox.
type inboxState struct {
	history *History
	// records has the latest record for each id.
	records map[schema.ID]*Record
	running bool
	runner  *exclusive.Holder
	// kept has the long names of messages that the agent kept although their sender took them back.
	kept map[string]bool
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
	if s.kept, err = mailbox.KeptRecalls(t.w, name); err != nil {
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

// hasKept reports whether the agent kept a message although its sender took it back. Most agents kept none, and parsing an id
// takes time.
func (s *inboxState) hasKept(m *schema.Message) bool {
	if len(s.kept) == 0 {
		return false
	}
	name, err := m.LongFileName()
	return err == nil && s.kept[name]
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

// takenBy returns the program for which the runner at work lets a message wait, or nil.
func (s *inboxState) takenBy(rec *Record, now time.Time) *Noticed {
	if !s.running || s.runner == nil || rec.Running {
		return nil
	}
	return s.history.TakenBy(rec.Key, s.runner.PID, now)
}

// stage returns the stage of a message in the inbox.
func (s *inboxState) stage(rec *Record, isExpired bool) Stage {
	switch {
	case rec.Running && s.running:
		return StageWorking
	case rec.Outcome == Succeeded && rec.Unsent == nil:
		return StageDone
	case isExpired:
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
