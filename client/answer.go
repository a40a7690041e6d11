package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A Request is a message that the agent received.
type Request struct {
	Message *schema.Message
	// Entry is its file, if Next, Take or Read gave it. ShownBefore is when somebody else had noticed it, zero if nobody had.
	Entry       mailbox.Entry
	ShownBefore time.Time

	client *Client
	// awaited is set if Ask returned it.
	awaited bool
}

// An Answer is what the agent says to a message. Request.Draft makes it; the caller fills in the body or a choice.
type Answer struct {
	Draft
	// Choose is one of the choices of the message, its number, or the key of another Option. It gives the type, and the body if
	// there is none and the option needs no text.
	Choose string
	// Final marks a message of any type as the complete answer, as Acknowledge does, except for a question back. Acknowledge
	// takes the message out of the inbox once the answer is sent.
	Final, Acknowledge bool
	// Decline says that the agent will not do what the message asks for. The body is the reason.
	Decline bool
	// taken is set once it is an Option.
	taken bool
	// Again sends another answer to a message that is answered, or that something else works on.
	Again bool
}

// A RecalledError says that the sender of a message has taken it back.
type RecalledError = track.RecalledError

// A NotAskedError says that there is nothing to decline in a message.
type NotAskedError struct{ Message *schema.Message }

func (e *NotAskedError) Error() string {
	return fmt.Sprintf("message %s asks for nothing: it is a %s", e.Message.ID, e.Message.Type)
}

// Request finds a message that was sent to the agent, pending or not. The id may be a short one. The error is a
// *RecalledError for a message that was taken back.
func (c *Client) Request(ctx context.Context, id string) (*Request, error) {
	found, err := c.w.Find(ctx, id)
	if held, ok := errors.AsType[*mailbox.HeldError](err); ok && held.Agent == c.agent {
		return nil, fmt.Errorf("message %s cannot be answered: %w", id, held)
	}
	if _, err = mailbox.SplitUnreadable(err); err != nil {
		return nil, err
	}
	return c.RequestOf(ctx, found)
}

// RequestOf is Request for the files of a message, as mailbox.Workspace.Find returns them.
func (c *Client) RequestOf(ctx context.Context, found []mailbox.Entry) (*Request, error) {
	m, err := conversation.Original(found, c.agent)
	if err != nil {
		return nil, err
	}
	r := &Request{Message: m, client: c}
	return r, cmp.Or(track.CheckRecalled(c.w, c.agent, found), c.checkFence(ctx, m))
}

// Draft returns the answer without a body: subject, priority and type follow from the message. The body of that to a handoff
// has fields.
func (r *Request) Draft() Answer {
	t := DefaultOption(r.Message).Type
	if r.Message.Type == schema.Handoff {
		t = schema.HandoffComplete
	}
	return Answer{Draft: Draft{Message: conversation.Reply(r.Message, r.client.agent, t)}}
}

// Answer sends an answer; see Prepared.Send. Of several answers, one is sent: the error for others is a
// *track.AnsweredError. The same answer again, or another one of the same turn, is no error, and is not sent.
func (r *Request) Answer(ctx context.Context, a Answer) (*Receipt, error) {
	p, err := r.Prepare(ctx, a)
	if err != nil {
		return nil, err
	}
	return p.Send(ctx)
}

// Decline tells the sender of a request why the agent will not do it. A later answer still counts.
func (r *Request) Decline(ctx context.Context, reason string) (*Receipt, error) {
	a := r.Draft()
	a.Body, a.Decline = schema.TextValue(reason), true
	return r.Answer(ctx, a)
}

// AskBack asks the sender of a message something. That is no answer.
func (r *Request) AskBack(ctx context.Context, question string) (*Receipt, error) {
	a := r.Draft()
	a.Type, a.Body = schema.Question, schema.TextValue(question)
	return r.Answer(ctx, a)
}

// decline makes the prepared answer one that declines.
func (p *Prepared) decline() error {
	if !p.request.Message.Type.IsRequest() {
		return &NotAskedError{p.request.Message}
	}
	if strings.TrimSpace(p.Message.BodyText()) == "" {
		return ErrNoReason
	}
	p.Message.Type = schema.Notification
	p.Message.Decline()
	return nil
}

// Prepare checks an answer as Answer does.
func (r *Request) Prepare(ctx context.Context, a Answer) (*Prepared, error) {
	if a.Choose != "" {
		o, err := FindOption(r.Message, a.Choose)
		if err == nil {
			err = a.Take(r.Message, o)
		}
		if err != nil {
			return nil, err
		}
	}
	p := &Prepared{Message: a.Message, client: r.client, options: a.SendOptions, once: a.Once, request: r, again: a.Again}
	if a.Final && a.Type == schema.Question {
		return nil, ErrFinalQuestion
	}
	if a.Decline {
		if err := p.decline(); err != nil {
			return nil, err
		}
	}
	if conversation.Conclude(&p.Message, r.Message, a.Final, a.Acknowledge) && !a.taken {
		p.Notes = append(p.Notes, fmt.Sprintf("a %s does not answer a %s, unless it is final", p.Message.Type, r.Message.Type))
	}
	if a.Acknowledge {
		held, err := r.client.findHeld(ctx, string(r.Message.ID))
		if gone, ok := errors.AsType[*mailbox.NotPendingError](err); !ok || !r.client.gaveUp(gone) { // of a dead letter, nothing is left to do
			if err != nil {
				return nil, err
			}
			p.held = &held
		}
	}
	return p, p.check(ctx, a.Source)
}

// answer sends the answer unless there is one. Callers hold the agent's lock.
func (p *Prepared) answer(ctx context.Context) (*Receipt, error) {
	c := p.client
	slot, err := track.AnswerOf(ctx, c.w, p.request.Message, c.agent)
	if err != nil {
		return nil, err
	}
	if !slot.Takes(&p.Message) {
		first, err := c.w.Resend(slot.Answer, slot.Path)
		sent, m := slot.Answer, &p.Message
		isSame := sent.Type == m.Type && sent.Subject == m.Subject && sent.BodyText() == m.BodyText()
		if (slot.OfThisTurn || isSame) && sent.Marks.Declined == m.Marks.Declined {
			return p.finish(ctx, []*mailbox.Receipt{first}, err)
		}
		_, pendingErr := c.w.Pending(ctx, string(p.request.Message.ID), c.agent)
		return nil, errors.Join(&track.AnsweredError{Request: p.request.Message, Answer: slot.Answer, Pending: pendingErr == nil}, err)
	}
	if err := track.CheckBusy(c.w, p.request.Message, c.agent, c.holder()); err != nil {
		return nil, err
	}
	return p.deliver(ctx)
}
