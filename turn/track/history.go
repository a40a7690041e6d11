package track

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/jsonl"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/schema"
)

// History is the sum of the facts of a journal.
type History struct {
	Records       map[Key]*Record
	Conversations map[schema.ConversationID]*conversationState
	Senders       map[schema.AgentName]*senderState
	// last is the turn that ended last, and failures how many failed since the last success.
	last     *Record
	failures int
	// Released counts what may let a waiting message go on: a turn that no longer counts, a person
	// who resumes a conversation or restores a message.
	Released int
	// file is the journal that was read, if it may be replaced; see readNew. end is how much of it was read, in
	// bytes, and bad counts lines that are not facts.
	file fs.FileInfo
	end  int64
	bad  int
}

// Record is the state of a message.
type Record struct {
	Envelope

	// Attempts counts the turns that began, without those that were interrupted.
	Attempts int `json:"attempts,omitempty"`
	// Running reports whether the last turn has not ended, and Lost whether its runner died in it.
	Running bool `json:"running,omitempty"`
	Lost    bool `json:"lost,omitempty"`
	// Marks are in the environment of the processes of a running turn.
	Marks   []orphans.Mark `json:"marks,omitempty"`
	Started time.Time      `json:"started,omitzero"`
	Ended   time.Time      `json:"ended,omitzero"`
	RetryAt time.Time      `json:"retry_at,omitzero"`
	// Outcome is succeeded, dead, or empty.
	Outcome FactKind `json:"outcome,omitempty"`
	// Settled reports whether the message left the inbox after its outcome. Removed is when it was
	// missing there without one.
	Settled bool      `json:"settled,omitempty"`
	Removed time.Time `json:"removed,omitzero"`
	// Revived is when the message was last restored. Answers from before that do not count.
	Revived time.Time `json:"revived,omitzero"`
	Reason  string    `json:"reason,omitempty"`
	Output  string    `json:"output,omitempty"`
	// Held says why the message gets no turn, and HeldBy which bound that is, if it is one.
	Held   string    `json:"held,omitempty"`
	HeldBy BoundKind `json:"held_by,omitempty"`
	// Unsent is the answer or bounce until it is sent; then Sent is its id. A bounce in place of an answer
	// has none.
	Unsent *schema.Message `json:"unsent,omitempty"`
	Sent   schema.ID       `json:"sent,omitempty"`
	// Noticed are the sessions that noticed the message, each once, in the order of the facts.
	Noticed []Noticed `json:"noticed,omitempty"`

	DurationMS int64 `json:"duration_ms,omitempty"`
	Usage      Usage `json:"usage,omitzero"`
}

// Done reports whether nothing is left to do about the message.
func (rec *Record) Done() bool { return rec.Outcome != "" && rec.Settled && rec.Unsent == nil }

// Pending reports whether the message has no outcome and is not known to be removed.
func (rec *Record) Pending() bool { return rec.Outcome == "" && !rec.Running && rec.Removed.IsZero() }

// over reports whether the record is kept for information only, and since when.
func (rec *Record) over() (since time.Time, is bool) {
	if rec.Outcome == "" {
		return rec.Removed, !rec.Removed.IsZero()
	}
	return rec.Ended, rec.Done()
}

// conversationState is what is known of a conversation.
type conversationState struct {
	ID schema.ConversationID `json:"id"`
	// Turns counts since a person last resumed the conversation.
	Turns int `json:"turns"`
	// Bound reports whether the notice about too many turns exists; Unsent is that notice until it is
	// sent.
	Bound  bool            `json:"bound,omitempty"`
	Unsent *schema.Message `json:"unsent,omitempty"`
	// Session continues the agent's session.
	Session string           `json:"session,omitempty"`
	With    schema.AgentName `json:"with,omitempty"`
	Last    time.Time        `json:"last"`
}

// senderState is what is known of an agent that sends.
type senderState struct {
	Name schema.AgentName `json:"name"`
	// Turns are when the turns on its messages began within the last hour, in order.
	Turns []time.Time `json:"turns,omitempty"`
	// Bound reports whether the notice about too many turns exists, when Most were allowed. There is
	// another one only after the turns have become half as many: at the bound, each turn that is an
	// hour old admits another one.
	Bound  bool            `json:"bound,omitempty"`
	Most   int             `json:"most,omitempty"`
	Unsent *schema.Message `json:"unsent,omitempty"`
}

