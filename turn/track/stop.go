package track

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A NoTurnError reports that Stop has nothing to stop.
type NoTurnError struct {
	ID    schema.ID
	Agent schema.AgentName
	// Reason says why no turn of the agent works on the message.
	Reason string
}

func (e *NoTurnError) Error() string {
	return fmt.Sprintf("no turn of %s works on message %s: %s", e.Agent, e.ID, e.Reason)
}

func (e *NoTurnError) Explain() (code, hint string) {
	return "no_turn", "oacp status lists the turns of runners on this machine; no other can be stopped"
}

// A Runner ends a turn within about a second and the grace period of its agent. Stop waits for stopLimit, and looks
// every stopPoll.
const (
	stopLimit = time.Minute
	stopPoll  = 50 * time.Millisecond
)

// Stop makes the Runners of the recipients of a message end their turns on it, or only that of the given agent, and waits
// until they have. The message stays in the inbox and gets no further turn until Restore. By says who stops it.
//
// Stop returns how far the message then is with each agent that had a turn on it: StageHeld, or another stage if the turn
// ended by itself in the meantime. If there was no turn, the error matches *NoTurnError.
func Stop(ctx context.Context, w *mailbox.Workspace, id string, agent schema.AgentName, by string) (stopped []Progress, err error) {
	all, err := Track(ctx, w, id)
	if _, err = mailbox.SplitUnreadable(err); err != nil {
		return nil, err
	}
	none := fmt.Errorf("message %s was not sent to %s", all[0].ID, agent)
	for i, p := range all {
		if agent != "" && p.Agent != agent {
			continue
		}
		err := stopTurn(ctx, w, &p, by)
		if _, noTurn := errors.AsType[*NoTurnError](err); noTurn {
			none = err
			continue
		}
		now, trackErr := Track(ctx, w, string(p.ID))
		if err = cmp.Or(err, trackErr); err != nil {
			return stopped, err
		}
		stopped = append(stopped, now[i])
	}
	if stopped == nil {
		return nil, none
	}
	return stopped, nil
}

// stopTurn asks the Runner to end its turn on the message, and waits for that.
func stopTurn(ctx context.Context, w *mailbox.Workspace, p *Progress, by string) error {
	h := NewHistory()
	var rec *Record
	died := &NoTurnError{p.ID, p.Agent, "its runner has died, and the next one gives the message another turn"}
	look := func() error { // reads what is new in the journal
		runs, err := IsRunning(w, p.Agent)
		if err = errors.Join(err, readJournal(w, p.Agent, h.Read)); err != nil {
			return err
		}
		rec = cmp.Or(rec, h.find(p.ID, func(r *Record) bool { return r.Running }))
		switch {
		case rec == nil:
			return &NoTurnError{p.ID, p.Agent, "it is " + string(p.Stage)}
		case rec.Running && !runs:
			return died
		case rec.In != "":
			return &NoTurnError{p.ID, p.Agent, fmt.Sprintf("it has joined that on message %s, which oacp stop %s ends", rec.In, rec.In.Short())}
		}
		return nil
	}
	err := Exclusively(ctx, w, p.Agent, func() error { // so that no other turn begins
		if err := look(); err != nil {
			return err
		}
		return appendFacts(w, p.Agent, Fact{Kind: stopped, Envelope: Envelope{Key: rec.Key}, Reason: "stopped by " + by})
	})
	ctx, cancel := context.WithTimeoutCause(ctx, stopLimit,
		fmt.Errorf("the runner of %s was asked to end its turn on message %s, and has not within %v", p.Agent, p.ID, stopLimit))
	defer cancel()
	for err == nil && rec.Running {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(stopPoll):
			err = look()
		}
	}
	if errors.Is(err, error(died)) {
		killed, endErr := OwnerOf(w, p.Agent).End(ctx, rec.Marks...)
		if len(killed) > 0 {
			died.Reason += "; these processes of it were still running and were killed: " + strings.Join(killed, ", ")
		}
		err = cmp.Or(endErr, err)
	}
	return err
}

// stop holds the message. If its turn is still running, that is to end.
func (rec *Record) stop(f *Fact) {
	if rec.Outcome == "" {
		rec.Stopped = f.Reason + "; oacp restore " + f.ID.Short() + " gives it another turn"
		rec.Held = rec.Stopped
	}
}

// find returns a record of a message for which is returns true, or nil.
func (h *History) find(id schema.ID, is func(*Record) bool) *Record {
	for k, rec := range h.Records {
		if k.ID == id && is(rec) {
			return rec
		}
	}
	return nil
}
