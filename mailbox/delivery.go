package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

const (
	// batchFiles bounds the copies that one batch writes: all of their files
	// are open until they are synced together.
	batchFiles = 256
	// syncsAtOnce is how many files are synced side by side: the journal of
	// a file system commits them together.
	syncsAtOnce = 16
	// deliveryRounds bounds how often a message whose name or id was taken
	// meanwhile is composed anew.
	deliveryRounds = 4
)

// errComposeAgain marks a parcel that found its name or id taken before it was
// committed. Nothing of it is left.
var errComposeAgain = errors.New("the file name or id was taken meanwhile")

// SendAll is Send for any number of messages, in their order and with the
// syncs shared among them. Each message succeeds or fails for itself; the
// results are in the order of the messages.
func (w *Workspace) SendAll(ctx context.Context, drafts []schema.Message, options *SendOptions) []Result {
	results := make([]Result, len(drafts))
	for start := 0; start < len(drafts); {
		end, copies := start, 0
		for end < len(drafts) && (end == start || copies+1+len(drafts[end].To) <= batchFiles) {
			copies += 1 + len(drafts[end].To)
			end++
		}
		w.sendBatch(ctx, drafts[start:end], options, results[start:end])
		start = end
	}
	return results
}

func (w *Workspace) sendBatch(ctx context.Context, drafts []schema.Message, options *SendOptions, results []Result) {
	parcels := make([]*parcel, len(drafts))
	for i, draft := range drafts {
		parcels[i] = &parcel{draft: draft}
	}
	err := w.deliver(ctx, parcels, options)
	for i, p := range parcels {
		results[i] = Result{Receipt: p.receipt, Err: p.err}
		if p.receipt == nil && p.err == nil {
			results[i].Err = err
		}
	}
}

