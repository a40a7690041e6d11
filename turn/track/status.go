package track

import (
	"context"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// AgentStatus is the state of an agent's inbox.
type AgentStatus struct {
	Agent schema.AgentName `json:"agent"`
	// Running reports whether a Runner works the inbox. Runner is its process, if that is known.
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
	Envelope
	Attempt   int       `json:"attempt"`
	Started   time.Time `json:"started"`
	Ended     time.Time `json:"ended,omitzero"`
	Succeeded bool      `json:"succeeded"`
	Reason    string    `json:"reason,omitempty"`
	Usage     Usage     `json:"usage,omitzero"`
}

// Conversation is the state of a conversation.
type Conversation struct {
	ID   schema.ConversationID `json:"id"`
	With schema.AgentName      `json:"with"`
	// Turns counts since the conversation began or a person resumed it.
	Turns int `json:"turns"`
	// Bound reports whether the conversation has reached its limit on turns.
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
	state, err := readInbox(w, name)
	if err != nil {
		return s, err
	}
	s.Running, s.Runner = state.running, state.runner
	h := state.history
	dead, err := w.List(ctx, name, mailbox.DeadLetters)
	if err != nil {
		return s, err
	}
	s.DeadLetters = len(dead)
	now := time.Now()
	waiting := make(map[schema.ConversationID]bool)
	for _, e := range entries {
		s.count(e, state, now, waiting)
	}
	for _, rec := range h.Records {
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
func (s *AgentStatus) count(e mailbox.Entry, state *inboxState, now time.Time, waiting map[schema.ConversationID]bool) {
	switch {
	case e.IsHeld():
		s.Held++
		return
	case e.Err != nil:
		s.Invalid++
		return
	}
	waiting[conversation.Of(e.Message)] = true
	switch state.stage(e.Message, state.record(e.Message), now) {
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

// inSeconds returns a time as programs and people get it.
func inSeconds(at time.Time) time.Time { return at.UTC().Truncate(time.Second) }

func turnOf(rec *Record) Turn {
	t := Turn{Envelope: rec.Envelope, Attempt: rec.Attempts, Started: inSeconds(rec.Started)}
	t.Fingerprint, t.File = "", ""
	if !rec.Running {
		t.Ended, t.Succeeded, t.Reason, t.Usage = inSeconds(rec.Ended), rec.Outcome == Succeeded, rec.Reason, rec.Usage
	}
	return t
}

func conversationsOf(h *History, now time.Time, waiting map[schema.ConversationID]bool) []Conversation {
	var conversations []Conversation
	for id, c := range h.Conversations {
		if c.With != "" && (c.Bound || waiting[id] || now.Sub(c.Last) < PairWindow) {
			conversations = append(conversations, Conversation{ID: id, With: c.With, Turns: c.Turns, Bound: c.Bound, Last: inSeconds(c.Last)})
		}
	}
	slices.SortFunc(conversations, func(a, b Conversation) int { return b.Last.Compare(a.Last) })
	return conversations
}
