package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// DeadLetterError reports that the awaited message became a dead letter.
type DeadLetterError struct {
	Agent  schema.AgentName
	Reason mailbox.DeadLetterReason
}

func (e *DeadLetterError) Error() string {
	if e.Reason.RecalledBy != "" {
		return fmt.Sprintf("%s took message %s back before %s had noticed it", e.Reason.RecalledBy, e.Reason.ID, e.Agent)
	}
	return fmt.Sprintf("%s could not handle message %s: %s", e.Agent, e.Reason.ID, e.Reason.Reason)
}

func (e *DeadLetterError) Explain() (code, hint string) { return "dead_letter", "" }

// AwaitAcknowledged waits until every recipient has moved a sent message to its archive. It returns a
// *DeadLetterError if the message became a dead letter, and another error if a recipient is gone. A file that is
// nowhere says nothing where machines share the workspace, or if its box is away.
func AwaitAcknowledged(ctx context.Context, w *mailbox.Workspace, r *mailbox.Receipt) error {
	var folders []string
	for _, to := range r.Message.To {
		folders = append(folders, w.BoxPath(to, mailbox.Inbox), w.BoxPath(to, mailbox.DeadLetters), w.BoxPath(to, mailbox.Archive))
	}
	return Await(ctx, folders, func() (bool, error) {
		done := true
		for i, path := range r.Inboxes {
			to := r.Message.To[i]
			_, err := os.Lstat(path)
			isGone := errors.Is(err, fs.ErrNotExist)
			if isGone {
				err = deadLetter(ctx, w, r.Message.ID, to, filepath.Base(path))
			}
			if err == nil && isGone && !w.Knows(to) {
				err = fmt.Errorf("agent %s was removed before it handled the message", to)
			}
			var archived []mailbox.Entry
			if err == nil && isGone {
				archived, err = mailbox.Copies(ctx, w, r.Message.ID, to, mailbox.Archive)
			}
			if err != nil {
				return false, err
			}
			done = done && (len(archived) > 0 || isGone && mailbox.Deleting(w, to))
		}
		return done, nil
	})
}

