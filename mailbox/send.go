package mailbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/staging"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/validate"
)

const (
	// batchFiles bounds the copies in one batch. Their files stay open until they are synced.
	batchFiles = 256
	// syncsAtOnce is how many files are synced in parallel.
	syncsAtOnce = 16
	// deliveryRounds bounds the rounds in a row that deliver no message because of errComposeAgain.
	deliveryRounds = 10
)

// errComposeAgain reports that a message could not be committed because another process took its file
// name or id, or removed its staged copies. The message has no staged copies left.
var errComposeAgain = errors.New("another process used its file name or id, or removed its staged copies")

// Send checks and delivers one message; the package documentation describes how.
//
// Send fills in an empty id, time and priority. A message that has an id is sent once, however
// often Send is called with it. The options may be nil.
//
// If Send returns an error without a receipt, the message was not sent. With a receipt, the error
// is a *QueuedError or a *NotDurableError, and the message was sent.
func (w *Workspace) Send(ctx context.Context, draft schema.Message, options *SendOptions) (*Receipt, error) {
	result := w.SendAll(ctx, []schema.Message{draft}, options)[0]
	return result.Receipt, result.Err
}

// SendAll sends messages in their order and shares the syncs among them. Each message succeeds or
// fails on its own; the results are in the order of the messages.
func (w *Workspace) SendAll(ctx context.Context, drafts []schema.Message, options *SendOptions) []Result {
	messages := make([]*outgoing, len(drafts))
	for i, draft := range drafts {
		messages[i] = &outgoing{draft: draft}
	}
	return deliverAll(ctx, w, messages, options)
}

func deliverAll(ctx context.Context, w *Workspace, messages []*outgoing, options *SendOptions) []Result {
	for rest := messages; len(rest) > 0; {
		n, copies := 0, 0
		for n < len(rest) && (n == 0 || copies+1+len(rest[n].recipients()) <= batchFiles) {
			copies += 1 + len(rest[n].recipients())
			n++
		}
		err := deliver(ctx, w, rest[:n], options)
		for _, o := range rest[:n] {
			if o.receipt == nil && o.err == nil {
				o.err = err
			}
		}
		rest = rest[n:]
	}
	results := make([]Result, len(messages))
	for i, o := range messages {
		results[i] = Result{Receipt: o.receipt, Err: o.err}
	}
	return results
}

// outgoing is a message being sent: a draft, or a received file.
type outgoing struct {
	draft    schema.Message
	received *Received
	message  *schema.Message
	data     []byte
	warnings validate.Diagnostics
	// name is the file name of all copies.
	name string
	// sentAs is the name of the file in the outbox, empty if none is known; see committed.
	sentAs string
	// at is the time of the id. It stays if the message is composed again: messages keep their order.
	at time.Time
	// long asks for a long file name and id, because the short ones were taken.
	long    bool
	outbox  *staging.Copy
	inboxes []*staging.Copy

	// receipt is set once the outbox copy is published.
	receipt *Receipt
	err     error
}

// given reports whether the message came with an id.
func (o *outgoing) given() bool { return o.draft.ID != "" || o.received != nil }

// recipients returns the agents whose inboxes get a copy.
func (o *outgoing) recipients() []schema.AgentName {
	if o.received != nil {
		return o.received.Pending
	}
	return o.draft.To
}

// copies returns the message's copies, that of the outbox first.
func (o *outgoing) copies() []*staging.Copy {
	return append([]*staging.Copy{o.outbox}, o.inboxes...)
}

// staged reports whether the message has been staged and is not sent yet.
func (o *outgoing) staged() bool { return o.err == nil && o.receipt == nil }

func (o *outgoing) newReceipt() *Receipt {
	r := &Receipt{Message: o.message, Outbox: o.outbox.Box.Path(o.name), Warnings: o.warnings}
	for _, c := range o.inboxes {
		r.Inboxes = append(r.Inboxes, c.Box.Path(o.name))
	}
	return r
}

