package turn

import (
	"errors"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/turn/track"
)

// unverified returns why a message gets no turn if only signed ones do; empty if it may get one.
func (k *worker) unverified(m *schema.Message) string {
	if !k.config.RequireSigned {
		return ""
	}
	reason := "it is not signed"
	e := mailbox.Entry{Agent: k.config.Agent, Box: mailbox.Inbox, Message: m}
	switch f := trust.NewChecker(k.workspace).Check(e); f.Verdict {
	case signing.VerdictVerified:
		return ""
	case signing.VerdictUnverified, signing.VerdictBad:
		reason = f.Reason
	}
	return "only messages with a verified signature get turns here: " + reason
}

func isHeld(err error) bool {
	_, held := errors.AsType[*mailbox.HeldError](err)
	return held
}

// withhold reports, once, a file that the agent does not read because it has no verified signature. It is
// looked at again when the agent's trust changes.
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

// lookAgain makes decisions again if the keys that the agent trusts, or its settings, may have changed.
func (r *Runner) lookAgain() {
	now := trust.StampOf(r.workspace, r.config.Agent)
	if now == r.trusted {
		return
	}
	r.trusted = now
	if r.config.RequireSigned {
		r.schedule.wakeAll()
	}
	for name := range r.withheld {
		r.watcher.Forget(name)
	}
}
