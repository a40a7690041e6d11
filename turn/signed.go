package turn

import (
	"errors"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/turn/track"
)

func isHeld(err error) bool {
	_, held := errors.AsType[*mailbox.HeldError](err)
	return held
}

// withhold reports, once, a file that the agent does not read because it has no verified signature. The Runner
// reads it again when the keys that the agent trusts change.
func (r *Runner) withhold(e mailbox.Entry) {
	if it := r.schedule.items[e.Name]; it != nil && it.state != inWork {
		r.schedule.remove(e.Name)
		r.endClaim(it, true)
	}
	reason := e.Err.Error()
	if r.withheld[e.Name] == reason {
		return
	}
	r.withheld[e.Name] = reason
	r.events.publish(Event{Kind: EventHeld, Envelope: track.Envelope{File: e.Name}, Reason: reason})
}

// lookAgain reads withheld files again if the keys that the agent trusts, or its settings, may have changed.
func (r *Runner) lookAgain() {
	now := trust.StampOf(r.workspace, r.config.Agent)
	if now == r.trusted {
		return
	}
	r.trusted = now
	for name := range r.withheld {
		r.watcher.Forget(name)
	}
}
