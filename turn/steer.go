package turn

import (
	"context"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A joined message was given to the turn on another one. Its own turn ends as that one does.
type joined struct {
	item    *item
	message *schema.Message
	rec     track.Record
}

// steer offers a message that has arrived to the running turn of its conversation, if it is P0.
func (r *Runner) steer(it *item, priority schema.Priority) {
	into := r.inWork[it.Conversation]
	if !r.config.Steer || into == nil || priority != schema.P0 || r.decide(it, r.now()).do != try {
		return
	}
	select {
	case into.joining <- it:
	default: // it waits for its own turn
	}
}

// steer gives the messages that are offered to a turn to its driver, until the turn is over, and returns them. The end of
// ctx also ends a driver that does not say whether the agent gets a message.
func (k *worker) steer(ctx context.Context, over <-chan struct{}, into *item, driver *markedDriver, mark orphans.Mark) (all []joined) {
	for {
		select {
		case <-over:
			return all
		case it := <-into.joining:
			if steerer, can := driver.Driver.(agent.Steerer); can {
				all = append(all, k.join(ctx, it, into, steerer, driver.mark, mark)...)
				continue
			}
			k.events.say(EventWarning.of(&it.Envelope),
				"it waits for the end of the turn on "+into.ID.Short()+": this driver gives no messages to a running turn")
		}
	}
}

// steering comes before a message that joins a turn.
const steering = "[While you work on the request above, this urgent message arrived in the same conversation:]\n\n"

// join gives a message to a running turn. If that fails, it returns nothing, and the message waits for its own turn.
func (k *worker) join(ctx context.Context, it, into *item, driver agent.Steerer, marks ...orphans.Mark) []joined {
	j, raw, begun := k.beginJoined(ctx, it, into, marks...)
	if !begun {
		return nil
	}
	if err := driver.Steer(ctx, steering+k.request(k.entryOf(it), j.message, raw, j.rec.Attempts).Prompt); err != nil {
		k.interrupted(&j.rec, j.message, EndStopped.ending(), err)
		return nil
	}
	return []joined{j}
}

// beginJoined begins the turn of a message that joins another one, unless its own turn would say why it does not begin.
func (k *worker) beginJoined(ctx context.Context, it, into *item, marks ...orphans.Mark) (j joined, raw []byte, begun bool) {
	m, raw, err := k.read(it)
	if rec, _ := k.journal.Get(it.Key); err != nil || m.ID != it.ID || rec.Running { // or it has joined, and its file was touched
		return j, nil, false
	}
	turns, err := mailbox.Note(k.workspace, k.config.Agent, raw, mailbox.Begun)
	if err != nil {
		return j, nil, false
	}
	var rec track.Record
	if begun = turns <= k.config.MaxAttempts; begun {
		rec, begun, err = k.begin(ctx, it, turns, into.ID, marks...)
	}
	if err != nil || !begun {
		k.uncount(&it.Envelope, m)
		return j, nil, false
	}
	return joined{it, m, rec}, raw, true
}

// endJoined ends the turns of messages as the one ended that they joined.
func (k *worker) endJoined(ctx context.Context, all []joined, result agent.Result, err error) (outcomes []outcome) {
	result.Usage, result.Refused = agent.Usage{}, nil // they count once
	for _, j := range all {
		outcomes = append(outcomes, k.settle(ctx, j.item, j.message, &j.rec, result, err))
	}
	return outcomes
}
