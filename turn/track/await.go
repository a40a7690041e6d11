package track

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

// A Goal is what Await waits for.
type Goal string

// The goals.
const (
	// GoalNoticed is reached when every recipient has noticed a message, has given it a turn, or has handled it.
	GoalNoticed Goal = "noticed"
	// GoalAcknowledged is reached when every recipient has handled it, and has it no longer in the inbox.
	GoalAcknowledged Goal = "ack"
	// GoalReply is reached when a reply to it is in its sender's inbox, or its sender has handled it.
	GoalReply Goal = "reply"
)

// An Arrival is the message that ended the wait for a reply.
type Arrival struct {
	mailbox.Entry
	// Answers is false for other mail.
	Answers bool
}

// A NothingComesError reports that a wait for a message cannot reach its goal any more.
type NothingComesError struct {
	// Progress is how far the message got with the recipient that ended the wait: its stage is StageDead, StageRecalled,
	// StageAgentRemoved, StageExpired or StageDeclined.
	Progress
	// From is the sender.
	From schema.AgentName
}

func (e *NothingComesError) Error() string {
	switch e.Stage {
	case StageRecalled:
		return fmt.Sprintf("%s took message %s back before %s had noticed it", e.From, e.ID, e.Agent)
	case StageAgentRemoved:
		return fmt.Sprintf("agent %s was removed before it handled message %s", e.Agent, e.ID)
	case StageExpired:
		return fmt.Sprintf("message %s expired before %s had noticed it", e.ID, e.Agent)
	case StageDeclined:
		return fmt.Sprintf("%s declined message %s: %s", e.Agent, e.ID, e.Reason)
	}
	reason := e.Reason
	if reason == "" {
		reason = "no reason is given"
	}
	return fmt.Sprintf("%s could not handle message %s: %s", e.Agent, e.ID, reason)
}

func (e *NothingComesError) Explain() (code, hint string) {
	switch e.Stage {
	case StageAgentRemoved:
		return "agent_removed", "once oacp add-agent has added the agent again, oacp restore " + e.ID.Short() + " returns the message to its inbox"
	case StageExpired:
		return "expired", "send it again with more time, or without --by"
	case StageDeclined:
		return "declined", "oacp read " + e.Answer.Short() + " shows the whole reason, and oacp ack " + e.Answer.Short() + " acknowledges it"
	}
	return "dead_letter", "oacp restore " + e.ID.Short() + " tries it again"
}

// Await waits until a sent message has reached a goal, and returns the reply if that is the goal. Other mail to the sender also
// ends the wait for a reply if it is younger than the message and other returns true for it. Await returns a
// *NothingComesError as soon as the goal cannot be reached any more: for a reply, with all recipients.
func Await(ctx context.Context, w *mailbox.Workspace, m *schema.Message, goal Goal, other func(*schema.Message) bool) (arrived Arrival, err error) {
	a, err := newAwaiting(w, m, goal, other)
	if err != nil {
		return arrived, err
	}
	defer func() { err = errors.Join(err, a.after.Close()) }()
	_ = w.MakeStateFolder(TurnsFolder) // watch.Await looks for a missing folder only every second
	folders := []string{filepath.Join(w.Dir(), schema.AgentsName), filepath.Join(w.Dir(), filepath.FromSlash(TurnsFolder)), w.BoxPath(m.From, mailbox.Inbox)}
	for _, to := range m.To {
		for _, box := range schema.Boxes() {
			folders = append(folders, w.BoxPath(to, box))
		}
	}
	err = watch.Await(ctx, folders, func() (bool, error) { return a.look(ctx) })
	return a.arrived, err
}

// awaiting is a wait.
type awaiting struct {
	w     *mailbox.Workspace
	m     *schema.Message
	goal  Goal
	other func(*schema.Message) bool
	// after watches for what arrives after the message, and arrived is what ended the wait.
	after   *watch.Watcher
	arrived Arrival
	// coming is a reply in the outbox of a recipient that has not been seen in the inbox of the sender, nil if there is none.
	coming *mailbox.Entry
	// bounced has the notices of recipients that gave the message up on another machine.
	bounced map[schema.AgentName]schema.ID
}

