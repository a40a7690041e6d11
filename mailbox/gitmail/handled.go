package gitmail

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// findKept finds archived messages and dead letters.
func (e *exchange) findKept(ctx context.Context, d *outgoing) error {
	for _, agent := range d.agents {
		for _, box := range []mailbox.Box{mailbox.Archive, mailbox.DeadLetters} {
			f := d.folders[mailbox.BoxName(agent, box)]
			for name, here := range f.here {
				p := place{agent, box, name}
				if !f.there[name] && (p.isReason() || schema.IsMessageFile(name)) {
					e.addLeft(d, p, here)
				}
			}
		}
	}
	return context.Cause(ctx)
}

// addLeft adds an archived message, a dead letter or its reason. A dead letter need not be valid.
func (e *exchange) addLeft(d *outgoing, p place, here string) {
	m, data, err := e.readToSend(p, here)
	_, invalid := errors.AsType[*validate.InvalidError](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil && !(invalid && p.box == mailbox.DeadLetters):
		d.problem(p, err)
		return
	}
	kind := Acknowledged
	if p.box == mailbox.DeadLetters {
		kind = DeadLetter
	}
	left := e.leave(d, place{p.agent, mailbox.Inbox, p.message()}, kind)
	left.write = append(left.write, file{p.path(), data})
	d.removeKept(left, p)
	if m != nil {
		left.describe(m)
	}
}

// leave returns the edit for what an agent did with a message.
func (e *exchange) leave(d *outgoing, inbox place, kind Kind) *edit {
	left := d.left[inbox]
	if left == nil {
		left = &edit{Change: Change{Direction: Out, Kind: kind, Agent: inbox.agent, at: e.r.now()}}
		d.left[inbox] = left
		d.edits = append(d.edits, left)
	}
	return left
}

// addRestored adds a message that is pending again.
func (e *exchange) addRestored(d *outgoing, p place, m *schema.Message, data []byte) {
	restored := e.leave(d, p, Restored)
	restored.describe(m)
	restored.Kind, restored.at = Restored, e.r.now()
	restored.write = append(restored.write, file{p.path(), data})
	d.removeKept(restored, p)
}

// removeKept makes an edit remove the archived copy and the dead letter of a message that are gone here: it
// was restored since.
func (d *outgoing) removeKept(left *edit, p place) {
	for _, box := range []mailbox.Box{mailbox.Archive, mailbox.DeadLetters} {
		f := d.folders[mailbox.BoxName(p.agent, box)]
		for _, name := range []string{p.message(), p.message() + mailbox.ReasonSuffix} {
			path := place{p.agent, box, name}.path()
			if f.there[name] && f.here[name] == "" && !f.lost && !slices.Contains(left.remove, path) {
				left.remove = append(left.remove, path)
			}
		}
	}
}

// findAcknowledged finds messages that left an inbox here.
func (e *exchange) findAcknowledged(ctx context.Context, d *outgoing) error {
	for _, agent := range d.agents {
		f := d.folders[mailbox.BoxName(agent, mailbox.Inbox)]
		for name := range f.there {
			p := place{agent, mailbox.Inbox, name}
			if f.here[name] != "" || f.lost || e.o.DryRun && e.touched[p.path()] {
				continue
			}
			if err := e.addAcknowledged(d, f, p); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// addAcknowledged adds a message that the tip has in an inbox and the workspace has not.
func (e *exchange) addAcknowledged(d *outgoing, f *folder, p place) error {
	original, m, err := e.original(p.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it is not known here: the workspace refused it, or somebody removed the copy
	case err != nil:
		d.problem(original, err)
		f.unsettled = true
		e.blocked(err) // a claim on the message must stay
		return nil
	case d.staged[m.ID]:
		f.unsettled = true
		return nil
	}
	if entry, err := e.entry(p); entry != nil || err != nil {
		return err
	}
	left := e.leave(d, p, Acknowledged)
	left.describe(m)
	left.at = e.r.now()
	left.remove = append(left.remove, p.path())
	return nil
}

// findDropped finds dead letters that are gone: the messages were restored here and handled, or somebody
// deleted the files.
func (e *exchange) findDropped(ctx context.Context, d *outgoing) error {
	for _, agent := range d.agents {
		f := d.folders[mailbox.BoxName(agent, mailbox.DeadLetters)]
		for name := range f.there {
			p := place{agent, mailbox.DeadLetters, name}
			if f.here[p.message()] != "" || f.lost || e.o.DryRun && e.touched[p.path()] {
				continue
			}
			_, m, err := e.original(p.message())
			if err != nil {
				continue // it is not known here
			}
			left := e.leave(d, place{agent, mailbox.Inbox, p.message()}, Acknowledged)
			if left.describe(m); !slices.Contains(left.remove, p.path()) {
				left.remove = append(left.remove, p.path())
			}
		}
	}
	return context.Cause(ctx)
}
