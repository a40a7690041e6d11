package client

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
)

// A Draft is a message to send. The client fills in who sends it; to schema.Everyone it goes to all other agents.
type Draft struct {
	schema.Message
	// InReplyTo is the id of a message to follow up, in its conversation. Parent only sets the parent. Conversation is a
	// conversation, or the id of a message in it. All may be short ids.
	InReplyTo, Parent, Conversation string
	// Once is a key of the caller's choice: of several drafts of the agent with the same key within 30 days, one is sent.
	Once string
	// Source is where the body was read from, for errors.
	Source validate.Source
	// SendOptions also say whether to make missing mailboxes.
	mailbox.SendOptions
}

// A Receipt says what was sent.
type Receipt struct {
	// Receipts are those of the messages: one, or several if the recipients need several. If only some were sent, an error
	// says so.
	Receipts []*mailbox.Receipt
	// Notes say what the sender should know, a line each.
	Notes []string
	// Answers reports whether it answers a message. Acknowledged is the message that was acknowledged with it, and
	// AlreadyAcknowledged reports whether that had been done before.
	Answers             bool
	Acknowledged        schema.ID
	AlreadyAcknowledged bool
}

// Message is the message that was sent, the first if there are several.
func (r *Receipt) Message() *schema.Message { return r.Receipts[0].Message }

// A Prepared is a message that has been checked and can be sent.
type Prepared struct {
	// Message has everything but its id, its time and a signature. Parts are the recipients of each message, if one has no
	// room for all.
	Message schema.Message
	Parts   [][]schema.AgentName
	// Notes say what the sender should know before it is sent, a line each.
	Notes []string

	client  *Client
	options mailbox.SendOptions
	once    string
	// request is the message that this one answers, or nil. If again is set, it may be answered already.
	request *Request
	again   bool
	// held is the copy of the answered message to acknowledge once this one is sent, or nil.
	held *held
}

// Send checks a message and sends it. Without a receipt, nothing was sent.
func (c *Client) Send(ctx context.Context, d Draft) (*Receipt, error) {
	p, err := c.Prepare(ctx, d)
	if err != nil {
		return nil, err
	}
	return p.Send(ctx)
}

// Prepare checks a draft as Send does.
func (c *Client) Prepare(ctx context.Context, d Draft) (*Prepared, error) {
	p := &Prepared{Message: d.Message, client: c, options: d.SendOptions, once: d.Once}
	p.Message.From = c.agent
	parts, err := project.Recipients(c.w, c.agent, d.Type, d.To)
	if err != nil {
		return nil, &RecipientsError{err}
	}
	if d.Once != "" && len(parts) > 1 { // the messages would have one id
		return nil, &RecipientsError{fmt.Errorf("a message with a key goes to at most %d agents", schema.MaxRecipients)}
	}
	p.Parts, p.Message.To = parts, parts[0]
	if err := p.thread(ctx, d); err != nil {
		return nil, err
	}
	return p, p.check(ctx, d.Source)
}

// A RecipientsError says what is wrong with the recipients of a draft.
type RecipientsError struct{ Err error }

func (e *RecipientsError) Error() string { return e.Err.Error() }

func (e *RecipientsError) Unwrap() error { return e.Err }

// A ThreadError says which field of a draft names no message.
type ThreadError struct {
	// Field is in_reply_to, parent_message_id or conversation_id.
	Field string
	Err   error
}

func (e *ThreadError) Error() string { return e.Field + ": " + e.Err.Error() }

func (e *ThreadError) Unwrap() error { return e.Err }

// thread sets the parent and the conversation of the message.
func (p *Prepared) thread(ctx context.Context, d Draft) (err error) {
	w, m := p.client.w, &p.Message
	if d.Conversation != "" {
		if m.ConversationID, err = conversation.Named(ctx, w, d.Conversation); err != nil {
			return &ThreadError{"conversation_id", err}
		}
	}
	named, found := d.InReplyTo, true
	switch {
	case named != "":
		if found, err = conversation.AnswerTo(ctx, w, m, named); err != nil {
			return &ThreadError{"in_reply_to", err}
		}
	case d.Parent != "":
		named = d.Parent
		if m.ParentID, _, found, err = conversation.After(ctx, w, named); err != nil {
			return &ThreadError{"parent_message_id", err}
		}
	}
	if !found {
		p.Notes = append(p.Notes, "there is no message "+named+" any more; the new one names it as its parent anyway")
	}
	return nil
}