// deliver sends messages and sets the receipt or the error of each. The error that it returns
// concerns all messages that have neither.
func deliver(ctx context.Context, w *Workspace, messages []*outgoing, options *SendOptions) (err error) {
	for round := 0; round < deliveryRounds; round++ {
		before := len(messages)
		messages, err = tryToDeliver(ctx, w, messages, options)
		if len(messages) == 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			break // after fs.ErrNotExist, another round makes the folder that someone removed
		}
		if len(messages) < before {
			round = 0
		}
	}
	return err
}

// tryToDeliver is one round of deliver. It returns the messages to compose again.
func tryToDeliver(ctx context.Context, w *Workspace, messages []*outgoing, options *SendOptions) (again []*outgoing, err error) {
	b, err := openBatch(w, options)
	if err != nil {
		return messages, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if slices.ContainsFunc(messages, (*outgoing).given) {
		// Other processes may be sending the same message. With the lock, copies that are staged
		// under its id belong to a dead process.
		err := b.waitForLock(ctx)
		if err == nil {
			err = b.findLeftovers()
		}
		if err != nil {
			return messages, err
		}
	}
	for _, o := range messages {
		o.outbox, o.inboxes = nil, nil
		o.err = b.stage(o)
	}
	stageErr := b.sync(messages)
	b.commit(ctx, messages, stageErr)
	b.publish(messages)
	for _, o := range messages {
		if o.outbox != nil {
			for _, c := range o.copies() {
				c.Close()
			}
		}
		if errors.Is(o.err, errComposeAgain) {
			o.long = true
			again = append(again, o)
		}
	}
	// This send succeeds even if leftovers of other deliveries cannot be recovered now. They stay
	// staged, and doctor reports them.
	_, err = b.recover()
	for _, o := range messages {
		if o.receipt != nil && o.receipt.AlreadySent {
			o.err = b.queued(o.message.ID, err)
		}
	}
	return again, nil
}

// stage composes a message and writes its copies, that of the outbox first. As long as the outbox
// copy is staged, the message is not sent; removing that copy prevents its delivery.
func (b *batch) stage(o *outgoing) (err error) {
	if o.received != nil {
		err = b.accept(o)
	} else {
		err = b.compose(o)
	}
	if err != nil {
		return err
	}
	if err := b.address(o); err != nil {
		return err
	}
	if o.received != nil {
		// An inbox may have the file already; published again, it could arrive a second time.
		o.inboxes = slices.DeleteFunc(o.inboxes, func(c *staging.Copy) bool { return holds(c.Box, o.name, o.data) })
	}
	if o.given() {
		if sent, err := b.alreadySent(o); sent || err != nil {
			return err
		}
		if left := b.left[o.message.ID]; left != nil {
			delete(b.left, o.message.ID) // a message with the same id may follow
			if err := b.sweep(left, &Recovered{}); err != nil {
				return err
			}
		}
	}
	for i, c := range o.copies() {
		err := c.Create(b.w.files, o.data)
		if err == nil {
			continue
		}
		err = errors.Join(err, b.discard(o.copies()[:i]))
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			// Another message has this id, or the folder was removed.
			err = errors.Join(errComposeAgain, err)
		}
		return err
	}
	return nil
}

// address opens the boxes that get a copy. Most boxes that refuse one do so here, before anything is staged.
func (b *batch) address(o *outgoing) error {
	newCopy := func(agent schema.AgentName, box Box) (*staging.Copy, error) {
		dir, err := b.open(agent, box)
		if err != nil {
			return nil, err
		}
		return staging.New(staging.Name{ID: o.message.ID, Agent: agent, Box: box, Origin: b.origin}, dir, b.outgoing), dir.Writable()
	}
	var err error
	if o.outbox, err = newCopy(o.message.From, Outbox); err != nil {
		return err
	}
	for _, to := range o.recipients() {
		c, err := newCopy(to, Inbox)
		if err != nil {
			return err
		}
		o.inboxes = append(o.inboxes, c)
	}
	return nil
}

