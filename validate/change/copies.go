package change

import (
	"context"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// An addition is a message that is new in a mailbox.
type addition struct {
	entry
	// file is its number in the set.
	file int
	from schema.AgentName
	// names are the paths at which the sender's copy can be.
	names []string
}

// checkCopies checks that the sender's outbox has each message that is new in an inbox or archive, or
// that is a dead letter: in the change or, if that removes it, in its base.
func (c *check) checkCopies(ctx context.Context) error {
	var left []addition
	var specs []string
	for _, a := range c.added {
		if a.box == outbox || len(a.names) == 0 || c.isCopy(a) {
			continue
		}
		left = append(left, a)
		for _, name := range a.names {
			specs = append(specs, c.end(name), c.base+":"+name)
		}
	}
	objects, err := c.objects(ctx, specs)
	if err != nil {
		return err
	}
	for _, a := range left {
		of := objects[:2*len(a.names)]
		objects = objects[len(of):]
		there, same := false, false
		for _, o := range of {
			there = there || o.kind == "blob"
			same = same || o.id == a.id
		}
		switch {
		case same:
		case there:
			c.set.Report(a.file, validate.RuleCopy, "", "the copy in the outbox of "+string(a.from)+" has other content",
				"restore the file from the outbox")
		default:
			c.set.Report(a.file, validate.RuleCopy, "", "the outbox of "+string(a.from)+" has no copy of the message",
				"commit the copy in the outbox with it, or send the message with oacp send")
		}
	}
	return nil
}

// isCopy reports whether the change has the same bytes in the sender's outbox.
func (c *check) isCopy(a addition) bool {
	for _, name := range a.names {
		if c.outboxes[name] == a.id {
			return true
		}
	}
	return false
}
