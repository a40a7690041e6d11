package command

import (
	"cmp"
	"errors"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Preview returns what a list shows of a message file that is not valid: what could be read of the
// message and, as the reference implementation shows it, a question mark for what could not, and the
// time of the file if that of the message is not known.
func Preview(e *mailbox.Entry) *schema.Message {
	m := schema.Message{Subject: "(no subject)"}
	var invalid *validate.InvalidError
	switch {
	case e.Message != nil:
		m = *e.Message
		m.Subject = cmp.Or(m.Subject, "(no subject)")
	case e.IsHeld():
		m.Subject = "(held: unverified under enforce)"
	case errors.As(e.Err, &invalid):
		m.Subject = "(invalid YAML)"
	default:
		m.Subject = "(unreadable)"
	}
	m.From = cmp.Or(m.From, "?")
	m.Type = cmp.Or(m.Type, "?")
	m.Priority = cmp.Or(m.Priority, "?")
	if m.CreatedAt.Time().IsZero() {
		m.CreatedAt = schema.NewTimestamp(e.Modified)
	}
	return &m
}
