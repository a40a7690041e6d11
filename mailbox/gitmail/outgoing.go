package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// edit is a change of the workspace that the tip does not have, and what it changes in the tree.
type edit struct {
	Change
	write  []file
	remove []string
}

// file is a file for the tree.
type file struct {
	path string
	data []byte
}

// outgoing is what the workspace has and the tip does not.
type outgoing struct {
	*survey
	edits    []*edit
	problems []Problem
	// staged are the messages with staged copies: their inbox copies may still come.
	staged map[schema.ID]bool
	// sent are the new messages by file name, and left what agents did with messages, by inbox copy.
	sent map[string]*edit
	left map[place]*edit
}

// problem notes a file that does not travel. Somebody may mend it in place, which leaves no trace in its
// folder, unless its name is the problem.
func (d *outgoing) problem(p place, err error) {
	d.problems = append(d.problems, Problem{p.file(), err})
	if f := d.folders[p.folder()]; f != nil && p.check() == nil {
		f.unsettled = true
	}
}

// look finds what the workspace has and the tip does not. The order is that of a delivery, so that no
// message on its way is taken for an acknowledged one: first outboxes, then staged copies, then
// inboxes.
func (e *exchange) look(ctx context.Context) (*outgoing, error) {
	s, err := e.survey(ctx)
	if err != nil {
		return nil, err
	}
	d := &outgoing{survey: s, sent: make(map[string]*edit), left: make(map[place]*edit), staged: make(map[schema.ID]bool)}
	if err := e.listHere(ctx, s, mailbox.Outbox, mailbox.Archive, mailbox.DeadLetters); err != nil {
		return nil, err
	}
	staged, _, err := e.r.w.Staged()
	if err != nil {
		return nil, err
	}
	for _, id := range staged {
		d.staged[id] = true
	}
	if err := e.listHere(ctx, s, mailbox.Inbox); err != nil {
		return nil, err
	}
	if err := e.listThere(ctx, s); err != nil {
		return nil, err
	}
	for _, find := range []func(context.Context, *outgoing) error{
		e.bringBack, e.findAgents, e.findSent, e.findKept, e.findPending, e.findAcknowledged, e.findDropped,
	} {
		if err := find(ctx, d); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(d.edits, func(a, b *edit) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.ID, b.ID)) // ids order the messages of a second
	})
	return d, nil
}

// findAgents finds agents that the tip does not know, and the description of the workspace.
func (e *exchange) findAgents(ctx context.Context, d *outgoing) error {
	for _, agent := range d.agents {
		f := d.folders[mailbox.BoxName(agent, mailbox.Inbox)]
		if f.tree == "" && f.modified != 0 && agent != mailbox.Postmaster {
			d.edits = append(d.edits, &edit{
				Change: Change{Direction: Out, Kind: NewAgent, Agent: agent},
				write:  []file{{place{agent, mailbox.Inbox, keepName}.path(), nil}},
			})
		}
	}
	if len(d.edits) == 0 {
		return nil // the description came with the first agents
	}
	described := false
	err := e.list(ctx, false, []string{markerName}, func(string, string, string) { described = true })
	if err != nil || described {
		return err
	}
	data, err := durable.ReadFile(e.r.w.Root(), e.r.w.Dir(), markerName, schema.MaxFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		d.edits = append(d.edits, &edit{Change: Change{Direction: Out, Kind: Described}, write: []file{{markerName, data}}})
	}
	return err
}

// findSent finds messages in outboxes that the tip does not have, with the inboxes that they are in.
func (e *exchange) findSent(ctx context.Context, d *outgoing) error {
	for _, agent := range d.agents {
		f := d.folders[mailbox.BoxName(agent, mailbox.Outbox)]
		for name, here := range f.here {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if f.there[name] || !schema.IsMessageFile(name) {
				continue
			}
			if err := e.addSent(d, place{agent, mailbox.Outbox, name}, here); err != nil {
				return err
			}
		}
	}
	return nil
}

