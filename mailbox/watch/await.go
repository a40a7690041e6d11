package watch

import (
	"cmp"
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

// Error names the agent and the reason.
func (e *DeadLetterError) Error() string {
	return fmt.Sprintf("%s could not handle message %s: %s", e.Agent, e.Reason.ID, e.Reason.Reason)
}

// AwaitAcknowledged waits until every recipient has moved a sent message out of its inbox, or enough, unless it is nil,
// is true for the recipient. It calls enough again whenever something changes in one of the folders. It returns a
// *DeadLetterError if the message became a dead letter.
func AwaitAcknowledged(ctx context.Context, w *mailbox.Workspace, r *mailbox.Receipt, enough func(schema.AgentName) (bool, error), folders ...string) error {
	for _, to := range r.Message.To {
		folders = append(folders, w.BoxPath(to, mailbox.Inbox), w.BoxPath(to, mailbox.DeadLetters))
	}
	return Await(ctx, folders, func() (bool, error) {
		done := true
		for i, path := range r.Inboxes {
			to := r.Message.To[i]
			_, err := os.Lstat(path)
			is := errors.Is(err, fs.ErrNotExist)
			switch {
			case is:
				err = deadLetter(w, r.Message.ID, to, filepath.Base(path))
			case err == nil && enough != nil:
				is, err = enough(to)
			}
			if err != nil {
				return false, err
			}
			done = done && is
		}
		return done, nil
	})
}

// deadLetter returns a *DeadLetterError if a file in the dead letters of an agent is the message.
func deadLetter(w *mailbox.Workspace, id schema.ID, agent schema.AgentName, name string) error {
	reason, err := w.Reason(mailbox.Entry{Agent: agent, Box: mailbox.DeadLetters, Name: name})
	if errors.Is(err, fs.ErrNotExist) || err == nil && reason.ID != id {
		return nil
	}
	if err != nil {
		return err
	}
	return &DeadLetterError{Agent: agent, Reason: reason}
}

// An Arrival is the message that ended the wait for an answer.
type Arrival struct {
	mailbox.Entry
	// Answers tells an answer from other mail.
	Answers bool
}

// AwaitReply waits until a message that answers the sent one is in its sender's inbox or in the
// outbox of a recipient, where it stays if the sender's runner handles it first. Other mail to the
// sender ends the wait, too, if it is younger than the sent message and other is true for it. AwaitReply
// returns a *DeadLetterError if the message became a dead letter, or if a notice says so.
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
			reason := mailbox.DeadLetterReason{ID: r.Message.ID, Reason: "no reason is given"}
			return Arrival{}, cmp.Or(deadLetter(w, r.Message.ID, event.Agent, event.Name), error(&DeadLetterError{Agent: event.Agent, Reason: reason}))
		case event.Box == mailbox.DeadLetters:
		case answers && event.Message.Channel == schema.ChannelBounce: // the letter is on another machine
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
	if openErr == nil { // otherwise the ticker has to do
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
