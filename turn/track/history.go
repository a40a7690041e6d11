package track

import (
	"cmp"
	"encoding/json"
	"io"
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
	// Released counts the facts that may end the wait of a message: a turn that does not count, or a
	// person who resumes a conversation or restores a message.
	Released int
	// asked has the messages about which turns asked back, by the questions.
	asked map[schema.ID]Key
	// signs are when holders last did something with a message.
	signs map[Holder]time.Time
	// failures counts the turns that failed since the last success.
	failures int
	// end is how much of the journal was read, in bytes.
	end int64
}

// Record is the state of a message.
type Record struct {
	Envelope

	// Attempts counts the turns that began and were not interrupted.
	Attempts int `json:"attempts,omitempty"`
	// Running reports whether the last turn has not ended, and Lost whether its Runner died during it.
	Running bool `json:"running,omitempty"`
	Lost    bool `json:"lost,omitempty"`
	// Marks are in the environment of the processes of a running turn.
	Marks   []orphans.Mark `json:"marks,omitempty"`
	Started time.Time      `json:"started,omitzero"`
	// In is the message whose turn the last one on this message joined, if it did.
	In      schema.ID `json:"in,omitempty"`
	Ended   time.Time `json:"ended,omitzero"`
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Outcome is succeeded, dead, or empty.
	Outcome FactKind `json:"outcome,omitempty"`
	// Settled reports whether the message left the inbox after its outcome.
	Settled bool   `json:"settled,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Output  string `json:"output,omitempty"`
	// Held says why the message gets no turn.
	Held string `json:"held,omitempty"`
	// Resumed reports whether a person resumed the conversation while the message got no turn. It begins a chain then.
	Resumed bool `json:"resumed,omitempty"`
	// Stopped says who stopped the turn on the message, and how it gets another one; see Stop. If the turn is still
	// running, it is to end.
	Stopped string `json:"stopped,omitempty"`
	// Questions are those that turns on the message asked its sender back, and Asks is how many turns did. Awaits are those for
	// whose answer it waits, until its next turn.
	Questions []schema.ID `json:"questions,omitempty"`
	Asks      int         `json:"asks,omitempty"`
	Awaits    []schema.ID `json:"awaits,omitempty"`
	// Unsent is the answer or bounce until it is sent. Then Sent is its id, unless it is a bounce in place of
	// an answer.
	Unsent *schema.Message `json:"unsent,omitempty"`
	Sent   schema.ID       `json:"sent,omitempty"`
	// Offered are the holders that were given the message, each once. MaySeen is set if one returned it that may have shown it.
	Offered []Noticed `json:"offered,omitempty"`
	MaySeen bool      `json:"may_seen,omitempty"`
	// Returned is set once a holder returned it: from then on, only who was offered it again notices it.
	Returned bool `json:"returned,omitempty"`
	// Announced are the holders that were told that there is such a message.
	Announced []Holder `json:"announced,omitempty"`
	// Noticed are the sessions and processes that noticed the message, each once, in the order of the facts.
	Noticed []Noticed `json:"noticed,omitempty"`
	// AwaitedIn is the message whose turn waited for this one and was shown it, at the time AwaitedAt.
	AwaitedIn schema.ID `json:"awaited_in,omitempty"`
	AwaitedAt time.Time `json:"awaited_at,omitzero"`
	// Working is what the recipient said last about its work on the message.
	Working *Working `json:"working,omitempty"`
	// Once is a message that the agent sends once; see Once.
	Once *schema.Message `json:"once,omitempty"`
	// Revived is when a person restored the message to the inbox.
	Revived time.Time `json:"revived,omitzero"`
	// RecalledAt is when its sender last took it back before that, if this machine did as asked.
	RecalledAt time.Time `json:"recalled_at,omitzero"`
	// Last is the time of the last fact.
	Last time.Time `json:"last,omitzero"`

	Usage Usage `json:"usage,omitzero"`
}

// Done reports whether nothing is left to do about the message.
func (rec *Record) Done() bool { return rec.Outcome != "" && rec.Settled && rec.Unsent == nil }

// Conversation is what is known of a conversation.
type Conversation struct {
	ID   schema.ConversationID `json:"id"`
	With schema.AgentName      `json:"with"`
	// Turns counts since the conversation began or a person resumed it.
	Turns int `json:"turns"`
	// Bound reports whether the conversation has reached its limit on turns, and the notice about that exists.
	Bound bool      `json:"bound"`
	Last  time.Time `json:"last"`
}

type conversationState struct {
	Conversation
	// Unsent is the notice about too many turns until it is sent.
	Unsent *schema.Message `json:"unsent,omitempty"`
	// Session continues the agent's session. Full reports whether there is none because the last one had no room for more.
	Session string `json:"session,omitempty"`
	Full    bool   `json:"full,omitempty"`
	// Chain reports whether the notice about a chain that is too long exists. There is one until a person resumes the
	// conversation, even if it has turns on other messages.
	Chain bool `json:"chain,omitempty"`
}

// senderState is what is known of an agent that sends.
type senderState struct {
	Name schema.AgentName `json:"name"`
	// Turns are the times, in order, when turns on its messages began within the last hour.
	Turns []time.Time `json:"turns,omitempty"`
	// Bound reports whether the notice about too many turns exists. The next notice comes only after an hour
	// without turns: at the limit, each turn that gets an hour old admits another one.
	Bound  bool            `json:"bound,omitempty"`
	Unsent *schema.Message `json:"unsent,omitempty"`
}

// PairWindow is the time in which the turns of a pair of agents are counted.
const PairWindow = time.Hour

// NewHistory returns the history of an empty journal.
func NewHistory() *History {
	return &History{
		Records:       make(map[Key]*Record),
		Conversations: make(map[schema.ConversationID]*conversationState),
		Senders:       make(map[schema.AgentName]*senderState),
		asked:         make(map[schema.ID]Key),
		signs:         make(map[Holder]time.Time),
	}
}

// entry returns the value of a key, and adds an empty one if there is none.
func entry[Key comparable, Value any](all map[Key]*Value, k Key) *Value {
	value := all[k]
	if value == nil {
		value = new(Value)
		all[k] = value
	}
	return value
}

func (h *History) conversation(id schema.ConversationID) *conversationState {
	c := entry(h.Conversations, id)
	c.ID = id
	return c
}

func (h *History) sender(name schema.AgentName) *senderState {
	s := entry(h.Senders, name)
	s.Name = name
	return s
}

// Read applies the complete lines of a journal that it has not read before. It skips lines that are not facts.
func (h *History) Read(journal io.ReaderAt) (err error) {
	var f Fact
	h.end, err = jsonl.Each(journal, h.end, func(line []byte) {
		f = Fact{}
		if json.Unmarshal(line, &f) == nil {
			h.Apply(&f)
		}
	})
	return err
}

// Apply adds a fact.
func (h *History) Apply(f *Fact) {
	switch f.Kind {
	case Bound, Notified, Resumed:
		h.applyBound(f)
	case snapshot:
		h.restore(f)
	case finished:
		for _, rec := range h.Records {
			if rec.Working != nil {
				rec.Working.Finished = true
			}
		}
	default:
		rec := entry(h.Records, f.Key)
		rec.Key, rec.Last = f.Key, f.At
		if by := f.holder(); by != (Holder{}) {
			h.signs[by] = later(h.signs[by], f.At)
		}
		h.applyToRecord(rec, f)
	}
}

func (h *History) applyToRecord(rec *Record, f *Fact) {
	switch f.Kind {
	case Held:
		rec.Envelope = f.Envelope
		rec.Held = f.Reason
	case Started:
		rec.Envelope = f.Envelope
		rec.Attempts = max(rec.Attempts+1, f.Attempt)
		rec.Running = true
		rec.Marks = f.Marks
		rec.Started, rec.In = f.At, f.In
		rec.RetryAt = time.Time{}
		rec.Held, rec.Awaits = "", nil
		h.countTurn(rec)
	case Succeeded, Failed, Lost, Asked:
		rec.Running = false
		rec.Marks = nil
		rec.Lost = f.Kind == Lost
		rec.Ended = f.At
		rec.RetryAt, rec.Reason, rec.Output = f.RetryAt, f.Reason, f.Output
		rec.Usage = f.Usage
		rec.Held = rec.Stopped
		h.failures++
		if f.Kind == Succeeded {
			h.failures = 0
			rec.Held, rec.Stopped = "", ""
			rec.Outcome = Succeeded
			rec.Unsent = f.Send
		}
		if f.Kind == Asked {
			h.ask(rec, f)
		}
		if c := h.conversation(rec.Conversation); f.Kind == Succeeded || f.Kind == Asked || f.Full {
			c.Session, c.Full = f.Session, f.Full
		}
	case Interrupted:
		if rec.Running {
			rec.Attempts--
			rec.MaySeen = true
			h.uncountTurn(rec)
		}
		rec.Running = false
		rec.Marks = nil
		rec.Held = rec.Stopped
	case stopped:
		rec.stop(f)
	case Dead:
		rec.Envelope = f.Envelope
		rec.Running = false
		rec.Marks = nil
		rec.Lost = false
		rec.Ended = f.At
		rec.Attempts = max(rec.Attempts, f.Attempt)
		rec.Outcome = Dead
		rec.Settled = false
		rec.Reason = f.Reason
		rec.Unsent = f.Send
	case Answered, Bounced, Unsendable, Acknowledged, Buried:
		rec.applyAfterOutcome(f)
	case noted:
		rec.addNoticed(Noticed{f.holder(), f.At})
	case offered, returned, unread, awaitedReply:
		rec.applyOffer(f)
	case announced:
		rec.Announced = append(rec.Announced, f.holder())
	case once:
		rec.Once = f.Send
	case working:
		rec.Working = &Working{At: f.At, Text: f.Text, Process: f.Process, System: f.System}
		for _, turn := range []time.Time{rec.Started, rec.Ended} {
			if !rec.Working.At.After(turn) { // a clock went back since then
				rec.Working.At = turn.Add(1)
			}
		}
	case Revived:
		*rec = Record{Envelope: Envelope{Key: rec.Key}, Revived: f.At, RecalledAt: cmp.Or(f.RecalledAt, rec.RecalledAt), Last: f.At}
		h.Released++
	}
}

// applyAfterOutcome adds a fact that follows the outcome of a message. If there is no outcome, somebody has restored
// the message in the meantime.
func (rec *Record) applyAfterOutcome(f *Fact) {
	switch {
	case rec.Outcome == "":
	case f.Kind == Acknowledged, f.Kind == Buried:
		rec.Settled = true
		rec.Output = ""
	case f.Kind == Unsendable:
		rec.Reason = f.Reason
		rec.Unsent = f.Send
	default:
		rec.Unsent = nil
		if f.Kind == Answered || rec.Outcome == Dead {
			rec.Sent = f.Sent
		}
	}
}

func (h *History) countTurn(rec *Record) {
	c := h.conversation(rec.Conversation)
	c.With = rec.From
	c.Last = rec.Started
	c.Turns++
	c.Bound = false
	s := h.sender(rec.From)
	before := s.Within(rec.Started)
	s.Bound = s.Bound && len(before) > 0
	s.Turns = append(before, rec.Started)
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

// applyBound adds a fact about the limit on the turns of a conversation or, without one, of a sender. A person who
// resumes it also releases the messages that the limit holds.
func (h *History) applyBound(f *Fact) {
	resumes := f.Kind == Resumed
	if f.Conversation != "" {
		c := h.conversation(f.Conversation)
		c.With = cmp.Or(c.With, f.From)
		c.Chain = !resumes && (c.Chain || f.From != "")
		c.Unsent = f.Send
		c.Bound = f.Kind == Bound || c.Bound && !resumes
		if resumes {
			c.Turns = 0
		}
	} else {
		s := h.sender(f.From)
		s.Unsent = f.Send
		s.Bound = f.Kind == Bound || s.Bound && !resumes
		if resumes {
			s.Turns = nil
		}
	}
	if !resumes {
		return
	}
	h.Released++
	for _, rec := range h.Records {
		if rec.Conversation == f.Conversation || f.Conversation == "" && rec.From == f.From {
			rec.Resumed = rec.Resumed || rec.Held != "" && rec.Hops > 0 && f.Conversation != ""
			rec.Held = rec.Stopped
		}
	}
}

func (h *History) restore(f *Fact) {
	switch {
	case f.Record != nil:
		f.Record.Last = cmp.Or(f.Record.Last, f.At)
		h.Records[f.Record.Key] = f.Record
		for _, id := range f.Record.Questions {
			h.asked[id] = f.Record.Key
		}
	case f.Thread != nil:
		h.Conversations[f.Thread.ID] = f.Thread
	case f.Sender != nil:
		h.Senders[f.Sender.Name] = f.Sender
	}
}

// KeepFor is how long compaction keeps a message that needs no more work, and a conversation, after the last fact
// about it.
const KeepFor = 30 * 24 * time.Hour

// Snapshots returns the facts that add up to the history, without what is too old to matter.
func (h *History) Snapshots(now time.Time) []Fact {
	isNew := func(last time.Time) bool { return now.Sub(last) < KeepFor }
	var facts []Fact
	for _, rec := range h.Records {
		if rec.Running || rec.Stopped != "" || rec.Outcome != "" && !rec.Done() || isNew(rec.Last) {
			facts = append(facts, Fact{At: now, Kind: snapshot, Record: rec})
		}
	}
	for _, c := range h.Conversations {
		if c.Bound || isNew(c.Last) {
			facts = append(facts, Fact{At: now, Kind: snapshot, Thread: c})
		}
	}
	for _, s := range h.Senders {
		if s.Turns = s.Within(now); len(s.Turns) > 0 || s.Unsent != nil {
			facts = append(facts, Fact{At: now, Kind: snapshot, Sender: s})
		}
	}
	return facts
}
