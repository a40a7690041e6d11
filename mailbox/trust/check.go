package trust

import (
	"sync"
	"sync/atomic"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/validate"
)

// Verify is signing.Verify with the sender that the message names. If the pins cannot be used, err
// says why, and the result is that without pins, with that reason.
func Verify(file []byte, pins []Pin, err error) signing.Result {
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

// senderOf returns the sender that signed bytes name.
func senderOf(signed []byte) schema.AgentName {
	if m, _ := validate.Decode(signed); m != nil {
		return m.From
	}
	return ""
}

// A Checker verifies messages of a workspace for their receivers. It reads the pins of each receiver
// once. Goroutines may share it.
type Checker struct {
	w    *mailbox.Workspace
	lock sync.Mutex
	pins map[schema.AgentName]*pinned
}

type pinned struct {
	keys []Pin
	err  error
}

// NewChecker returns a Checker for the workspace.
func NewChecker(w *mailbox.Workspace) *Checker {
	return &Checker{w: w, pins: make(map[schema.AgentName]*pinned)}
}

// A Finding says what the signature of a message is worth to its receiver.
type Finding struct {
	Verdict signing.Verdict
	// Reason says why the message is not verified.
	Reason string
}

// Check verifies a message for the owner of its mailbox. It returns nil for an unsigned message to a
// receiver without pins, for copies of what the owner sent, and for what is not a message.
func (c *Checker) Check(e mailbox.Entry) *Finding {
	if e.Message == nil || e.Box == mailbox.Outbox {
		return nil
	}
	pins := c.pinsOf(e.Agent)
	if e.Message.Auth == "" {
		if len(pins.keys) == 0 && pins.err == nil {
			return nil
		}
		f := &Finding{signing.VerdictUnverified, "it is not signed"}
		if pins.err != nil {
			f.Reason += ", and the pins cannot be used: " + pins.err.Error()
		}
		return f
	}
	r := Verify([]byte(e.Message.File), pins.keys, pins.err)
	if r.Status == signing.Unsigned {
		return &Finding{signing.VerdictBad, "its signature is not the last line of the file"}
	}
	return &Finding{r.Status.Verdict(), r.Reason}
}

// CheckAll returns the findings of the entries in their order; nil if there is none.
func (c *Checker) CheckAll(entries []mailbox.Entry) []*Finding {
	findings := make([]*Finding, len(entries))
	var found atomic.Bool
	var group sync.WaitGroup
	const chunk = 64
	for start := 0; start < len(entries); start += chunk {
		group.Go(func() {
			for i := start; i < min(start+chunk, len(entries)); i++ {
				if findings[i] = c.Check(entries[i]); findings[i] != nil {
					found.Store(true)
				}
			}
		})
	}
	group.Wait()
	if !found.Load() {
		return nil
	}
	return findings
}

func (c *Checker) pinsOf(receiver schema.AgentName) *pinned {
	c.lock.Lock()
	defer c.lock.Unlock()
	p := c.pins[receiver]
	if p == nil {
		p = &pinned{}
		p.keys, p.err = Pins(c.w, receiver)
		c.pins[receiver] = p
	}
	return p
}