// deadLetter returns a *DeadLetterError if the message is among the dead letters of the agent, under whatever name. A file
// that is not readable is the message if it has the name, and a reason with the id.
func deadLetter(ctx context.Context, w *mailbox.Workspace, id schema.ID, agent schema.AgentName, name string) error {
	dead, err := mailbox.Copies(ctx, w, id, agent, mailbox.DeadLetters)
	if err != nil {
		return err
	}
	for _, e := range append(dead, mailbox.Entry{Agent: agent, Name: name}) {
		reason, err := w.Reason(e)
		switch {
		case err == nil && reason.ID == id:
			return &DeadLetterError{Agent: agent, Reason: reason}
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	if len(dead) > 0 {
		return &DeadLetterError{Agent: agent, Reason: mailbox.DeadLetterReason{ID: id, Reason: "no reason is given"}}
	}
	return nil
}

// An Arrival is the message that ended the wait for an answer.
type Arrival struct {
	mailbox.Entry
	// Answers is false for other mail.
	Answers bool
}

// AwaitReply waits until a reply to the sent message is in its sender's inbox or in the outbox of a
// recipient, where it stays if the sender's runner handles it first. Other mail to the sender also ends
// the wait if it is younger than the sent message and other returns true for it. AwaitReply returns a
// *DeadLetterError if the message became a dead letter, or if a notice says so.
func AwaitReply(ctx context.Context, w *mailbox.Workspace, r *mailbox.Receipt, other func(*schema.Message) bool) (arrived Arrival, err error) {
	var targets []Target
	for _, to := range r.Message.To {
		targets = append(targets, Target{w, to, mailbox.DeadLetters})
	}
	targets = append(targets, Target{w, r.Message.From, mailbox.Inbox})
	for _, to := range r.Message.To {
		targets = append(targets, Target{w, to, mailbox.Outbox})
	}
	watcher, err := New(targets, nil)
	if err != nil {
		return Arrival{}, err
	}
	defer func() { err = errors.Join(err, watcher.Close()) }()
	since := r.Message.CreatedAt.Time().Truncate(time.Minute)
	for _, b := range watcher.boxes {
		b.recovers = false
		b.skip = func(name string) bool {
			parsed, err := schema.ParseFileName(name)
			return b.name != mailbox.Inbox && err == nil && parsed.At.Before(since)
		}
	}
	for event, err := range watcher.Events(ctx) {
		switch {
		case err != nil:
			return Arrival{}, err
		case event.Kind == EventError && event.Name == "":
			return Arrival{}, event.Err
		case event.Kind != EventArrived:
			continue
		}
		switch answers := event.Message.ParentID == r.Message.ID && event.Message.IsFor(r.Message.From); {
		case event.Box == mailbox.DeadLetters && event.Message.ID == r.Message.ID:
			if err := deadLetter(ctx, w, r.Message.ID, event.Agent, event.Name); err != nil {
				return Arrival{}, err
			}
		case event.Box == mailbox.DeadLetters:
		case answers && event.Message.Channel == schema.ChannelBounce: // the dead letter is on another machine
			notice := mailbox.DeadLetterReason{ID: r.Message.ID, Reason: "see its notice " + event.Message.ID.Short()}
			return Arrival{}, &DeadLetterError{Agent: event.Message.From, Reason: notice}
		case answers, event.Box == mailbox.Inbox && schema.CompareAge(event.Message, r.Message) > 0 && !event.Message.ExpiredAt(time.Now()) && other(event.Message):
			return Arrival{event.Entry, answers}, nil
		}
	}
	return Arrival{}, context.Cause(ctx)
}

// Await calls check at once, when something changes in the folders, and every second, because
// network file systems send no notifications. It ends when check is done or fails, or with the
// context.
func Await(ctx context.Context, folders []string, check func() (bool, error)) (err error) {
	notifier, openErr := openNotifier()
	if openErr == nil { // otherwise the ticker suffices
		defer func() { err = errors.Join(err, notifier.close()) }()
		for _, folder := range folders {
			_ = notifier.add(folder)
		}
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if done, err := check(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-notifier.events:
			for len(notifier.events) > 0 {
				<-notifier.events
			}
		case <-notifier.errors: // the next look finds what an overflow hid
		case <-ticker.C:
		}
	}
}

// ErrTimeout reports that a wait timed out.
var ErrTimeout = fmt.Errorf("timed out waiting for a message: %w", context.DeadlineExceeded)

// PendingOptions says what AwaitPending waits for. The zero value waits for any message, without a
// limit, and returns all.
type PendingOptions struct {
	// Match selects messages. Nil selects all.
	Match func(*schema.Message) bool
	// Timeout ends the wait with ErrTimeout, but not the first look at what is already pending. 0 means
	// no limit.
	Timeout time.Duration
	// Most is how many messages are returned at most. 0 means all.
	Most int
	// Problem is called once for each file that is not a valid message and each folder that cannot be
	// read. Nil ignores them.
	Problem func(mailbox.Entry)
	// Idle is called once if nothing is pending, before the wait. Nil does nothing.
	Idle func()
}

// AwaitPending waits until a message is pending in an inbox, and returns what is pending in
// processing order, at least one message. A message is pending if its file is complete and valid,
// and it has not expired. AwaitPending acknowledges nothing. It fails if an inbox cannot be read at first.
func AwaitPending(ctx context.Context, targets []Target, options PendingOptions) (found []mailbox.Entry, err error) {
	watcher, err := New(targets, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, watcher.Close()) }()
	waiting := ctx
	if options.Timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, options.Timeout, ErrTimeout)
		defer cancel()
	}
	for first := true; ; first = false {
		for event, err := range watcher.Scan(ctx) {
			if err != nil {
				return nil, err
			}
			if options.wants(event) {
				found = append(found, event.Entry)
			}
		}
		if err := watcher.Unread(); err != nil && first {
			return nil, err
		}
		if len(found) > 0 {
			found = mailbox.InOrder(found)
			if options.Most > 0 {
				found = found[:min(options.Most, len(found))]
			}
			return found, nil
		}
		if first && options.Idle != nil {
			options.Idle()
		}
		if err := watcher.awaitArrival(waiting, options); err != nil {
			return nil, err
		}
	}
}

// wants reports whether the event is the arrival of a selected message.
func (o PendingOptions) wants(e Event) bool {
	switch {
	case e.Kind == EventError && o.Problem != nil:
		o.Problem(e.Entry)
		return false
	case e.Kind != EventArrived:
		return false
	}
	return !e.Message.ExpiredAt(time.Now()) && (o.Match == nil || o.Match(e.Message))
}

// awaitArrival waits until a wanted message arrives. The next Scan also has it.
func (w *Watcher) awaitArrival(ctx context.Context, options PendingOptions) error {
	for event, err := range w.Events(ctx) {
		if err != nil {
			return err
		}
		if options.wants(event) {
			return nil // the event does not count as delivered
		}
	}
	return context.Cause(ctx)
}
