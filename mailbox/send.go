package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// SendOptions changes how messages are sent. The zero value is the default.
type SendOptions struct {
	// Create makes a mailbox for a sender or recipient that the workspace
	// does not know, instead of refusing the message.
	Create bool
	// Notices lets Postmaster send, whose mailbox is made if need be.
	Notices bool
}

// Postmaster is in whose name programs send notices. It is no agent: nobody
// works in its name, and its mailbox is there only because a sender has one.
const Postmaster schema.AgentName = "oacp"

// ErrPostmaster is returned where Postmaster is meant to be an agent.
var ErrPostmaster = fmt.Errorf("%s is who sends notices, and no name for an agent", Postmaster)

// Receipt says where an accepted message is.
type Receipt struct {
	// Message is the message as it was sent, with its id and time.
	Message *schema.Message
	// Outbox is the path of the sender's copy, and Inboxes those of the
	// recipients' copies, in the order of Message.To.
	Outbox  string
	Inboxes []string
	// Warnings are what validate finds odd in the message.
	Warnings validate.Diagnostics
	// AlreadySent reports that a message with a given id had been sent
	// before, with the same bytes, and was not sent again.
	AlreadySent bool
}

// Result is what became of one message of SendAll.
type Result struct {
	// Receipt is nil when the message was not accepted.
	Receipt *Receipt
	// Err is a *validate.InvalidError, an *UnknownAgentError, a *QueuedError, a
	// *NotDurableError, or an error of the file system.
	Err error
}

// QueuedError says that a message was sent, and that some recipients' inboxes
// would not take their copies. Those are kept and delivered by the next
// command that can.
type QueuedError struct {
	ID     schema.ID
	Agents []schema.AgentName
	Err    error
}

// Error names the message, the recipients that wait, and the cause.
func (e *QueuedError) Error() string {
	names := make([]string, len(e.Agents))
	for i, name := range e.Agents {
		names[i] = string(name)
	}
	return fmt.Sprintf("message %s is sent but still queued for %s: %v", e.ID, strings.Join(names, ", "), e.Err)
}

// Unwrap returns the cause.
func (e *QueuedError) Unwrap() error { return e.Err }

// NotDurableError says that a message was sent and stands in every inbox, but
// that the file system did not confirm that it survives a crash of the
// machine. Sending it again would double it.
type NotDurableError struct {
	ID  schema.ID
	Err error
}

// Error names the message and the cause.
func (e *NotDurableError) Error() string {
	return fmt.Sprintf("message %s is sent, but may not survive a crash of the machine: %v", e.ID, e.Err)
}

// Unwrap returns the cause.
func (e *NotDurableError) Unwrap() error { return e.Err }

// ErrIDTaken is returned for a message whose given id another message has.
var ErrIDTaken = errors.New("another message has this id")

// Send completes, checks and delivers one message: a two-phase commit whose
// commit record is the outbox copy.
//
//  1. The message is checked and rendered once.
//  2. Its bytes are staged once per destination in state/outgoing, checked
//     and synced.
//  3. The outbox copy is published under its final name, without replacing
//     anything. From here on the message counts as sent.
//  4. Each inbox copy is published the same way.
//
// Publishing consumes the staged name, so of all the processes that try, one
// succeeds. Before step 3 an error means that nothing was sent; after it, a
// *QueuedError tells which copies wait for Recover.
//
// An empty id, time and priority are filled in. A message that comes with an
// id is sent once, however often Send is called for it. The options may be
// nil.
func (w *Workspace) Send(ctx context.Context, draft schema.Message, options *SendOptions) (*Receipt, error) {
	result := w.SendAll(ctx, []schema.Message{draft}, options)[0]
	return result.Receipt, result.Err
}

// Compose returns the message and the bytes that Send would deliver now, with
// what validate finds odd in it, and touches nothing.
func (w *Workspace) Compose(draft schema.Message, options *SendOptions) (*schema.Message, []byte, validate.Diagnostics, error) {
	p := parcel{draft: draft}
	err := w.compose(&p, options, nil)
	return p.message, p.data, p.warnings, err
}

