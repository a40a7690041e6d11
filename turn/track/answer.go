package track

import (
	"context"
	"fmt"
	"time"

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

func (e *AnsweredError) Error() string {
	return fmt.Sprintf("%s answered message %s at %s with %s", e.Answer.From, e.Request.ID, e.Answer.CreatedAt, e.Answer.ID)
}

func (e *AnsweredError) Explain() (code, hint string) {
	hint = "oacp read " + e.Answer.ID.Short() + " shows the answer; --again sends another one"
	if e.Pending {
		hint += "; oacp ack " + e.Request.ID.Short() + " acknowledges the message"
	}
	return "already_answered", hint
}

// A BusyError reports that an agent answers a request on which a turn of a Runner works, or another process of the agent
// says that it works.
type BusyError struct {
	Request *schema.Message
	Agent   schema.AgentName
	// Since is when the turn began, or when the other process said so.
	Since time.Time
	// Process is the other process, or zero for a turn.
	Process process.Process
}

func (e *BusyError) Error() string {
	if e.Process.PID > 0 {
		return fmt.Sprintf("another process of %s, %d, says since %s that it works on message %s",
			e.Agent, e.Process.PID, schema.NewTimestamp(e.Since), e.Request.ID)
	}
	return fmt.Sprintf("a turn of oacp run for %s works on message %s since %s", e.Agent, e.Request.ID, schema.NewTimestamp(e.Since))
}

func (e *BusyError) Explain() (code, hint string) {
	return "already_working", "oacp status " + e.Request.ID.Short() + " shows how far it gets; --again sends an answer all the same"
}

// checkTurn returns a *BusyError if a turn works on the request to which this process does not belong, or if a living
// process of the agent, other than by, says that it works on it.
func checkTurn(w *mailbox.Workspace, request *schema.Message, agent schema.AgentName, by process.Process) error {
	state, err := newTracker(w).inbox(agent)
	if err != nil {
		return err
	}
	rec := state.history.Records[KeyOf(request)]
	if rec != nil && rec.saysWorking() && rec.Working.Process != by && by.PID > 0 && rec.Working.Process.IsAlive() {
		return &BusyError{request, agent, inSeconds(rec.Working.At), rec.Working.Process}
	}
	if !state.running || rec == nil || !rec.Running || rec.isOwn() {
		return nil
	}
	return &BusyError{Request: request, Agent: agent, Since: inSeconds(rec.Started)}
}

// SendOnce calls send, which sends the reply. If the reply answers the request, SendOnce first checks that no answer
// exists, so that of several processes that answer at the same time, one succeeds. It returns an *AnsweredError if the
// sender has answered the request before. It returns a *BusyError if a turn works on the request to which this process
// does not belong or, unless by is zero, if another process than by says that it works on it. There is no check if again
// is true or the request is nil.
func SendOnce(ctx context.Context, w *mailbox.Workspace, request, reply *schema.Message, by process.Process, again bool, send func() error) error {
	if again || request == nil || !reply.Answers(request) {
		return send()
	}
	return whileLocked(ctx, w, string(reply.From)+".reply.lock", func() error {
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
	})
}
