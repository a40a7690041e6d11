package trust

import (
	"errors"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/validate"
)

// Verify is signing.Verify with the sender that the message names. The error is the one of reading the
// pins, if they cannot be used; the reason of the result then includes it.
func Verify(file []byte, pins []Entry, err error) signing.Result {
	r := signing.Verify(file, keysOf(pins), senderOf)
	switch {
	case err == nil:
	case r.Status == signing.Unsigned:
		r.Reason = err.Error()
	case r.Status == signing.Untrusted:
		r.Reason += ", and the pins cannot be used: " + err.Error()
	}
	return r
}

// senderOf returns the sender that signed bytes name, or none if it is ambiguous: of two senders, the
// reference implementation takes the second, and we take the first.
func senderOf(signed []byte) schema.AgentName {
	m, problems := validate.Decode(signed)
	if m == nil {
		return ""
	}
	for _, p := range problems {
		if p.Rule == validate.RuleDocuments || p.Rule == validate.RuleDuplicateKey && p.Field == "from" {
			return ""
		}
	}
	return m.From
}

// A Checker verifies messages of a workspace for their receivers. It reads the pins of each receiver
// once.
type Checker struct {
	w    *mailbox.Workspace
	pins map[schema.AgentName]pinned
}

type pinned struct {
	keys []Entry
	err  error
}

// NewChecker returns a Checker for the workspace.
func NewChecker(w *mailbox.Workspace) *Checker {
	return &Checker{w, make(map[schema.AgentName]pinned)}
}

// A Finding is the verdict on the signature of a message for its receiver.
type Finding struct {
	Verdict signing.Verdict `json:"signature,omitempty"`
	// Status is the outcome in the words of the reference implementation.
	Status signing.Status `json:"-"`
	// Reason says why the message is not verified.
	Reason string `json:"signature_reason,omitempty"`
}

// Check verifies a message for the owner of its mailbox. The finding has no verdict for an unsigned
// message to a receiver without pins, a copy in an outbox, and a file that is not a message.
func (c *Checker) Check(e mailbox.Entry) Finding {
	if held, ok := errors.AsType[*mailbox.HeldError](e.Err); ok && held.Agent == e.Agent {
		return Finding{held.Status.Verdict(), held.Status, held.Reason}
	}
	if e.Message == nil || e.Box == mailbox.Outbox {
		return Finding{}
	}
	pins, ok := c.pins[e.Agent]
	if !ok {
		pins.keys, pins.err = Pins(c.w, e.Agent)
		c.pins[e.Agent] = pins
	}
	if e.Message.Auth == "" && len(pins.keys) == 0 && pins.err == nil {
		return Finding{Status: signing.Unsigned}
	}
	if e.Message.Auth == "" {
		reason := "it is not signed"
		if pins.err != nil {
			reason += ", and the pins cannot be used: " + pins.err.Error()
		}
		return Finding{signing.VerdictUnverified, signing.Unsigned, reason}
	}
	r := Verify([]byte(e.Message.File), pins.keys, pins.err)
	switch {
	case r.Status == signing.Unsigned:
		r.Status, r.Reason = signing.Invalid, "its signature is not the last line of the file"
	case r.Status == signing.Verified && !e.Message.IsFor(e.Agent):
		r.Status, r.Reason = signing.Invalid, copiedTo(e.Agent)
	}
	return Finding{r.Status.Verdict(), r.Status, r.Reason}
}

// copiedTo returns the reason why a verified message is bad for an agent that is not a recipient.
func copiedTo(agent schema.AgentName) string {
	return "it is signed, but not to " + string(agent) + ": somebody copied it here"
}