// A parcel is one message on its way.
type parcel struct {
	draft    schema.Message
	message  *schema.Message
	data     []byte
	warnings validate.Diagnostics
	// name is what all copies' files are to be called.
	name    string
	outbox  *destination
	inboxes []*destination
	// long asks for a long name and rand: the short name was taken, or the
	// short id was.
	long bool

	receipt *Receipt
	err     error
}

// given reports whether the message came with an id of its own.
func (p *parcel) given() bool { return p.draft.ID != "" }

// compose completes, checks and renders a message, and chooses its file name.
// Short names in claimed are taken as well.
func (w *Workspace) compose(p *parcel, options *SendOptions, claimed map[string]bool) error {
	m := p.draft
	p.message = &m
	if options == nil {
		options = &SendOptions{}
	}
	if err := w.checkSender(m.From, options); err != nil {
		return fmt.Errorf("sender: %w", err)
	}
	if m.Priority == "" {
		m.Priority = schema.DefaultPriority
	}
	if m.CreatedAt == "" {
		m.CreatedAt = w.creationTime(m.ID)
	}
	if !p.given() {
		if err := w.giveID(p, claimed); err != nil {
			return err
		}
	}
	p.warnings = validate.Message(&m)
	if err := p.warnings.Err(); err != nil {
		return err
	}
	for _, to := range m.To {
		if err := w.checkAgent(to, options.Create); err != nil {
			return fmt.Errorf("recipient: %w", err)
		}
	}
	return w.render(p)
}

// creationTime is when a message without a time was created: now or, if it
// came with an id, the time in that, so that its bytes and its file name are
// the same however often it is sent.
func (w *Workspace) creationTime(id schema.ID) schema.Timestamp {
	if parts, err := schema.ParseID(id); err == nil {
		return schema.NewTimestamp(parts.At)
	}
	return schema.NewTimestamp(w.now())
}

func (w *Workspace) checkSender(agent schema.AgentName, options *SendOptions) error {
	switch {
	case agent != Postmaster:
		return w.checkAgent(agent, options.Create)
	case !options.Notices:
		return ErrPostmaster
	}
	return nil
}

func (w *Workspace) checkAgent(agent schema.AgentName, create bool) error {
	if create && !w.Knows(agent) {
		return CheckNewAgent(agent)
	}
	return w.CheckAgent(agent)
}

// CheckNewAgent returns an error if no agent may have the name: ErrPostmaster, or one about its form.
func CheckNewAgent(name schema.AgentName) error {
	if name == Postmaster {
		return ErrPostmaster
	}
	_, err := schema.ParseAgentName(string(name))
	return err
}

// giveID makes the message's id. The short id goes with the short file name:
// whoever cannot have that name takes the id that cannot repeat.
func (w *Workspace) giveID(p *parcel, claimed map[string]bool) error {
	m := p.message
	if !p.long {
		taken, err := w.shortNameTaken(m)
		if err != nil {
			return err
		}
		claim := string(m.From) + "/" + m.FileName()
		p.long = taken || claimed[claim]
		if claimed != nil {
			claimed[claim] = true
		}
	}
	length := schema.ShortRand
	if p.long {
		length = schema.LongRand
	}
	id, err := schema.NewID(m.CreatedAt.Time(), m.From, m.Type, length, w.random)
	m.ID = id
	return err
}

// shortNameTaken reports whether a destination has a file of the message's
// short name already.
func (w *Workspace) shortNameTaken(m *schema.Message) (bool, error) {
	names := []string{BoxName(m.From, Outbox)}
	for _, to := range m.To {
		if to.Valid() {
			names = append(names, BoxName(to, Inbox))
		}
	}
	for _, box := range names {
		_, err := w.root.Lstat(box + "/" + m.FileName())
		switch {
		case err == nil:
			return true, nil
		case !errors.Is(err, fs.ErrNotExist):
			return false, fmt.Errorf("looking at %s: %w", box, err)
		}
	}
	return false, nil
}

// render chooses the file name and makes the bytes that every copy has.
func (w *Workspace) render(p *parcel) (err error) {
	p.name = p.message.FileName()
	if p.long || p.given() {
		if p.name, err = p.message.LongFileName(); err != nil {
			return err
		}
	}
	p.data, err = schema.Encode(p.message)
	return err
}
