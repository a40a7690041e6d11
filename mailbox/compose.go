package mailbox

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/validate"
)

// Compose returns the message and the bytes that Send would deliver now, and the warnings of the
// validation. It changes nothing.
func (w *Workspace) Compose(draft schema.Message, options *SendOptions) (*schema.Message, []byte, validate.Diagnostics, error) {
	o := outgoing{draft: draft}
	b := &batch{w: w, options: cmp.Or(options, &SendOptions{}), boxes: make(map[folder]*durable.Dir)}
	err := b.compose(&o)
	return o.message, o.data, o.warnings, errors.Join(err, b.closeBoxes())
}

// compose completes, checks and renders a message, and chooses its file name. It regards the short
// names that the batch has claimed as taken.
func (b *batch) compose(o *outgoing) (err error) {
	w, options, m := b.w, b.options, o.draft
	o.message = &m
	if options.Suffix != "" && !schema.IsNamePart(options.Suffix) {
		return fmt.Errorf("suffix %.80q: want 1 to 64 letters, digits, dots, underscores or hyphens", options.Suffix)
	}
	o.long = o.long || w.long || options.Suffix != ""
	switch {
	case m.From != Postmaster:
		err = checkAgent(w, m.From, m.To, options.Create)
	case !options.Notices:
		err = ErrPostmaster
	}
	if err != nil {
		return fmt.Errorf("sender: %w", err)
	}
	if m.Priority == "" {
		m.Priority = schema.DefaultPriority
	}
	switch {
	case !o.given():
		if err := b.giveID(o); err != nil {
			return err
		}
	case m.CreatedAt == "":
		at := w.now()
		if parts, err := schema.ParseID(m.ID); err == nil {
			at = parts.At // the message stays the same however often it is sent
		}
		m.CreatedAt = schema.NewTimestamp(at)
	}
	o.warnings = validate.Message(&m)
	if err := o.warnings.Err(); err != nil {
		return err
	}
	for i, to := range m.To {
		if err := checkAgent(w, to, m.To[:i], options.Create); err != nil {
			return fmt.Errorf("recipient: %w", err)
		}
	}
	if !o.given() && m.ParentID == "" && m.ConversationID == "" {
		m.ConversationID = b.startConversation(&m)
	}
	o.name = m.FileName()
	if o.long || o.given() {
		if o.name, err = m.LongFileName(); err != nil {
			return err
		}
	}
	if options.Suffix != "" {
		o.name = strings.TrimSuffix(o.name, schema.FileExtension) + "_" + options.Suffix + schema.FileExtension
	}
	if o.data, err = schema.Encode(&m); err != nil || m.Auth != "" || options.Unsigned {
		return err
	}
	if o.data, err = w.sign(w, &m, o.data, options.Sign); err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	return nil
}

// Seal gives a draft that is to be sent later the signature that Send makes for it, if asked is set or its sender signs what it
// sends. CheckSeal then tells it from a draft of others who can write where it waits. The draft has an id, a time and a priority.
func (w *Workspace) Seal(draft *schema.Message, asked bool) error {
	m := *draft
	m.Auth, m.File = "", ""
	data, err := schema.Encode(&m)
	if err == nil {
		_, err = w.sign(w, &m, data, asked)
	}
	if _, hasNone := errors.AsType[*signing.NoKeyError](err); hasNone { // Send says so
		err = nil
	}
	draft.Auth = m.Auth
	return err
}

// CheckSeal returns an error that matches ErrNotSealed if the sender signs what it sends, and has not sealed the draft.
func (w *Workspace) CheckSeal(draft *schema.Message, asked bool) error {
	m := *draft
	err := w.Seal(&m, asked)
	if err == nil && m.Auth != "" && m.Auth != draft.Auth {
		err = fmt.Errorf("message %s of %s %w", m.ID, m.From, ErrNotSealed)
	}
	return err
}

// ErrNotSealed is returned for a draft without the seal of its sender, who signs messages.
var ErrNotSealed = failure.New("not_sealed", "waited to be sent without the signature that it would get",
	"it is not sent: another program wrote it to the journal, or its sender's keys have changed")

