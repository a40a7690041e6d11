package change

import (
	"bytes"
	"errors"
	"slices"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// An addition is a message that is new in a mailbox.
type addition struct {
	entry
	// file is the number of the file in the set.
	file int
	from schema.AgentName
	// names are the paths at which the sender's copy can be.
	names []string
}

// checkCopies checks that the sender's outbox has each message that is new in another box, in the change or, if that
// removes it, in its base.
func (c *check) checkCopies() error {
	for _, a := range c.added {
		if a.box == schema.Outbox || len(a.names) == 0 || slices.ContainsFunc(a.names, func(name string) bool { return c.outboxes[name] == a.id }) {
			continue
		}
		same, differs, err := c.findCopy(a)
		switch {
		case err != nil:
			return err
		case same:
		case differs:
			c.set.Report(a.file, validate.RuleCopy, "", "the copy in the outbox of "+string(a.from)+" has other content",
				"restore the file from the outbox")
		default:
			c.set.Report(a.file, validate.RuleCopy, "", "the outbox of "+string(a.from)+" has no copy of the message",
				"commit the copy in the outbox with it, or send the message with oacp send")
		}
	}
	return nil
}

// findCopy looks for the sender's copy of a message, at the end of the change and in its base.
func (c *check) findCopy(a addition) (same, differs bool, err error) {
	data, err := c.object(a.id)
	for _, name := range a.names {
		for _, place := range []string{inIndex(name), inBase(c.base, name)} {
			if err != nil {
				return false, differs, err
			}
			var other []byte
			other, err = c.object(place)
			if _, large := errors.AsType[git.UnwantedError](err); large {
				differs, err = true, nil
			}
			if other != nil && bytes.Equal(other, data) {
				return true, false, nil
			}
			differs = differs || other != nil
		}
	}
	return false, differs, err
}
