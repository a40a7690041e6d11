package turn

import (
	"errors"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/validate"
)

// take takes in what a watch saw.
func (r *Runner) take(event watch.Event) {
	switch event.Kind {
	case watch.EventArrived:
		r.invalid.remove(event.Name)
		r.takeMessage(event.Entry)
	case watch.EventArchived:
		r.invalid.remove(event.Name)
		if it := r.schedule.items[event.Name]; it != nil && !it.busy {
			r.schedule.remove(it.File)
			r.leave(it.key)
		}
	case watch.EventError:
		var invalid *validate.InvalidError
		if event.Name != "" && (errors.As(event.Err, &invalid) || errors.Is(event.Err, durable.ErrTooLarge)) {
			// What is given up at once is told then.
			if due := r.invalid.add(event.Entry); due.After(r.now()) {
				r.problem(Event{File: event.Name, RetryAt: due}, event.Err)
			}
			return
		}
		if event.Name != "" {
			r.invalid.remove(event.Name)
			r.invalid.unread[event.Name] = event.Entry
		}
		r.problem(Event{File: event.Name}, event.Err)
	case watch.EventWarning:
		r.observe(Event{Kind: EventWarning, File: event.Name, Reason: event.Err.Error(), Err: event.Err})
	}
}

func (r *Runner) takeMessage(e mailbox.Entry) {
	it, err := newItem(e.Name, e.Message)
	if err != nil {
		r.problem(Event{File: e.Name}, err)
		return
	}
	if old := r.schedule.items[e.Name]; old != nil && old.busy {
		old.replacement = it
		return
	}
	r.schedule.add(it)
}