// PairWindow is the time in which the turns of a pair of agents are counted.
const PairWindow = time.Hour

func NewHistory() *History {
	return &History{
		Records:       make(map[Key]*Record),
		Conversations: make(map[schema.ConversationID]*conversationState),
		Senders:       make(map[schema.AgentName]*senderState),
	}
}

func (h *History) record(k Key) *Record {
	return entry(h.Records, k, Record{Envelope: Envelope{Key: k}})
}

func (h *History) conversation(id schema.ConversationID) *conversationState {
	return entry(h.Conversations, id, conversationState{ID: id})
}

func (h *History) sender(name schema.AgentName) *senderState {
	return entry(h.Senders, name, senderState{Name: name})
}

// entry returns the value of a key. If there is none, it adds the initial one.
func entry[Key comparable, Value any](all map[Key]*Value, k Key, initial Value) *Value {
	value := all[k]
	if value == nil {
		value = new(Value) // &initial would allocate at each call
		*value = initial
		all[k] = value
	}
	return value
}

// Read applies the complete lines that a journal has after those that were read before.
func (h *History) Read(journal io.ReaderAt) error {
	lines := jsonl.NewReader(journal, 0)
	var f Fact
	for {
		line, next, err := lines.Line(h.end)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading journal: %w", err)
		}
		f = Fact{}
		switch err := json.Unmarshal(line, &f); {
		case err == nil:
			h.Apply(&f)
		case len(line) > 1:
			h.bad++
		}
		h.end = next
	}
}

// Apply adds a fact.
func (h *History) Apply(f *Fact) {
	switch f.Kind {
	case Bound, Notified, Resumed:
		h.applyBound(f)
	case snapshot:
		h.restore(f)
	default:
		h.applyToRecord(h.record(f.Key), f)
	}
}

func (h *History) applyToRecord(rec *Record, f *Fact) {
	if rec.Outcome == "" && slices.Contains(AfterOutcome, f.Kind) {
		return // the message was restored in between
	}
	switch f.Kind {
	case Held:
		rec.Envelope = f.Envelope
		rec.Held, rec.HeldBy, rec.Removed = f.Reason, f.By, time.Time{}
	case Removed:
		rec.Held, rec.HeldBy, rec.Removed = "", "", f.At
	case Started:
		rec.Envelope = f.Envelope
		rec.Attempts = max(rec.Attempts+1, f.Attempt)
		rec.Running, rec.Marks, rec.Started, rec.RetryAt = true, f.Marks, f.At, time.Time{}
		rec.Held, rec.HeldBy, rec.Removed = "", "", time.Time{}
		h.countTurn(rec)
	case Succeeded, Failed, Lost:
		rec.Running, rec.Marks, rec.Lost, rec.Ended, rec.RetryAt = false, nil, f.Kind == Lost, f.At, f.RetryAt
		rec.Reason, rec.Output, rec.DurationMS, rec.Usage = f.Reason, f.Output, f.DurationMS, f.Usage
		h.last = rec
		h.failures++
		if f.Kind == Succeeded {
			h.failures = 0
			rec.Outcome, rec.Unsent = Succeeded, f.Send
			h.conversation(rec.Conversation).Session = f.Session
		}
	case Interrupted:
		if rec.Running {
			rec.Attempts--
			h.uncountTurn(rec)
		}
		rec.Running, rec.Marks = false, nil
	case Dead:
		rec.Envelope = f.Envelope
		rec.Running, rec.Marks, rec.Lost, rec.Ended = false, nil, false, f.At
		rec.Attempts = max(rec.Attempts, f.Attempt)
		rec.Outcome, rec.Settled, rec.Reason, rec.Unsent = Dead, false, f.Reason, f.Send
	case Answered, Bounced:
		rec.Unsent = nil
		if f.Kind == Answered || rec.Outcome == Dead {
			rec.Sent = f.Sent
		}
	case Unsendable:
		rec.Reason, rec.Unsent = f.Reason, f.Send
	case Acknowledged, Buried:
		rec.Settled, rec.Output = true, ""
	case noted:
		rec.notice(Noticed{Session: f.Session, Program: f.Program, At: f.At})
	case Revived:
		if h.last == rec {
			last := *rec
			h.last = &last
		}
		*rec = Record{Envelope: Envelope{Key: rec.Key}, Revived: f.At}
		h.Released++
	}
}