func checkAgent(w *Workspace, agent schema.AgentName, others []schema.AgentName, create bool) error {
	switch {
	case agent == Postmaster:
		return ErrPostmaster
	case !create || w.Knows(agent):
		return w.CheckAgent(agent)
	}
	known, err := w.Agents()
	if err != nil {
		return err
	}
	return CheckNewName(agent, append(known, others...))
}

// CheckNewName is CheckNewAgent for an agent that somebody makes. It also returns ErrReservedName; other machines and
// older versions may have agents of such names.
func CheckNewName(name schema.AgentName, others []schema.AgentName) error {
	if reason := name.Reserved(); reason != "" && !slices.Contains(others, name) {
		return fmt.Errorf("the agent name %q %w: %s", string(name), ErrReservedName, reason)
	}
	return CheckNewAgent(name, others)
}

// ErrReservedName is returned for a name that no new agent gets.
var ErrReservedName = failure.New("reserved_name", "is reserved", "choose another name; an agent that has this name keeps it")

// CheckNewAgent returns an error if a new agent cannot have the name: ErrPostmaster, a
// *SameNameError if it differs from one of the others only in case, or an error about its form. The
// name may be among the others.
func CheckNewAgent(name schema.AgentName, others []schema.AgentName) error {
	if name == Postmaster {
		return ErrPostmaster
	}
	same := slices.IndexFunc(others, func(other schema.AgentName) bool { return strings.EqualFold(string(other), string(name)) })
	if same >= 0 && !slices.Contains(others, name) {
		return &SameNameError{name, others[same]}
	}
	_, err := schema.ParseAgentName(string(name))
	return err
}

// SameNameError is returned if a name differs from that of another agent only in case. Many file
// systems have one folder for both.
type SameNameError struct{ Agent, Other schema.AgentName }

func (e *SameNameError) Error() string {
	return fmt.Sprintf("the agent %s cannot be beside %s: macOS and Windows have one folder for both names", e.Agent, e.Other)
}

func (e *SameNameError) Explain() (code, hint string) {
	return "same_name", fmt.Sprintf("write %s, or give the agent another name", e.Other)
}

// sendTimes assigns the times of the messages that this process sends.
var sendTimes schema.Clock

// giveID makes the message's id and, if it has none, its time. The id is a short one if the short
// file name is free, and otherwise a long one, which cannot repeat.
func (b *batch) giveID(o *outgoing) error {
	w, m := b.w, o.message
	if m.CreatedAt == "" {
		if o.at.IsZero() {
			at, alone := w.times.Next(w.now())
			o.at, o.long = at, o.long || !alone
		}
		m.CreatedAt = schema.NewTimestamp(o.at)
	}
	if !o.long {
		claim := string(m.From) + "/" + m.FileName()
		o.long = b.shortNameTaken(m) || b.claimed[claim]
		if b.claimed != nil {
			b.claimed[claim] = true
		}
	}
	length := schema.ShortRand
	if o.long {
		length = schema.LongRand
	}
	if o.at.IsZero() {
		o.at = w.times.Within(m.CreatedAt.Time(), length)
	}
	id, err := schema.NewID(o.at, m.From, m.Type, length, w.random)
	m.ID = id
	return err
}

// startConversation returns the id of the conversation that the message begins. Its number is random if
// the batch sends nothing or the count fails.
func (b *batch) startConversation(m *schema.Message) schema.ConversationID {
	number, err := uint64(0), errors.ErrUnsupported
	if b.outgoing != nil {
		number, err = b.countConversation()
	}
	if err != nil {
		number = mathrand.Uint64()
	}
	return schema.NewConversationID(m.CreatedAt.Time(), m.From, number)
}

// countConversation returns the number of a new conversation, one more than the last. It appends a line of
// 8 bytes to a file and derives the number from the place of the line: no two writers get the same place, and
// none waits for another. Each file, machine and start of the machine begins with another number.
func (b *batch) countConversation() (_ uint64, err error) {
	state, err := durable.OpenDir(b.w.root, b.w.dir, schema.StateName)
	if err != nil {
		return 0, err
	}
	file, err := state.OpenFile("conversations", os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o666)
	if err = errors.Join(err, state.Close()); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	line := []byte(rand.Text()[:7] + "\n")
	_, err = file.Write(line)
	place, seekErr := file.Seek(0, io.SeekCurrent)
	_, readErr := file.ReadAt(line, 0) // the first line
	start := fnv.New64a()
	fmt.Fprintf(start, "%s %s", b.origin, line)
	return start.Sum64() + uint64(place)/uint64(len(line)), errors.Join(err, seekErr, readErr)
}

