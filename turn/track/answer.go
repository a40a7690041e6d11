package track

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// AnsweredError reports that an agent has answered a request before.
type AnsweredError struct {
	Request, Answer *schema.Message
	// Pending reports whether the request is still in the inbox of the agent.
	Pending bool
}

// Error names the agent, the request and the answer.
func (e *AnsweredError) Error() string {
	return fmt.Sprintf("%s answered message %s at %s with %s", e.Answer.From, e.Request.ID, e.Answer.CreatedAt, e.Answer.ID)
}

// SendOnce calls send, which sends a reply to the request, if there is one. If the reply answers the request, and its
// sender has answered it before, SendOnce returns an *AnsweredError instead, unless again is true. Of
// several processes that answer a request at the same time, one succeeds. A restored request is asked
// anew: an answer from before a restore does not count.
func SendOnce(ctx context.Context, w *mailbox.Workspace, request, reply *schema.Message, again bool, send func() error) (err error) {
	if again || request == nil || !reply.Answers(request) {
		return send()
	}
	if err := w.MakeStateFolder(TurnsFolder); err != nil {
		return err
	}
	dir, err := durable.OpenDir(w.Root(), w.Dir(), TurnsFolder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	lock := dir.NewLock(string(reply.From) + ".reply.lock")
	const retry = 5 * time.Millisecond
	if _, err := lock.TryLockContext(ctx, retry); err != nil {
		return fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	sent, err := conversation.Responses(ctx, w, reply.From, []mailbox.Entry{{Message: request}})
	if err != nil {
		return err
	}
	if last := sent[request.ID]; last.Answers {
		before, err := isBeforeRestore(w, request, last.Message)
		if err != nil {
			return err
		}
		if !before {
			_, err := w.Pending(ctx, string(request.ID), reply.From)
			return &AnsweredError{request, last.Message, err == nil}
		}
	}
	return send()
}

// isBeforeRestore reports whether the request was restored after the answer was sent. The ids of messages tell the
// order of those of one second.
func isBeforeRestore(w *mailbox.Workspace, request, answer *schema.Message) (bool, error) {
	k, err := KeyOf(request)
	if err != nil {
		return false, err
	}
	h, err := ReadHistory(w, answer.From)
	if err != nil || h.Records[k] == nil || h.Records[k].Revived.IsZero() {
		return false, err
	}
	at := h.Records[k].Revived.UTC()
	id := "msg-" + at.Format("20060102T1504Z") + "-" + string(answer.From) + "-" + schema.TimeWithinMinute(at, schema.ShortRand)
	return schema.CompareAge(answer, &schema.Message{ID: schema.ID(id), CreatedAt: schema.NewTimestamp(at)}) < 0, nil
}
