package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// addKept writes archived messages and dead letters. It writes the reason of a dead letter first, so that
// every visible dead letter has one. If two machines gave a message up, the reason that was published last
// counts on both.
func (e *exchange) addKept(ctx context.Context, files []keptFile, b *reader) error {
	slices.SortStableFunc(files, func(a, b keptFile) int {
		return len(b.name) - len(b.message()) - (len(a.name) - len(a.message()))
	})
	for _, file := range files {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		here, err := e.find(file.place)
		if err != nil {
			e.blockedIn(err, file.place)
			continue
		}
		if here != "" && !file.isReason() {
			continue
		}
		data, err := b.take(file.object)
		if err == nil && !file.isReason() {
			if _, invalid := validate.Read(data); invalid != nil && file.box == mailbox.Archive {
				err = errRefused{invalid}
			}
		}
		if err == nil && !e.r.w.Knows(file.agent) {
			err = errRefused{fmt.Errorf("there is no agent %s", file.agent)}
		}
		if refused, ok := errors.AsType[errRefused](err); ok {
			e.problem(file.path(), refused.error)
			continue
		}
		if err != nil {
			return err
		}
		err = e.write(func() error { return e.r.w.MakeFolder(file.folder()) })
		if err == nil {
			err = e.writeFile(file.folder()+"/"+cmp.Or(here, file.name), data)
		}
		if err != nil {
			e.blockedIn(err, file.place)
		}
	}
	return nil
}

// acknowledge removes the inbox copies of messages that were acknowledged elsewhere: those that the tip
// no longer has, and those of messages that are new in the tip without one.
func (e *exchange) acknowledge(ctx context.Context, news *arrivals, known []*arrival) error {
	agents, err := e.r.w.Agents()
	if err != nil {
		return err
	}
	gone := news.acknowledged
	for _, a := range known {
		for _, agent := range agents {
			if a.sent && !slices.Contains(a.pending, agent) {
				gone = append(gone, place{agent, mailbox.Inbox, a.name})
			}
		}
	}
	kinds := make(map[string]Kind)
	for _, file := range news.kept {
		if file.box == mailbox.DeadLetters {
			kinds[string(file.agent)+"/"+file.message()] = DeadLetter
		}
	}
	staged, _, err := e.r.w.Staged()
	if err != nil {
		return err
	}
	for _, p := range gone {
		kind := cmp.Or(kinds[string(p.agent)+"/"+p.name], Acknowledged)
		if err := e.acknowledgeCopy(p, kind, len(staged) > 0); err != nil {
			e.blockedIn(err, p)
		}
	}
	return context.Cause(ctx)
}

// acknowledgeCopy removes the inbox copy of a message. Staged says that it may be a staged one.
func (e *exchange) acknowledgeCopy(p place, kind Kind, staged bool) error {
	entry, err := e.entry(p)
	if entry == nil && staged {
		if withdrawn, err := e.withdraw(p); withdrawn {
			return err
		}
	}
	if entry == nil || err != nil {
		return err
	}
	c := Change{Direction: In, Kind: kind, Agent: p.agent}
	if m, err := e.readFile(place{p.agent, mailbox.Inbox, entry.Name}); err == nil {
		c.describe(m)
	}
	// The archive of the tip has the message, if it was not deleted there.
	if err := e.write(func() error { return e.r.w.Remove(*entry) }); err != nil && !mailbox.IsGone(err) {
		return err
	}
	e.result.Changes = append(e.result.Changes, c)
	return nil
}

// withdraw removes the staged copy of a message that was acknowledged elsewhere, while its inbox here
// refuses it: once in the inbox, it would be taken for a restored message. It reports whether there was one.
func (e *exchange) withdraw(p place) (found bool, err error) {
	_, m, err := e.original(p.name)
	if err != nil {
		return false, nil // it is not known here
	}
	if found, err = e.r.w.IsQueued(m.ID, p.agent); !found {
		return false, err
	}
	return true, e.write(func() error { return e.r.w.Withdraw(m.ID, p.agent) })
}

// entry returns the copy of a message in an inbox or another box, or nil if there is none.
func (e *exchange) entry(p place) (*mailbox.Entry, error) {
	name, err := e.find(p)
	if name == "" || err != nil {
		return nil, err
	}
	return &mailbox.Entry{Agent: p.agent, Box: p.box, Name: name, Path: filepath.Join(e.r.w.BoxPath(p.agent, p.box), name)}, nil
}

// revive puts messages back into inboxes that were restored on another machine, and removes the dead
// letters and archived copies of those that were handled since. A tip that was rewound revives nothing.
func (e *exchange) revive(ctx context.Context, news *arrivals, known []*arrival) error {
	known = slices.DeleteFunc(known, func(a *arrival) bool { return a.sent || len(a.pending) == 0 })
	if len(known)+len(news.dropped) == 0 {
		return nil
	}
	if descends, err := e.r.descends(ctx, e.tip, e.base); !descends || err != nil {
		return err
	}
	for _, a := range known {
		for _, agent := range a.pending {
			if err := e.reviveOnce(ctx, a, agent); err != nil {
				e.blockedIn(err, place{agent, mailbox.Inbox, a.name})
			}
		}
	}
	for _, p := range news.dropped {
		entry, err := e.entry(p)
		if err == nil && entry != nil {
			err = e.write(func() error { return e.r.w.Remove(*entry) })
		}
		if err != nil && !mailbox.IsGone(err) {
			e.blockedIn(err, p)
		}
	}
	return context.Cause(ctx)
}

// reviveOnce puts a message back and records that it did: if this sync is killed before it moves the base,
// the next one finds the same news, and the message may have been handled by then.
func (e *exchange) reviveOnce(ctx context.Context, a *arrival, agent schema.AgentName) error {
	path := place{agent, mailbox.Inbox, a.name}.path()
	if e.cache.RevivedOn != e.base {
		e.cache.RevivedOn, e.cache.Revived = e.base, nil
	}
	if slices.Contains(e.cache.Revived, path) {
		return nil
	}
	if err := e.putBack(ctx, a, agent); err != nil {
		return err
	}
	e.cache.Revived = append(e.cache.Revived, path)
	return e.write(e.writeCache)
}

// putBack restores a message that an agent has acknowledged here.
func (e *exchange) putBack(ctx context.Context, a *arrival, agent schema.AgentName) error {
	if entry, err := e.entry(place{agent, mailbox.Inbox, a.name}); entry != nil || err != nil {
		return err
	}
	original, m, err := e.original(a.name)
	if _, invalid := errors.AsType[*validate.InvalidError](err); invalid {
		e.problem(original.file(), err)
		return nil
	}
	if err != nil {
		return err
	}
	c := Change{Direction: In, Kind: Restored, Agent: agent}
	c.describe(m)
	err = e.write(func() error {
		if e.o.Restore != nil {
			return e.o.Restore(ctx, m, agent)
		}
		_, err := e.r.w.Restore(ctx, m, agent, func(mailbox.Entry) error { return nil })
		return err
	})
	if _, pending := errors.AsType[*mailbox.PendingError](err); err != nil && !pending {
		return err
	}
	e.result.Changes = append(e.result.Changes, c)
	return nil
}