// isUnique reports whether no other message can get this name.
func (b *batch) isUnique(m *schema.Message, name string) bool {
	return b.w.long || name != m.FileName()
}

// shortNameTaken reports whether one of the message's boxes has a file of its short name. It ignores a box
// that it cannot read: that box refuses its copy later, with the cause.
func (b *batch) shortNameTaken(m *schema.Message) bool {
	boxes := []folder{{b.w, m.From, Outbox}}
	for _, to := range m.To {
		boxes = append(boxes, folder{b.w, to, Inbox})
	}
	return slices.ContainsFunc(boxes, func(in folder) bool {
		dir, err := b.openBox(in, folder.open)
		if err == nil {
			_, err = dir.Lstat(m.FileName())
		}
		return err == nil
	})
}

// SendOptions changes how messages are sent. The zero value is the default.
type SendOptions struct {
	// Create creates missing mailboxes of the sender and the recipients, instead of rejecting the
	// message.
	Create bool
	// Notices lets Postmaster send.
	Notices bool
	// Suffix, if not empty, is added to the file names of the copies, which are then long: 1 to 64
	// letters, digits, dots, underscores and hyphens.
	Suffix string
	// Sign requires a signature, whatever the sender's settings say. Unsigned prevents one, for
	// messages that the caller forwards.
	Sign     bool
	Unsigned bool
	// Impatient limits how long a message with an id waits for other processes that send such
	// messages: after a second, Send returns an error.
	Impatient bool
}

// Postmaster is the reserved sender of automatic notices. It is not an agent; it has a mailbox only
// because every sender has one.
const Postmaster schema.AgentName = "oacp"

// ErrPostmaster is returned if Postmaster is used as the name of an agent.
var ErrPostmaster = failure.New("reserved_name", string(Postmaster)+" is the reserved sender of notices and not an agent",
	"choose another name for an agent; nobody reads mail to this one")

// ErrIDTaken is returned for a message whose given id belongs to another message.
var ErrIDTaken = failure.New("id_taken", "another message has this id", "omit id and created_at_utc, and the message gets new ones")

// Receipt has the paths of the copies of a sent message.
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

// Result is the outcome of one message of SendAll or Receive.
type Result struct {
	// Receipt is nil if the message was not sent.
	Receipt *Receipt
	// Err is a *validate.InvalidError, an *UnknownAgentError, a *QueuedError, a *NotDurableError,
	// or an error of the file system.
	Err error
}

// QueuedError reports that a message was sent, but is not in some inboxes. Its copies stay staged until
// Recover can publish them, unless the error is ErrGone.
type QueuedError struct {
	ID     schema.ID
	Agents []schema.AgentName
	Err    error
}

func (e *QueuedError) Error() string {
	return fmt.Sprintf("message %s is sent but not in the inbox of %s: %v", e.ID, spelling.Join(e.Agents), e.Err)
}

func (e *QueuedError) Explain() (code, hint string) {
	if errors.Is(e.Err, ErrGone) {
		return "", ""
	}
	return "queued", "do not send it again: the next send or oacp doctor --fix delivers it"
}

func (e *QueuedError) Unwrap() error { return e.Err }

// NotDurableError reports that a message was sent or moved, but a crash of the machine may undo that: a
// sync failed afterwards. Sending the message again would duplicate it.
type NotDurableError struct {
	// Done says what is done, as in "message msg-1 is sent".
	Done string
	Err  error
}

func (e *NotDurableError) Error() string {
	return fmt.Sprintf("%s, but that may not survive a crash of the machine: %v", e.Done, e.Err)
}

func (e *NotDurableError) Explain() (code, hint string) {
	return "not_durable", "it is done: do not repeat it"
}

func (e *NotDurableError) Unwrap() error { return e.Err }