// addSent adds a message of an outbox. Here is its name in the workspace.
func (e *exchange) addSent(d *outgoing, p place, here string) error {
	m, data, err := e.readToSend(p, here)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		d.problem(p, err)
		return nil
	}
	sent := &edit{Change: Change{Direction: Out, Kind: Sent, Agent: p.agent}, write: []file{{p.path(), data}}}
	sent.describe(m)
	for _, to := range m.To {
		inbox := place{to, mailbox.Inbox, p.name}
		queued, err := false, error(nil)
		if d.staged[m.ID] {
			queued, err = e.r.w.IsQueued(m.ID, to)
		}
		if err != nil {
			return err
		}
		// A copy that is no longer staged is in the inbox, or was acknowledged.
		entry, err := e.entry(inbox)
		if err != nil && !queued {
			d.problem(p, err)
			return nil
		}
		if entry != nil || queued {
			sent.write = append(sent.write, file{inbox.path(), data})
		}
	}
	d.sent[p.name] = sent
	d.edits = append(d.edits, sent)
	return nil
}

// readToSend reads a file that is to be in the tree. The message is nil for the reason of a dead
// letter.
func (e *exchange) readToSend(p place, here string) (*schema.Message, []byte, error) {
	if err := p.check(); err != nil {
		return nil, nil, err
	}
	data, err := e.r.w.ReadRaw(mailbox.Entry{Agent: p.agent, Box: p.box, Name: here})
	if err != nil || p.isReason() {
		return nil, data, err
	}
	m, err := validate.Read(data)
	if err == nil && p.box == mailbox.Outbox && m.From != p.agent {
		err = fmt.Errorf("the message is from %s", m.From)
	}
	return m, data, err
}

// findPending finds inbox copies that the tip does not have: restored messages, and those that only an
// inbox has.
func (e *exchange) findPending(ctx context.Context, d *outgoing) error {
	for _, agent := range d.agents {
		f := d.folders[mailbox.BoxName(agent, mailbox.Inbox)]
		for name, here := range f.here {
			p := place{agent, mailbox.Inbox, name}
			if f.there[name] || d.sent[name] != nil || !schema.IsMessageFile(name) || e.o.DryRun && e.touched[p.path()] {
				continue
			}
			m, data, err := e.readToSend(p, here)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				d.problem(p, err)
			default:
				if err := e.addPending(ctx, d, p, m, data); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// addPending adds an inbox copy that the tip does not have.
func (e *exchange) addPending(ctx context.Context, d *outgoing, p place, m *schema.Message, data []byte) error {
	original, _, err := e.original(p.name)
	there, tipErr := e.inTip(ctx, original)
	switch {
	case tipErr != nil:
		return tipErr
	case there && (d.folders[mailbox.BoxName(p.agent, mailbox.Archive)].aside || d.folders[mailbox.BoxName(p.agent, mailbox.DeadLetters)].aside):
		// Restoring removes the copies there.
	case there:
		e.addRestored(d, p, m, data)
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return e.adopt(ctx, d, p, m, data)
	}
	d.folders[p.folder()].unsettled = true // it is being sent
	return nil
}

// inTip reports whether the tip has a file.
func (e *exchange) inTip(ctx context.Context, p place) (bool, error) {
	if e.tip == "" {
		return false, nil
	}
	_, err := e.r.git.Run(ctx, "cat-file", "-e", e.tip+":"+p.path())
	if git.Exit(err) > 0 {
		return false, nil
	}
	return err == nil, err
}

// adopt gives a message that only an inbox has an outbox copy, which says on every machine that the
// message is known.
func (e *exchange) adopt(ctx context.Context, d *outgoing, p place, m *schema.Message, data []byte) error {
	if !m.IsFor(p.agent) {
		d.problem(p, fmt.Errorf("the message is not for %s", p.agent))
		return nil
	}
	if e.o.DryRun {
		sent := &edit{Change: Change{Direction: Out, Kind: Sent, Agent: m.From}}
		sent.describe(m)
		d.edits = append(d.edits, sent)
		return nil
	}
	received := e.r.w.Receive(ctx, []mailbox.Received{{From: m.From, Name: p.name, Data: data}})[0]
	if received.Receipt == nil {
		d.problem(p, received.Err)
		return nil
	}
	return e.addSent(d, place{m.From, mailbox.Outbox, p.name}, p.name)
}