// alreadySent reports whether the message has been sent before, under the name that it has now or under that of
// its first delivery.
func (b *batch) alreadySent(o *outgoing) (bool, error) {
	long, err := o.message.LongFileName()
	if err != nil {
		return false, err
	}
	for _, name := range []string{o.name, o.message.FileName(), long} {
		data, err := o.outbox.Box.ReadFile(name, schema.MaxFileSize)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		if o.received != nil && name == o.name && !bytes.Equal(data, o.data) {
			return false, &RefusedError{name, fmt.Errorf("the outbox has another file of this name: %s", o.outbox.Box.Path(name))}
		}
		if signing.SameContent(data, o.data) {
			o.name, o.sentAs = name, name
			if sent, err := b.committed(o); !sent {
				return false, err
			}
			o.receipt = o.newReceipt()
			o.receipt.AlreadySent = true
			return true, nil
		}
		if other, _ := validate.Decode(data); other != nil && other.ID == o.message.ID {
			err := fmt.Errorf("%w: %s is in %s", ErrIDTaken, o.message.ID, o.outbox.Box.Path(name))
			if o.received != nil {
				err = &RefusedError{o.name, err}
			}
			return false, err
		}
	}
	return false, nil
}

// discard removes staged copies of a message that is not sent. The outbox copy, which is the first,
// goes last: without it, Recover would take the others for copies of a sent message.
func (b *batch) discard(copies []*staging.Copy) error {
	var err error
	for _, c := range slices.Backward(copies) {
		_, takeErr := c.Take(b.w.files)
		err = errors.Join(err, takeErr)
	}
	return err
}

// sync makes the staged copies and their names durable, in parallel, so that one commit of the file
// system's journal can cover all. The error that it returns concerns the names.
func (b *batch) sync(messages []*outgoing) error {
	var group errgroup.Group
	group.SetLimit(syncsAtOnce)
	var mutex sync.Mutex // for the errors of the copies
	staged := slices.DeleteFunc(slices.Clone(messages), func(o *outgoing) bool { return !o.staged() })
	if len(staged) > 0 {
		group.Go(func() error { return b.w.files.SyncDir(b.outgoing) })
	}
	for _, o := range staged {
		for _, c := range o.copies() {
			group.Go(func() error {
				if err := c.Sync(b.w.files); err != nil {
					mutex.Lock()
					defer mutex.Unlock()
					o.err = errors.Join(o.err, err)
				}
				return nil
			})
		}
	}
	err := group.Wait()
	for _, o := range staged {
		if o.err != nil {
			o.err = errors.Join(o.err, b.discard(o.copies()))
		}
	}
	return err
}

// commit publishes the outbox copies. A canceled context stops a message here at the latest.
func (b *batch) commit(ctx context.Context, messages []*outgoing, stageErr error) {
	for _, o := range messages {
		if !o.staged() {
			continue
		}
		if err := errors.Join(stageErr, context.Cause(ctx)); err != nil {
			o.err = errors.Join(err, b.discard(o.copies()))
			continue
		}
		err := b.publishSent(o)
		if err == nil {
			o.receipt, o.sentAs = o.newReceipt(), o.name
			continue
		}
		o.err = errors.Join(err, b.discard(o.copies()))
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrNotExclusive) {
			// The name was taken, the copy was removed, or the file system needs a long name.
			o.err = errors.Join(errComposeAgain, o.err)
		}
	}
	clear(b.synced)
}

// committed reports whether a message is sent: the outbox of its sender has its bytes, under a name that survives a
// crash of the machine. No copy gets into another box before that. If the name is not known, committed looks for it.
func (b *batch) committed(o *outgoing) (bool, error) {
	if o.message == nil || o.sentAs == "" && !b.w.Knows(o.message.From) { // a crash leaves incomplete files
		return false, nil
	}
	outbox, err := b.open(o.message.From, Outbox)
	if err == nil && o.sentAs == "" {
		o.sentAs, err = findSent(outbox, o)
		delete(b.synced, outbox) // the file may be younger than the last sync
	}
	if err != nil || o.sentAs == "" {
		return false, err
	}
	err, isKnown := b.synced[outbox]
	if !isKnown {
		err = b.w.files.SyncDir(outbox)
		b.synced[outbox] = err
	}
	return err == nil, err
}
