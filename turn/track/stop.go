package track

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A NoTurnError reports that Stop has nothing to stop: no turn of the agent works on the message.
type NoTurnError struct {
	ID    schema.ID
	Agent schema.AgentName
	// Stage is that of the message, and Lost reports whether a turn on it ended because its Runner died.
	Stage Stage
	Lost  bool
	// In is the message whose turn this one has joined, if any.
	In schema.ID
}

func (e *NoTurnError) Error() string {
	if e.In != "" {
		return fmt.Sprintf("message %s has joined the turn of %s on message %s, which cannot go on without it", e.ID, e.Agent, e.In)
	}
	if e.Lost {
		return fmt.Sprintf("the turn of %s on message %s has ended: its runner died", e.Agent, e.ID)
	}
	return fmt.Sprintf("no turn of %s works on message %s: it is %s", e.Agent, e.ID, e.Stage)
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
// ended by itself in the meantime. If there was no turn, the error is a *NoTurnError.
func Stop(ctx context.Context, w *mailbox.Workspace, id string, agent schema.AgentName, by string) ([]Progress, error) {
	all, err := Track(ctx, w, id)
	if _, err = mailbox.SplitUnreadable(err); err != nil {
		return nil, err
	}
	m := all[0].ID
	if agent != "" {
		all = slices.DeleteFunc(all, func(p Progress) bool { return p.Agent != agent })
	}
	if len(all) == 0 {
		return nil, errors.Join(w.CheckAgent(agent), fmt.Errorf("message %s was not sent to %s", m, agent))
	}
	var stopped []schema.AgentName
	var none error
	for _, p := range all {
		err := stopTurn(ctx, w, &p, by)
		if _, noTurn := errors.AsType[*NoTurnError](err); noTurn {
			none = errors.Join(none, err)
		} else if err != nil {
			return nil, err
		} else {
			stopped = append(stopped, p.Agent)
		}
	}
	if stopped == nil {
		return nil, none
	}
	all, err = Track(ctx, w, string(m))
	return slices.DeleteFunc(all, func(p Progress) bool { return !slices.Contains(stopped, p.Agent) }), err
}

// stopTurn asks the Runner to end its turn on the message, and waits for that.
func stopTurn(ctx context.Context, w *mailbox.Workspace, p *Progress, by string) error {
	h := NewHistory()
	var rec *Record
	err := Exclusively(ctx, w, p.Agent, func() error { // so that no other turn begins
		runs, err := IsRunning(w, p.Agent)
		if err = errors.Join(err, readJournal(w, p.Agent, h.Read)); err != nil {
			return err
		}
		if rec = h.find(p.ID, func(r *Record) bool { return r.Running }); rec == nil || !runs || rec.In != "" {
			e := &NoTurnError{ID: p.ID, Agent: p.Agent, Stage: p.Stage, Lost: rec != nil}
			if rec != nil && runs {
				e.In = rec.In
			}
			return e
		}
		return appendFacts(w, p.Agent, Fact{Kind: stopped, Envelope: Envelope{Key: rec.Key}, Reason: "stopped by " + by})
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stopLimit,
		fmt.Errorf("the runner of %s was asked to end its turn on message %s, but has not ended it within %v", p.Agent, p.ID, stopLimit))
	defer cancel()
	for rec.Running {
		runs, err := IsRunning(w, p.Agent)
		if err = errors.Join(err, readJournal(w, p.Agent, h.Read)); err != nil {
			return err
		}
		if rec.Running && !runs {
			return &NoTurnError{ID: p.ID, Agent: p.Agent, Stage: p.Stage, Lost: true}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(stopPoll):
		}
	}
	return nil
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
