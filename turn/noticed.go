package turn

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Noticed says that the model of an interactive session got a message.
type Noticed struct {
	// Session is the program's id of the session.
	Session string `json:"session"`
	// Program is claude or codex.
	Program string    `json:"program"`
	At      time.Time `json:"at"`
}

// NoteNoticed records in the journal of an agent that the model of a session got these messages. They are
// complete, with their bodies. When NoteNoticed returns, the record is durable. After an error, call it
// again: a session notices a message once, however often that is recorded. Without a time, it is now.
//
// Programs call NoteNoticed while a model waits for them, so it does not read the journal. For a Runner, a
// message that was noticed is like any other.
func NoteNoticed(w *mailbox.Workspace, agent schema.AgentName, messages []*schema.Message, by Noticed) error {
	if by.Session == "" || by.Program == "" {
		return errors.New("noting that messages were noticed: the session or its program has no name")
	}
	if err := w.CheckAgent(agent); err != nil {
		return err
	}
	var errs []error
	facts := make([]fact, 0, len(messages))
	for _, m := range messages {
		k, err := keyOf(m)
		if err != nil {
			errs = append(errs, fmt.Errorf("noting that message %s was noticed: %w", m.ID, err))
			continue
		}
		facts = append(facts, fact{At: by.At, Kind: noticed, key: k, Session: by.Session, Program: by.Program})
	}
	if len(facts) > 0 {
		errs = append(errs, appendFacts(w, agent, facts...))
	}
	return errors.Join(errs...)
}

// notice adds a session that noticed the message, unless it is known.
func (rec *record) notice(by Noticed) {
	known := slices.ContainsFunc(rec.Noticed, func(n Noticed) bool { return n.Session == by.Session && n.Program == by.Program })
	if !known {
		rec.Noticed = append(rec.Noticed, by)
	}
}

// isNoticed reports whether a session has noticed the message since its last turn began.
func (rec *record) isNoticed() bool {
	return slices.ContainsFunc(rec.Noticed, func(n Noticed) bool { return n.At.After(rec.Started) })
}
