package track

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Restored is the result of Restore for one recipient of a message.
type Restored struct {
	ID    schema.ID        `json:"message_id"`
	Agent schema.AgentName `json:"agent"`
	// Was is the earlier stage of the message: StageDone, StageDead, StageHeld if its turn was stopped, StageWaiting if
	// Restore did nothing, because the message is in the inbox or on its way there, or that of a message of which the
	// recipient had no copy, such as StageAgentRemoved.
	Was Stage `json:"was"`
	// Path is the copy in the inbox.
	Path string `json:"path,omitempty"`
}

// Restore returns a message to the inboxes of the agents that acknowledged it or gave it up, or only
// to that of the given agent. It resets the count of turns, even for a working Runner. A message whose turn was
// stopped gets turns again. Agents that read only verified messages then read one again that they have handled, which a
// restore on another machine does not make them do; see PutBack.
//
// Restore tries all recipients. With an error, it also returns those for which it succeeded.
func Restore(ctx context.Context, w *mailbox.Workspace, id string, agent schema.AgentName) ([]Restored, error) {
	found, err := mailbox.FindToRestore(ctx, w, id)
	if err != nil {
		return nil, err
	}
	m := found[0].Message
	recipients := slices.Clone(m.To)
	for _, e := range found {
		if e.Box != mailbox.Outbox && !slices.Contains(recipients, e.Agent) && (agent != "" || len(m.To) == 0) {
			recipients = append(recipients, e.Agent)
		}
	}
	if agent != "" {
		if !slices.Contains(recipients, agent) {
			return nil, errors.Join(w.CheckAgent(agent), fmt.Errorf("message %s was not sent to %s", m.ID, agent))
		}
		recipients = []schema.AgentName{agent}
	}
	var all []Restored
	var errs []error
	for _, name := range recipients {
		one, err := restore(ctx, w, m, name)
		if err != nil {
			errs = append(errs, err)
		}
		if err == nil || one.Path != "" {
			all = append(all, one)
		}
	}
	return all, errors.Join(errs...)
}

// restore restores the message for one agent.
func restore(ctx context.Context, w *mailbox.Workspace, m *schema.Message, name schema.AgentName) (one Restored, err error) {
	one = Restored{ID: m.ID, Agent: name, Was: StageWaiting}
	if w.Knows(name) {
		if _, err := mailbox.Note(w, name, []byte(m.File), mailbox.Reopened); err != nil {
			return one, err
		}
	}
	one.Path, err = w.Restore(ctx, m, name, func(source mailbox.Entry) error {
		if source.Box != mailbox.Outbox {
			return one.revive(w, source)
		}
		before, err := newTracker(w).progress(m, name, []mailbox.Entry{source})
		err = errors.Join(err, one.revive(w, source))
		one.Was = before.Stage
		return err
	})
	if pending, ok := errors.AsType[*mailbox.PendingError](err); ok {
		one = Restored{ID: m.ID, Agent: name, Was: StageWaiting, Path: pending.Path}
		return one, release(w, &one)
	}
	return one, err
}

// PutBack restores a message for an agent after another machine did so.
func PutBack(ctx context.Context, w *mailbox.Workspace, m *schema.Message, agent schema.AgentName) error {
	one := Restored{ID: m.ID, Agent: agent}
	_, err := mailbox.PutBack(ctx, w, m, agent, func(source mailbox.Entry) error { return one.revive(w, source) })
	return err
}

// revive clears the record of a message, because a Runner would otherwise take the message for a copy of a handled one.
func (one *Restored) revive(w *mailbox.Workspace, source mailbox.Entry) error {
	one.Was = StageDone
	revived := Fact{Kind: Revived, Envelope: Envelope{Key: KeyOf(source.Message)}}
	if source.Box == mailbox.DeadLetters {
		one.Was = StageDead
		if reason, err := w.Reason(source); err == nil && reason.RecalledBy != "" {
			revived.RecalledAt = reason.At.Time()
		}
	}
	if source.Err != nil { // a Runner identifies an invalid message by its bytes
		raw, err := mailbox.ReadUnscreened(w, source)
		if err != nil {
			return err
		}
		revived.Fingerprint = Fingerprint(raw)
	}
	return appendFacts(w, one.Agent, revived)
}

// release lets a pending message have turns again if a turn on it was stopped and has ended.
func release(w *mailbox.Workspace, one *Restored) error {
	h, err := ReadHistory(w, one.Agent)
	if err != nil {
		return err
	}
	rec := h.find(one.ID, func(r *Record) bool { return r.Stopped != "" && !r.Running })
	if rec == nil {
		return nil
	}
	one.Was = StageHeld
	return appendFacts(w, one.Agent, Revived.Of(&rec.Envelope))
}

// Resume lets a conversation continue that has reached a limit on turns. It resets the turns of the conversation, and
// those within an hour on messages of the other side, in the journal of each agent that had turns in the
// conversation. It returns these agents, or an error if there are none. A Runner at work continues within about a
// second.
func Resume(ctx context.Context, w *mailbox.Workspace, conversation schema.ConversationID) (resumed []schema.AgentName, err error) {
	if _, err := schema.ParseConversationID(conversation); err != nil {
		return nil, err
	}
	agents, err := w.Agents()
	if err != nil {
		return nil, err
	}
	for _, name := range agents {
		if err := context.Cause(ctx); err != nil {
			return resumed, err
		}
		h, err := ReadHistory(w, name)
		if err != nil {
			return resumed, err
		}
		there := h.Conversations[conversation]
		if there == nil {
			continue
		}
		facts := []Fact{{Kind: Resumed, Envelope: Envelope{Conversation: conversation}}}
		if there.With != "" {
			facts = append(facts, Fact{Kind: Resumed, Envelope: Envelope{From: there.With}})
		}
		if err := appendFacts(w, name, facts...); err != nil {
			return resumed, err
		}
		resumed = append(resumed, name)
	}
	if len(resumed) == 0 {
		return nil, fmt.Errorf("no agent has had turns in conversation %s", conversation)
	}
	return resumed, nil
}