func newAwaiting(w *mailbox.Workspace, m *schema.Message, goal Goal, other func(*schema.Message) bool) (a *awaiting, err error) {
	a = &awaiting{w: w, m: m, goal: goal, other: other, bounced: make(map[schema.AgentName]schema.ID)}
	a.after, err = watch.After(w, m)
	return a, err
}

// look reports whether the goal is reached. What arrived counts before what became of the message.
func (a *awaiting) look(ctx context.Context) (reached bool, err error) {
	if reached, err := a.lookForReply(ctx); reached || err != nil {
		return reached, err
	}
	progress, err := Track(ctx, a.w, string(a.m.ID))
	if err != nil {
		return false, err
	}
	var failure error
	left := 0
	for _, p := range progress {
		if notice := a.bounced[p.Agent]; notice != "" && p.Stage.traits().fate == open {
			p.Stage, p.Reason = StageDead, "see its notice "+notice.Short()
		}
		switch fate := p.Stage.traits().fate; {
		case fate == failed, fate == overdue && !p.wasNoticed(), fate == refused && a.goal == GoalReply:
			failure = errors.Join(failure, &NothingComesError{p, a.m.From})
		case a.goal == GoalNoticed && (p.wasNoticed() || fate == handled):
		case a.goal == GoalAcknowledged && (fate == handled || fate == refused) && !p.isInInbox:
		default:
			left++
		}
	}
	switch {
	case failure == nil:
		return left == 0, nil
	case a.goal != GoalReply:
		return false, failure
	case left > 0:
		return false, nil
	}
	reached, err = a.lookForReply(ctx) // it came just before the end
	if !reached && err == nil {
		err = failure
	}
	return reached, err
}

// lookForReply reports whether a reply, or mail that also ends the wait for one, has arrived.
func (a *awaiting) lookForReply(ctx context.Context) (arrived bool, err error) {
	for event, err := range a.after.Scan(ctx) {
		switch {
		case err != nil:
			return false, err
		case event.Kind == watch.EventError && event.Name == "" && !errors.Is(event.Err, fs.ErrNotExist): // else its stage tells
			return false, event.Err
		case event.Kind != watch.EventArrived:
			continue
		}
		m := event.Message
		switch answers := m.ParentID == a.m.ID && m.IsFor(a.m.From); {
		case answers && m.Channel == schema.ChannelBounce:
			if slices.Contains(a.m.To, m.From) {
				a.bounced[m.From] = m.ID
			}
		case a.goal != GoalReply, answers && m.Marks.Declined && m.Answers(a.m): // the stage tells that it is declined
		case answers && event.Box == mailbox.Outbox:
			a.coming = &event.Entry
		case answers, schema.CompareAge(m, a.m) > 0 && !m.ExpiredAt(time.Now()) && a.other(m):
			a.arrived = Arrival{event.Entry, answers}
			return true, nil
		}
	}
	if a.coming == nil {
		return false, nil
	}
	return a.lookForCopy(ctx)
}

// lookForCopy reports whether the reply that is in the outbox of a recipient has reached the sender of the message. The sender
// may have handled it since, with a tool that leaves no copy.
func (a *awaiting) lookForCopy(ctx context.Context) (arrived bool, err error) {
	id := a.coming.Message.ID
	if queued, err := mailbox.IsQueued(a.w, id, a.m.From); queued || err != nil {
		return false, err
	}
	found, err := a.w.Find(ctx, string(id))
	if _, err = mailbox.SplitUnreadable(err); err != nil {
		return false, err
	}
	a.arrived = Arrival{*a.coming, true}
	for _, e := range found {
		if e.Agent == a.m.From && e.Box != mailbox.Outbox && e.Err == nil {
			a.arrived.Entry = e
			break
		}
	}
	return true, nil
}
