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
// several processes that answer a request at the same time, one succeeds.
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
		_, err := w.Pending(ctx, string(request.ID), reply.From)
		return &AnsweredError{request, last.Message, err == nil}
	}
	return send()
}
