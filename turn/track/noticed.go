package track

import (
	"errors"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Noticed records that an agent has a message: the model of an interactive session has it, or a command printed it.
type Noticed struct {
	Holder
	At time.Time `json:"at"`
}

// NoteNoticed durably records in the journal of an agent that it was shown these messages. A zero time means now. After
// an error, callers may try again: recording the same session or process twice changes nothing.
//
// Programs call NoteNoticed while a model waits for them, so it does not read the journal. A Runner treats a
// noticed message like any other.
func NoteNoticed(w *mailbox.Workspace, agent schema.AgentName, messages []Key, by Noticed) error {
	if by.Session != "" && by.Program == "" {
		return errors.New("noting that messages were noticed: the program of the session has no name")
	}
	if err := w.CheckAgent(agent); err != nil || len(messages) == 0 {
		return err
	}
	facts := make([]Fact, len(messages))
	for i, k := range messages {
		facts[i] = noted.by(by.Holder, k)
		facts[i].At = by.At
	}
	return appendFacts(w, agent, facts...)
}

// NoteAwaited records that the turn to which this process belongs, if it belongs to one, waited for a reply and was shown it. The
// reply then gets no turn of its own if that one ends well.
func NoteAwaited(w *mailbox.Workspace, agent schema.AgentName, reply *schema.Message) error {
	var in schema.ID
	err := ownTurns(w, agent, func(rec *Record) {
		if in == "" || rec.In == "" { // those that joined the turn end as it does
			in = rec.ID
		}
	})
	if err != nil || in == "" {
		return err
	}
	return appendFacts(w, agent, Fact{Kind: awaitedReply, Envelope: Envelope{Key: KeyOf(reply)}, In: in})
}

// WasAwaited reports whether a turn that waited for a reply, and was shown it, is running, or has ended well since then.
func (h *History) WasAwaited(k Key) (running, ended bool) {
	rec := h.Records[k]
	if rec == nil || rec.AwaitedIn == "" {
		return false, false
	}
	for _, by := range h.Records {
		if by.ID == rec.AwaitedIn && by.Started.Before(rec.AwaitedAt) {
			return by.Running, by.Outcome == Succeeded || len(by.Awaits) > 0
		}
	}
	return false, false
}

// wasNoticed reports whether a session noticed the message, or it had a turn or a reply, or a sender asked too late to take it back.
func (p Progress) wasNoticed() bool {
	return len(p.Noticed) > 0 || p.hasReplied || p.Working != nil || p.Attempts > 0 || p.Recall != nil && p.Recall.Kept
}
