package track

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/process"
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

// A BusyError reports that a turn of a Runner works on the request that an agent answers from elsewhere, or that another
// process of the agent says so.
type BusyError struct {
	Request *schema.Message
	Agent   schema.AgentName
	// Since is when the turn began, or when the other process said so.
	Since time.Time
	// Process is the other process, or zero for a turn.
	Process process.Process
}

// Error names the agent and the request, and says since when the turn runs.
func (e *BusyError) Error() string {
	if e.Process.PID > 0 {
		return fmt.Sprintf("another process of %s, %d, says since %s that it works on message %s",
			e.Agent, e.Process.PID, schema.NewTimestamp(e.Since), e.Request.ID)
	}
	return fmt.Sprintf("a turn of oacp run for %s works on message %s since %s", e.Agent, e.Request.ID, schema.NewTimestamp(e.Since))
}

// checkTurn returns a *BusyError if a turn works on the request, unless this process belongs to that turn, or if a living
// process of the agent other than by says that it does.
func checkTurn(w *mailbox.Workspace, request *schema.Message, agent schema.AgentName, by process.Process) error {
	running, err := IsRunning(w, agent)
	if err != nil {
		return err
	}
	k, err := KeyOf(request)
	if err != nil {
		return err
	}
	h, err := ReadHistory(w, agent)
	if err != nil {
		return err
	}
	rec := h.Records[k]
	if rec != nil && rec.saysWorking() && rec.Working.Process != by && by.PID > 0 && rec.Working.Process.IsAlive() {
		return &BusyError{request, agent, inSeconds(rec.Working.At), rec.Working.Process}
	}
	if !running || rec == nil || !rec.Running || rec.isOwn() {
		return nil
	}
	return &BusyError{Request: request, Agent: agent, Since: inSeconds(rec.Started)}
}

// SendOnce calls send, which sends the reply. Unless again is true, it returns an *AnsweredError instead if the reply
// answers the request and its sender has answered it before, and a *BusyError if another process works on the request
// in a turn, or a process other than by, if that is known, says that it does. If several processes answer a request at the same time, one succeeds. The request may be nil.
func SendOnce(ctx context.Context, w *mailbox.Workspace, request, reply *schema.Message, by process.Process, again bool, send func() error) (err error) {
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
	if err := checkTurn(w, request, reply.From, by); err != nil {
		return err
	}
	return send()
}