func (h *History) countTurn(rec *Record) {
	c := h.conversation(rec.Conversation)
	c.Last = rec.Started
	c.Turns++
	c.With, c.Bound = rec.From, false
	s := h.sender(rec.From)
	before := s.Within(rec.Started)
	s.Turns, s.Bound = append(before, rec.Started), s.Bound && len(before) > s.Most/2
	slices.SortFunc(s.Turns, time.Time.Compare) // clocks do not always go forward
}

func (h *History) uncountTurn(rec *Record) {
	h.Released++
	c := h.conversation(rec.Conversation)
	c.Turns = max(0, c.Turns-1)
	s := h.sender(rec.From)
	if i := slices.Index(s.Turns, rec.Started); i >= 0 {
		s.Turns = slices.Delete(s.Turns, i, i+1)
	}
}

// clockBack is how far in the future a turn may have begun and still count. A turn beyond that
// began before the clock was set back, and must not hold up others until the clock is there again.
const clockBack = time.Minute

// Within returns the turns that count at a time, in order.
func (s *senderState) Within(now time.Time) []time.Time {
	from, to := 0, len(s.Turns)
	for from < to && now.Sub(s.Turns[from]) >= PairWindow {
		from++
	}
	for from < to && s.Turns[to-1].Sub(now) > clockBack {
		to--
	}
	return s.Turns[from:to]
}

// applyBound adds a fact about a conversation or, without one, about a sender.
func (h *History) applyBound(f *Fact) {
	if f.Kind == Resumed {
		h.Released++
	}
	if f.Conversation == "" {
		s := h.sender(f.From)
		s.Unsent = f.Send
		switch f.Kind {
		case Bound:
			s.Bound, s.Most = true, f.Most
		case Resumed:
			s.Bound, s.Turns = false, nil
			h.release(func(rec *Record) bool { return rec.HeldBy == OnPair && rec.From == f.From })
		}
		return
	}
	c := h.conversation(f.Conversation)
	c.Unsent = f.Send
	switch f.Kind {
	case Bound:
		c.Bound = true
	case Resumed:
		c.Bound, c.Turns = false, 0
		h.release(func(rec *Record) bool { return rec.HeldBy == OnConversation && rec.Conversation == f.Conversation })
	}
}

// release forgets that messages are held.
func (h *History) release(which func(*Record) bool) {
	for _, rec := range h.Records {
		if which(rec) {
			rec.Held, rec.HeldBy = "", ""
		}
	}
}

func (h *History) restore(f *Fact) {
	switch {
	case f.Record != nil:
		h.Records[f.Record.Key] = f.Record
		if h.last == nil || f.Record.Ended.After(h.last.Ended) {
			h.last = f.Record
		}
	case f.Thread != nil:
		h.Conversations[f.Thread.ID] = f.Thread
	case f.Sender != nil:
		h.Senders[f.Sender.Name] = f.Sender
	}
}

// KeepFor is how long a message is remembered after its end, and a conversation after its last
// turn.
const KeepFor = 30 * 24 * time.Hour

// Snapshots returns the facts that add up to the history, without what is too old to matter.
func (h *History) Snapshots(now time.Time) []Fact {
	var facts []Fact
	for _, rec := range h.Records {
		if since, over := rec.over(); !over || now.Sub(since) < KeepFor {
			facts = append(facts, Fact{At: now, Kind: snapshot, Record: rec})
		}
	}
	for _, c := range h.Conversations {
		if c.Bound || now.Sub(c.Last) < KeepFor {
			facts = append(facts, Fact{At: now, Kind: snapshot, Thread: c})
		}
	}
	for _, s := range h.Senders {
		s.Turns = s.Within(now)
		if len(s.Turns) > 0 || s.Unsent != nil {
			facts = append(facts, Fact{At: now, Kind: snapshot, Sender: s})
		}
	}
	return facts
}
