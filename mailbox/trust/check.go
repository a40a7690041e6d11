package trust

import (
	"errors"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/validate"
)

// Verify is signing.Verify with the sender that the message names. If the pins cannot be used, Verify goes
// on without pins; err and the reason of the result then tell why.
func Verify(file []byte, pins []Entry, err error) signing.Result {
	r := signing.Verify(file, Keys(pins), senderOf)
	switch {
	case err == nil:
	case r.Status == signing.Unsigned:
		r.Reason = err.Error()
	case r.Status == signing.Untrusted:
		r.Reason += ", and the pins cannot be used: " + err.Error()
	}
	return r
}

// senderOf returns the sender that signed bytes name. It returns none if readers could differ about
// it: of two senders, the reference implementation takes the second one.
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

// A Finding is the verdict on the signature of a message for its receiver. It is the zero value if there is
// none.
type Finding struct {
	Verdict signing.Verdict `json:"signature,omitempty"`
	// Status is the outcome in the words of the reference implementation.
	Status signing.Status `json:"-"`
	// Reason says why the message is not verified.
	Reason string `json:"signature_reason,omitempty"`
}

// Check verifies a message for the owner of its mailbox. It finds nothing for an unsigned message to
// a receiver without pins, for copies of what the owner sent, and for what is not a message.
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
	r := Verify([]byte(e.Message.File), pins.keys, pins.err)
	f := Finding{r.Status.Verdict(), r.Status, r.Reason}
	switch {
	case e.Message.Auth == "" && pins.err != nil:
		f = Finding{signing.VerdictUnverified, signing.Unsigned, "it is not signed, and the pins cannot be used: " + pins.err.Error()}
	case e.Message.Auth == "":
		f = Finding{signing.VerdictUnverified, signing.Unsigned, "it is not signed"}
	case r.Status == signing.Unsigned:
		f = Finding{signing.VerdictBad, signing.Invalid, "its signature is not the last line of the file"}
	case r.Status == signing.Verified && !e.Message.IsFor(e.Agent):
		f = Finding{signing.VerdictBad, signing.Invalid, "it is signed, but not to " + string(e.Agent) + ": somebody copied it here"}
	}
	return f
}