// Compose returns the message as it would be sent, the bytes of its file, and warnings.
func (p *Prepared) Compose() (*schema.Message, []byte, validate.Diagnostics, error) {
	return p.client.w.Compose(p.Message, &p.options)
}

// Send sends the message and, if it is an answer, acknowledges what it answers as the caller asked. With a receipt, something
// was sent whatever the error is: a *mailbox.PartsError names who has no message, and a *NotAcknowledgedError the message that
// is still in the inbox.
func (p *Prepared) Send(ctx context.Context) (r *Receipt, err error) {
	if p.request == nil && p.once == "" {
		return p.deliver(ctx)
	}
	err = track.Exclusively(ctx, p.client.w, p.client.agent, func() (err error) {
		r, err = p.sendOnce(ctx)
		return err
	})
	return r, err
}

// sendOnce sends an answer, or a message with a key. The caller holds the agent's lock.
func (p *Prepared) sendOnce(ctx context.Context) (_ *Receipt, err error) {
	c := p.client
	if p.request != nil { // it may have been taken back since it was found
		if err := track.FindRecall(ctx, c.w, c.agent, p.request.Message.ID); err != nil {
			return nil, err
		}
	}
	switch {
	case p.request == nil || p.again:
	case p.Message.Answers(p.request.Message):
		return p.answer(ctx)
	case p.Message.AsksBack(p.request.Message):
		err = track.CheckBusy(c.w, p.request.Message, c.agent, c.holder())
	}
	if err == nil && p.once != "" {
		p.Message, err = track.Once(c.w, c.agent, p.once, p.Message, p.options.Sign)
	}
	if err != nil {
		return nil, err
	}
	return p.deliver(ctx)
}

func (p *Prepared) deliver(ctx context.Context) (*Receipt, error) {
	receipts, err := p.client.w.SendParts(ctx, p.Message, p.Parts, &p.options)
	if len(receipts) == 0 {
		return nil, err
	}
	return p.finish(ctx, receipts, err)
}

// finish completes the receipt of what was sent.
func (p *Prepared) finish(ctx context.Context, receipts []*mailbox.Receipt, err error) (*Receipt, error) {
	r := &Receipt{Receipts: receipts, Notes: p.Notes}
	for _, one := range receipts {
		r.Notes = slices.Concat(r.Notes, p.client.notes(one.Message))
	}
	r.Answers = p.request != nil && receipts[0].Message.Answers(p.request.Message)
	if err != nil || p.held == nil {
		return r, err
	}
	err = p.held.acknowledge(ctx, p.client.w)
	_, moved := errors.AsType[*mailbox.NotDurableError](err)
	if err != nil && !moved {
		return r, &NotAcknowledgedError{Answer: receipts[0].Message.ID, Message: p.request.Message.ID, Err: err}
	}
	r.Acknowledged, r.AlreadyAcknowledged = p.held.id, p.held.gone
	return r, err
}

// notes say what the sender of a message should know about its recipients.
func (c *Client) notes(m *schema.Message) []string {
	return append(project.OfflineNotes(c.w, m), trust.HeldNotes(c.w, m)...)
}

// NotesOf are what the receipt of the composed message would say.
func (p *Prepared) NotesOf(composed *schema.Message) []string {
	return slices.Concat(p.Notes, p.client.notes(composed))
}

// Unsent reports whether one of the messages waits for a push to the remote of the workspace.
func Unsent(w *mailbox.Workspace, r *Receipt) bool {
	return slices.ContainsFunc(r.Receipts, func(one *mailbox.Receipt) bool {
		return mailbox.IsUnsent(w, mailbox.Entry{Name: filepath.Base(one.Outbox), Message: one.Message})
	})
}

// A NotAcknowledgedError says that an answer is sent, and that the message that it answers is still in the inbox.
type NotAcknowledgedError struct {
	Answer, Message schema.ID
	Err             error
}

func (e *NotAcknowledgedError) Error() string {
	return fmt.Sprintf("the answer %s is sent, but %s is not acknowledged: %v", e.Answer, e.Message, e.Err)
}

func (e *NotAcknowledgedError) Unwrap() error { return e.Err }