// deliver brings parcels to their destinations. What concerns one parcel
// stands in its err; the error returned concerns all that have neither a
// receipt nor an error.
func (w *Workspace) deliver(ctx context.Context, parcels []*parcel, options *SendOptions) (err error) {
	b, err := w.openBatch(options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.lockIfGiven(ctx, parcels); err != nil {
		return err
	}
	pending := parcels
	for range deliveryRounds {
		b.claimed = make(map[string]bool)
		b.started = make(map[schema.ID]bool)
		for _, p := range pending {
			p.err = b.stage(p)
		}
		b.finish(pending)
		b.commit(ctx, pending)
		b.publish(pending)
		pending = again(pending)
		if len(pending) == 0 {
			break
		}
	}
	// What others left behind is not this message's trouble: if it cannot be
	// delivered now either, it stays where it is, and doctor reports it.
	_, _ = w.recover(b)
	return nil
}

// again returns the parcels to be composed anew.
func again(parcels []*parcel) []*parcel {
	var pending []*parcel
	for _, p := range parcels {
		if errors.Is(p.err, errComposeAgain) {
			p.long = true
			p.outbox, p.inboxes = nil, nil
			pending = append(pending, p)
		}
	}
	return pending
}

// A destination is one copy of a message on its way.
type destination struct {
	agent schema.AgentName
	box   Box
	dir   *durable.Dir
	place staged
	// file is open from create to finish, and created stays true after it.
	file    *os.File
	created bool
	path    string
}

func (p *parcel) destinations() []*destination {
	return append([]*destination{p.outbox}, p.inboxes...)
}

// stage composes a parcel and writes its copies. The outbox copy comes first:
// while it is staged, the message is not sent, and who takes it away (see
// Recover) prevents the message from being sent.
func (b *batch) stage(p *parcel) error {
	if err := b.w.compose(p, b.options, b.claimed); err != nil {
		return err
	}
	if b.started[p.message.ID] {
		return errComposeAgain
	}
	b.started[p.message.ID] = true
	if err := b.address(p); err != nil {
		return err
	}
	if p.given() {
		if sent, err := b.alreadySent(p); sent || err != nil {
			return err
		}
		if err := b.discard(p, leftByOthers); err != nil {
			return err
		}
	}
	for _, d := range p.destinations() {
		var err error
		d.file, err = d.place.create(b.w.files, p.data)
		d.created = err == nil
		if err != nil {
			err = errors.Join(err, b.closeFiles(p), b.discard(p, createdHere))
			if errors.Is(err, fs.ErrExist) && !p.given() {
				// What is staged belongs to another message of this id.
				err = errors.Join(errComposeAgain, err)
			}
			return err
		}
	}
	// Without the mark, who carries messages on waits until the file has been left alone; nothing else depends on it.
	_ = p.outbox.place.markMoved(p.outbox.file)
	return nil
}

func (b *batch) closeFiles(p *parcel) error {
	var err error
	for _, d := range p.destinations() {
		if d.file != nil {
			err = errors.Join(err, d.file.Close())
			d.file = nil
		}
	}
	return err
}

// address opens the parcel's destinations.
func (b *batch) address(p *parcel) error {
	open := func(agent schema.AgentName, box Box) (*destination, error) {
		dir, err := b.box(agent, box)
		if err != nil {
			return nil, err
		}
		place := newStaged(b.outgoing, dir, stagedName{id: p.message.ID, agent: agent, box: box})
		return &destination{agent: agent, box: box, dir: dir, place: place, path: dir.Path(p.name)}, nil
	}
	var err error
	if p.outbox, err = open(p.message.From, Outbox); err != nil {
		return err
	}
	for _, to := range p.message.To {
		d, err := open(to, Inbox)
		if err != nil {
			return err
		}
		p.inboxes = append(p.inboxes, d)
	}
	return nil
}

// alreadySent looks whether a message that came with its id is in the outbox,
// under the name it would get now or under the short one that it got when it
// was first sent.
func (b *batch) alreadySent(p *parcel) (bool, error) {
	for _, name := range []string{p.name, p.message.FileName()} {
		data, err := p.outbox.dir.ReadFile(name, schema.MaxFileSize)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		if string(data) == string(p.data) {
			p.name, p.outbox.path = name, p.outbox.dir.Path(name)
			for _, d := range p.inboxes {
				d.path = d.dir.Path(name)
			}
			p.receipt = p.newReceipt()
			p.receipt.AlreadySent = true
			return true, nil
		}
		if there, _ := validate.Decode(data); there != nil && there.ID == p.message.ID {
			return false, fmt.Errorf("%w: %s is in %s", ErrIDTaken, p.message.ID, p.outbox.dir.Path(name))
		}
	}
	return false, nil
}

func (p *parcel) newReceipt() *Receipt {
	r := &Receipt{Message: p.message, Outbox: p.outbox.path, Warnings: p.warnings}
	for _, d := range p.inboxes {
		r.Inboxes = append(r.Inboxes, d.path)
	}
	return r
}

// finish makes the staged copies durable, and their names, all side by side:
// a file system commits together what is asked of it at the same time.
func (b *batch) finish(parcels []*parcel) {
	var group errgroup.Group
	group.SetLimit(syncsAtOnce)
	failures := make(map[*destination]*error)
	folders := make(map[*durable.Dir]bool)
	for _, p := range parcels {
		if !p.staged() {
			continue
		}
		for _, d := range p.destinations() {
			failure := new(error)
			failures[d] = failure
			folders[d.place.dir] = true
			group.Go(func() error {
				*failure = b.w.files.finish(d.file)
				return nil
			})
		}
	}
	for folder := range folders {
		group.Go(func() error { return b.w.files.syncDir(folder) })
	}
	b.unready = group.Wait() // the failure of a file is kept with its destination
	for _, p := range parcels {
		if !p.staged() {
			continue
		}
		for _, d := range p.destinations() {
			d.file = nil
			p.err = errors.Join(p.err, *failures[d])
		}
		if p.err != nil {
			p.err = errors.Join(p.err, b.discard(p, createdHere))
		}
	}
}

// staged reports whether the parcel stands ready in state/outgoing.
func (p *parcel) staged() bool { return p.err == nil && p.receipt == nil }

// Which staged copies discard removes.
const (
	createdHere = iota
	leftByOthers
)

// discard removes what is staged of a message that is not sent. The outbox
// copy goes last: as long as it is there, nobody takes the others for copies
// of a sent message.
func (b *batch) discard(p *parcel, which int) error {
	var err error
	for _, d := range append(append([]*destination(nil), p.inboxes...), p.outbox) {
		if d.created || which == leftByOthers {
			_, takeErr := d.place.take(b.w.files)
			err = errors.Join(err, takeErr)
		}
	}
	return err
}

// commit publishes the outbox copies: each message whose copy it publishes is
// sent. It is the last place where a cancelled context stops anything. The
// copies are durable before any inbox copy is seen.
func (b *batch) commit(ctx context.Context, parcels []*parcel) {
	outboxes := make(map[*durable.Dir]bool)
	for _, p := range parcels {
		if !p.staged() {
			continue
		}
		if err := errors.Join(b.unready, context.Cause(ctx)); err != nil {
			p.err = errors.Join(err, b.discard(p, createdHere))
			continue
		}
		switch err := p.outbox.place.publish(b.w.files, p.outbox.dir, p.name); {
		case err == nil:
			p.receipt = p.newReceipt()
			outboxes[p.outbox.dir] = true
		case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
			// The name was taken, or the copy was swept as too old.
			p.err = errors.Join(errComposeAgain, err, b.discard(p, createdHere))
		default:
			p.err = errors.Join(err, b.discard(p, createdHere))
		}
	}
	b.unsynced = b.syncAll(outboxes)
}

func (b *batch) syncAll(dirs map[*durable.Dir]bool) error {
	var err error
	for dir := range dirs {
		err = errors.Join(err, b.w.files.syncDir(dir))
	}
	return err
}

// publish puts the inbox copies of sent messages in place.
func (b *batch) publish(parcels []*parcel) {
	inboxes := make(map[*durable.Dir]bool)
	for _, p := range parcels {
		if p.receipt == nil || p.receipt.AlreadySent {
			continue
		}
		queued := &QueuedError{ID: p.message.ID}
		for i, d := range p.inboxes {
			name, err := publishCopy(b.w.files, d, p.message, p.name, p.data)
			if err != nil {
				queued.Agents = append(queued.Agents, d.agent)
				queued.Err = errors.Join(queued.Err, err)
				continue
			}
			p.receipt.Inboxes[i] = d.dir.Path(name)
			inboxes[d.dir] = true
		}
		if queued.Err != nil {
			p.err = queued
		}
	}
	if err := errors.Join(b.unsynced, b.syncAll(inboxes)); err != nil {
		for _, p := range parcels {
			if p.receipt != nil && p.err == nil {
				p.err = &NotDurableError{ID: p.message.ID, Err: err}
			}
		}
	}
}

// publishCopy publishes an inbox copy under the name its outbox copy has, or
// under the long name if a foreign file has that one. A staged copy that has
// gone was published by somebody else.
func publishCopy(files fileSystem, d *destination, m *schema.Message, name string, data []byte) (string, error) {
	err := d.place.publish(files, d.dir, name)
	if errors.Is(err, fs.ErrExist) {
		if there, readErr := d.dir.ReadFile(name, schema.MaxFileSize); readErr == nil && string(there) == string(data) {
			// A copy of a file system that lost the removal in a crash.
			_, err := d.place.take(files)
			return name, err
		}
		if name, err = m.LongFileName(); err == nil {
			err = d.place.publish(files, d.dir, name)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		// What is still staged has not gone: its inbox has.
		if waits, lookErr := d.place.dir.Exists(d.place.name); !waits {
			return name, lookErr
		}
	}
	return name, err
}
