package track

import (
	"context"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/exclusive"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// AgentStatus is the state of an agent's inbox.
type AgentStatus struct {
	Agent schema.AgentName `json:"agent"`
	// Running reports whether a Runner works the inbox. Runner is its process, if known.
	Running bool              `json:"running"`
	Runner  *exclusive.Holder `json:"runner,omitempty"`
	// Pending counts the messages in the inbox that have a turn or wait for one. Held, Expired and
	// Invalid count the others.
	Pending int `json:"pending"`
	Held    int `json:"held"`
	Expired int `json:"expired"`
	Invalid int `json:"invalid"`
	// Unreadable says why nothing is known of the agent, if its mailbox or its files in state cannot be read.
	Unreadable string `json:"unreadable,omitempty"`
	// Oldest is when the oldest pending message was created.
	Oldest      time.Time `json:"oldest,omitzero"`
	DeadLetters int       `json:"dead_letters"`
	// InTurn are the messages that have a turn now.
	InTurn []Turn `json:"in_turn,omitempty"`
	// Last is the turn that ended last, and Failures how many failed since the last success.
	Last     *Turn `json:"last,omitempty"`
	Failures int   `json:"failures"`
	// Conversations are those with a turn within the last hour, and those that need Resume; the latest first.
	Conversations []Conversation `json:"conversations,omitempty"`
	// Working are the pending messages on which the agent says it works.
	Working []WorkingOn `json:"working,omitempty"`
	// LastCommand is the command that acted last for the agent, and Waiting the one that waits for its mail now.
	LastCommand *Command `json:"last_command,omitempty"`
	Waiting     *Command `json:"waiting,omitempty"`
}

// WorkingOn is what an agent says about its work on a message.
type WorkingOn struct {
	ID      schema.ID `json:"id"`
	Subject string    `json:"subject"`
	Working
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
	unreadable := new(mailbox.UnreadableError)
	for _, name := range agents {
		status, err := statusOf(ctx, w, name)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			status = AgentStatus{Agent: name, Unreadable: err.Error()}
			unreadable.Add(name, err)
		}
		statuses = append(statuses, status)
	}
	if unreadable.Err != nil {
		return statuses, unreadable
	}
	return statuses, nil
}

func statusOf(ctx context.Context, w *mailbox.Workspace, name schema.AgentName) (AgentStatus, error) {
	s := AgentStatus{Agent: name}
	entries, err := w.Inbox(ctx, name)
	if err != nil {
		return s, err
	}
	dead, err := w.List(ctx, name, mailbox.DeadLetters)
	if err != nil {
		return s, err
	}
	for _, e := range dead {
		if mailbox.RecalledBy(w, e) == "" {
			s.DeadLetters++
		}
	}
	s.LastCommand, s.Waiting = CommandsOf(w, name)
	t := newTracker(w)
	state, err := t.inbox(name)
	if err != nil {
		return s, err
	}
	s.Running = state.running
	s.Runner = state.runner
	s.Failures = state.history.failures
	for _, e := range entries {
		var p Progress
		if e.Err == nil {
			if p, err = t.progress(e.Message, name, []mailbox.Entry{e}); err != nil {
				return s, err
			}
		}
		s.count(e, p)
		if (p.Stage == StageWorking || p.Stage == StageExpired) && state.record(e.Message).saysWorking() {
			s.Working = append(s.Working, WorkingOn{p.ID, e.Message.Subject, *p.Working})
		}
	}
	var last *Record
	for _, rec := range state.history.Records {
		switch {
		case rec.Running && s.Running:
			s.InTurn = append(s.InTurn, turnOf(rec).inStatus())
		case !rec.Started.IsZero() && !rec.Ended.IsZero() && (last == nil || rec.Ended.After(last.Ended)):
			last = rec
		}
	}
	slices.SortFunc(s.InTurn, func(a, b Turn) int { return a.Started.Compare(b.Started) })
	if last != nil {
		turn := turnOf(last).inStatus()
		s.Last = &turn
	}
	for _, c := range state.history.Conversations {
		if c.Bound || c.With != "" && t.now.Sub(c.Last) < PairWindow {
			one := c.Conversation
			one.Last = inSeconds(c.Last)
			s.Conversations = append(s.Conversations, one)
		}
	}
	slices.SortFunc(s.Conversations, func(a, b Conversation) int { return b.Last.Compare(a.Last) })
	return s, nil
}

// count adds a file in the inbox.
func (s *AgentStatus) count(e mailbox.Entry, p Progress) {
	switch {
	case e.IsHeld(), p.Stage == StageHeld:
		s.Held++
	case e.Err != nil:
		s.Invalid++
	case p.Stage == StageExpired:
		s.Expired++
	default:
		s.Pending++
		if at := e.Message.Dated().Time(); s.Oldest.IsZero() || at.Before(s.Oldest) {
			s.Oldest = at
		}
	}
}

// turnOf returns the last turn on a message.
func turnOf(rec *Record) Turn {
	t := Turn{Envelope: rec.Envelope, Attempt: rec.Attempts, Started: rec.Started}
	if !rec.Running {
		t.Ended = rec.Ended
		t.Succeeded = rec.Outcome == Succeeded || len(rec.Awaits) > 0
		t.Reason = rec.Reason
		t.Usage = rec.Usage
	}
	return t
}

// inStatus returns the turn without what a status leaves out.
func (t Turn) inStatus() Turn {
	t.Fingerprint, t.File = "", ""
	t.Started, t.Ended = inSeconds(t.Started), inSeconds(t.Ended)
	return t
}

// dropTexts removes what is free text, because nobody signs a journal.
func (h *History) dropTexts() {
	const dropped = "not shown, because it is not signed"
	for _, rec := range h.Records {
		rec.Subject = ""
		for _, text := range []*string{&rec.Reason, &rec.Held, &rec.Stopped} {
			if *text != "" {
				*text = dropped
			}
		}
		if rec.Working != nil {
			rec.Working.Text = ""
		}
	}
}
