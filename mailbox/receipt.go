package mailbox

import (
	"errors"
	"fmt"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// SendOptions changes how messages are sent. The zero value is the default.
type SendOptions struct {
	// Create makes missing mailboxes of the sender and the recipients, instead of refusing the
	// message.
	Create bool
	// Notices lets Postmaster send.
	Notices bool
}

// Postmaster is the reserved sender of automatic notices. It is not an agent; it has a mailbox only
// because every sender has one.
const Postmaster schema.AgentName = "oacp"

// ErrPostmaster is returned if Postmaster is used as the name of an agent.
var ErrPostmaster = fmt.Errorf("%s is the reserved sender of notices and cannot be an agent", Postmaster)

// ErrIDTaken is returned for a message whose given id belongs to another message.
var ErrIDTaken = errors.New("another message has this id")

// Receipt says where the copies of a sent message are.
type Receipt struct {
	// Message is the message as it was sent, with its id and time.
	Message *schema.Message
	// Outbox is the path of the sender's copy. Inboxes are the paths of the recipients' copies, in
	// the order of Message.To.
	Outbox  string
	Inboxes []string
	// Warnings are the warnings of the validation.
	Warnings validate.Diagnostics
	// AlreadySent reports that the same message, with the same given id and the same bytes, had
	// been sent before and was not sent again.
	AlreadySent bool
}

// Result is the outcome of one message of SendAll.
type Result struct {
	// Receipt is nil if the message was not sent.
	Receipt *Receipt
	// Err is a *validate.InvalidError, an *UnknownAgentError, a *QueuedError, a *NotDurableError,
	// or an error of the file system.
	Err error
}

// QueuedError says that a message was sent, but some inboxes refused their copies. These stay
// staged until Recover can publish them.
type QueuedError struct {
	ID     schema.ID
	Agents []schema.AgentName
	Err    error
}

// Error names the message, the waiting recipients and the cause.
func (e *QueuedError) Error() string {
	return fmt.Sprintf("message %s is sent but still queued for %s: %v", e.ID, joinNames(e.Agents), e.Err)
}

// Unwrap returns the cause.
func (e *QueuedError) Unwrap() error { return e.Err }

// NotDurableError says that a message was sent and is in every inbox, but may be lost if the
// machine crashes: a sync failed after the commit. Sending it again would duplicate it.
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
