package turn

import (
	"context"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// maxJoining bounds the messages that wait to join a turn.
const maxJoining = 16

// A joined message was given to the turn on another one. Its own turn ends as that one does.
type joined struct {
	item    *item
	message *schema.Message
	rec     track.Record
}

// steer offers a P0 message that has arrived to the running turn of its conversation.
func (r *Runner) steer(it *item, arrived watch.Event) {
	into := r.inWork[it.Conversation]
	if !r.config.Steer || into == nil || arrived.Entry.Message.Priority != schema.P0 {
		return
	}
	var d decision
	r.journal.View(func(h *track.History) { d = r.config.decide(h, it, r.now(), r.pausedUntil) })
	if d.do == try {
		select {
		case into.joining <- it:
		default: // it waits for its own turn
		}
	}
}

// steer gives the messages that are offered to a turn to its driver, until ctx ends with the turn, and returns them.
func (k *worker) steer(ctx context.Context, into *item, driver *markedDriver, mark orphans.Mark) (all []joined) {
	for {
		select {
		case <-ctx.Done():
			return all
		case it := <-into.joining:
			if j := k.join(ctx, it, into, driver, mark); j != nil {
				all = append(all, *j)
			}
		}
	}
}

// steering comes before a message that joins a turn.
const steering = "[While you work on the request above, this urgent message arrived in the same conversation:]\n\n"

// join gives a message to a running turn. It returns nil if the message waits for its own turn.
func (k *worker) join(ctx context.Context, it, into *item, driver *markedDriver, mark orphans.Mark) *joined {
	m, raw, err := k.read(it)
	if err != nil || m.ID != it.ID {
		return nil // its own turn says why
	}
	steerer, can := driver.Driver.(agent.Steerer)
	if !can {
		e := EventWarning.of(&it.Envelope)
		e.Reason = "it waits for the end of the turn on " + into.ID.Short() + ": this driver gives no messages to a running turn"
		k.events.publish(e)
		return nil
	}
	rec, begun, err := k.begin(ctx, it, 0, into.ID, driver.mark, mark)
	if err != nil || !begun {
		if err != nil && ctx.Err() == nil {
			k.events.problem(EventProblem.of(&it.Envelope), err)
		}
		return nil
	}
	if err := steerer.Steer(ctx, steering+k.request(k.entryOf(it), m, raw, rec.Attempts).Prompt); err != nil {
		k.interrupted(&rec, err)
		return nil
	}
	return &joined{it, m, rec}
}

// endJoined ends the turns of messages as the one ended that they joined.
func (k *worker) endJoined(ctx context.Context, all []joined, result agent.Result, err error) (outcomes []outcome) {
	result.Usage, result.Refused = agent.Usage{}, nil // they count once
	for _, j := range all {
		o := outcome{item: j.item}
		if err != nil {
			o = k.fail(ctx, j.item, j.message, &j.rec, result, err)
		} else if o.stop = k.succeed(ctx, j.message, &j.rec, result); o.stop == nil {
			o = k.conclude(j.item)
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}

// finishedJoined handles the outcome of a message that joined a turn. The message is still in the schedule.
func (r *Runner) finishedJoined(o outcome) {
	r.note(o)
	r.failed(o)
	if o.done {
		r.schedule.remove(o.item.File)
		r.followUp(o.item.Key)
		r.watcher.Forget(o.item.File)
	}
}
