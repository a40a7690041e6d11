package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sync/errgroup"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/validate"
)

const (
	// batchFiles bounds the copies in one batch. Their files stay open until they are synced.
	batchFiles = 256
	// syncsAtOnce is how many files are synced in parallel.
	syncsAtOnce = 16
	// deliveryRounds bounds how often a message is composed again because its name or id was taken.
	deliveryRounds = 4
)

// errComposeAgain says that another process took a message's file name or id before the commit. The
// message has no staged copies left.
var errComposeAgain = errors.New("the file name or id was taken meanwhile")

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
	for rest := messages; len(rest) > 0; {
		n, copies := 0, 0
		for n < len(rest) && (n == 0 || copies+1+len(rest[n].draft.To) <= batchFiles) {
			copies += 1 + len(rest[n].draft.To)
			n++
		}
		err := w.deliver(ctx, rest[:n], options)
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

// outgoing is a message being sent.
type outgoing struct {
	draft    schema.Message
	message  *schema.Message
	data     []byte
	warnings validate.Diagnostics
	// name is the file name of all copies.
	name string
	// at is the time of the id. It stays the same if the message is composed again, so that messages
	// keep their order.
	at time.Time
	// long asks for a long file name and id, because the short ones were taken.
	long    bool
	outbox  *stagedCopy
	inboxes []*stagedCopy

	// receipt is set once the message is sent.
	receipt *Receipt
	err     error
}

// given reports whether the message came with an id.
func (o *outgoing) given() bool { return o.draft.ID != "" }

// copies returns the message's copies, that of the outbox first.
func (o *outgoing) copies() []*stagedCopy {
	return append([]*stagedCopy{o.outbox}, o.inboxes...)
}

// staged reports whether the message has been staged and is not sent yet.
func (o *outgoing) staged() bool { return o.err == nil && o.receipt == nil }

func (o *outgoing) newReceipt() *Receipt {
	r := &Receipt{Message: o.message, Outbox: o.outbox.box.Path(o.name), Warnings: o.warnings}
	for _, c := range o.inboxes {
		r.Inboxes = append(r.Inboxes, c.box.Path(o.name))
	}
	return r
}

// deliver sends messages and sets the receipt or the error of each. The error that it returns
// concerns all messages that have neither.
func (w *Workspace) deliver(ctx context.Context, messages []*outgoing, options *SendOptions) (err error) {
	b, err := w.openBatch(options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if slices.ContainsFunc(messages, (*outgoing).given) {
		// Other processes may be sending the same message. With the lock, copies that are staged
		// under its id belong to a dead process.
		wait := func(lock *flock.Flock) (bool, error) { return lock.TryLockContext(ctx, lockRetry) }
		if _, err := b.takeLock(wait); err != nil {
			return err
		}
	}
	pending := messages
	for range deliveryRounds {
		b.claimed, b.started = make(map[string]bool), make(map[schema.ID]bool)
		for _, o := range pending {
			o.err = b.stage(o)
		}
		stageErr := b.sync(pending)
		syncErr := b.commit(ctx, pending, stageErr)
		b.publish(pending, syncErr)
		var again []*outgoing
		for _, o := range pending {
			if errors.Is(o.err, errComposeAgain) {
				o.long, o.outbox, o.inboxes = true, nil, nil
				again = append(again, o)
			}
		}
		if pending = again; len(pending) == 0 {
			break
		}
	}
	// This send succeeds even if leftovers of other deliveries cannot be recovered now. They stay
	// staged, and doctor reports them.
	_, _ = w.recover(b)
	return nil
}

// stage composes a message and writes its copies, that of the outbox first. As long as the outbox
// copy is staged, the message is not sent; removing that copy prevents its delivery.
func (b *batch) stage(o *outgoing) error {
	if err := b.w.compose(o, b.options, b.claimed); err != nil {
		return err
	}
	if b.started[o.message.ID] {
		return errComposeAgain
	}
	b.started[o.message.ID] = true
	if err := b.address(o); err != nil {
		return err
	}
	if o.given() {
		if sent, err := b.alreadySent(o); sent || err != nil {
			return err
		}
		if err := b.discard(o.copies()); err != nil {
			return err
		}
	}
	for i, c := range o.copies() {
		err := c.create(b.w.files, o.data)
		if err == nil {
			continue
		}
		err = errors.Join(err, b.discard(o.copies()[:i]))
		if errors.Is(err, fs.ErrExist) && !o.given() {
			// Another message has this id.
			err = errors.Join(errComposeAgain, err)
		}
		return err
	}
	return nil
}

// address opens the boxes that get a copy.
func (b *batch) address(o *outgoing) (err error) {
	if o.outbox, err = b.newCopy(stagedName{o.message.ID, o.message.From, Outbox}); err != nil {
		return err
	}
	for _, to := range o.message.To {
		c, err := b.newCopy(stagedName{o.message.ID, to, Inbox})
		if err != nil {
			return err
		}
		o.inboxes = append(o.inboxes, c)
	}
	return nil
}

// alreadySent reports whether the outbox holds the message already, under the name that it has now
// or under the short one of its first delivery.
func (b *batch) alreadySent(o *outgoing) (bool, error) {
	for _, name := range []string{o.name, o.message.FileName()} {
		data, err := o.outbox.box.ReadFile(name, schema.MaxFileSize)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		if signing.SameContent(data, o.data) {
			o.name = name
			o.receipt = o.newReceipt()
			o.receipt.AlreadySent = true
			return true, nil
		}
		if other, _ := validate.Decode(data); other != nil && other.ID == o.message.ID {
			return false, fmt.Errorf("%w: %s is in %s", ErrIDTaken, o.message.ID, o.outbox.box.Path(name))
		}
	}
	return false, nil
}

// discard removes staged copies of a message that is not sent. The outbox copy, which is the first,
// goes last: without it, Recover would take the others for copies of a sent message.
func (b *batch) discard(copies []*stagedCopy) error {
	var err error
	for _, c := range slices.Backward(copies) {
		if c.file != nil {
			err = errors.Join(err, c.file.Close())
			c.file = nil
		}
		_, takeErr := c.take(b.w.files)
		err = errors.Join(err, takeErr)
	}
	return err
}

// sync makes the staged copies durable, and then their names. The error that it returns concerns
// the names.
func (b *batch) sync(messages []*outgoing) error {
	var group errgroup.Group
	group.SetLimit(syncsAtOnce)
	folders := make(map[*durable.Dir]bool)
	for _, o := range messages {
		if !o.staged() {
			continue
		}
		for _, c := range o.copies() {
			folders[c.dir] = true
			group.Go(func() error {
				c.err = b.w.files.finish(c.file)
				return nil
			})
		}
	}
	_ = group.Wait() // each copy keeps its own error
	for _, o := range messages {
		if !o.staged() {
			continue
		}
		for _, c := range o.copies() {
			c.file = nil
			o.err = errors.Join(o.err, c.err)
		}
		if o.err != nil {
			o.err = errors.Join(o.err, b.discard(o.copies()))
		}
	}
	return b.syncAll(folders)
}

func (b *batch) syncAll(dirs map[*durable.Dir]bool) error {
	var err error
	for dir := range dirs {
		err = errors.Join(err, b.w.files.syncDir(dir))
	}
	return err
}

// commit publishes the outbox copies: a message is sent once its outbox copy is published. A
// canceled context stops a message here at the latest. The error that commit returns is that of
// syncing the outboxes.
func (b *batch) commit(ctx context.Context, messages []*outgoing, stageErr error) error {
	outboxes := make(map[*durable.Dir]bool)
	for _, o := range messages {
		if !o.staged() {
			continue
		}
		if err := errors.Join(stageErr, context.Cause(ctx)); err != nil {
			o.err = errors.Join(err, b.discard(o.copies()))
			continue
		}
		err := o.outbox.publish(b.w.files, o.name)
		if err == nil {
			o.receipt = o.newReceipt()
			outboxes[o.outbox.box] = true
			continue
		}
		o.err = errors.Join(err, b.discard(o.copies()))
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			// The name was taken, or Recover removed the copy because it was too old.
			o.err = errors.Join(errComposeAgain, o.err)
		}
	}
	return b.syncAll(outboxes)
}

// publish publishes the inbox copies of sent messages.
func (b *batch) publish(messages []*outgoing, syncErr error) {
	inboxes := make(map[*durable.Dir]bool)
	for _, o := range messages {
		if o.receipt == nil || o.receipt.AlreadySent {
			continue
		}
		queued := &QueuedError{ID: o.message.ID}
		for i, c := range o.inboxes {
			name, err := b.publishInbox(c, o.message, o.name, o.data)
			if err != nil {
				queued.Agents = append(queued.Agents, c.name.agent)
				queued.Err = errors.Join(queued.Err, err)
				continue
			}
			o.receipt.Inboxes[i] = c.box.Path(name)
			inboxes[c.box] = true
		}
		if queued.Err != nil {
			o.err = queued
		}
	}
	if err := errors.Join(syncErr, b.syncAll(inboxes)); err != nil {
		for _, o := range messages {
			if o.receipt != nil && o.err == nil {
				o.err = &NotDurableError{ID: o.message.ID, Err: err}
			}
		}
	}
}

// publishInbox publishes an inbox copy under the name of its outbox copy, or under the long name if
// another file has that one, and returns the name.
func (b *batch) publishInbox(c *stagedCopy, m *schema.Message, name string, data []byte) (string, error) {
	err := c.publish(b.w.files, name)
	if errors.Is(err, fs.ErrExist) {
		if other, readErr := c.box.ReadFile(name, schema.MaxFileSize); readErr == nil && string(other) == string(data) {
			// The copy is published; a crash undid the removal of the staged name.
			_, err := c.take(b.w.files)
			return name, err
		}
		if name, err = m.LongFileName(); err == nil {
			err = c.publish(b.w.files, name)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		// Either another process published the copy, or the inbox is missing and the copy is still
		// staged.
		if staged, lookErr := c.dir.Exists(c.entry); !staged {
			return name, lookErr
		}
	}
	return name, err
}
