package change

import (
	"context"
	"slices"

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
	left := slices.DeleteFunc(slices.Clone(c.added), func(a addition) bool { return a.box == schema.Outbox || len(a.names) == 0 || c.isCopy(a) })
	// git finds a path in the index much faster than in the tree of a commit.
	differs := make(map[int]bool)
	for _, at := range []func(string) string{c.end, func(name string) string { return c.base + ":" + name }} {
		var specs []string
		for _, a := range left {
			for _, name := range a.names {
				specs = append(specs, at(name))
			}
		}
		objects, err := c.objects(ctx, specs)
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(a addition) (same bool) {
			for _, o := range objects[:len(a.names)] {
				differs[a.file] = differs[a.file] || o.kind == "blob"
				same = same || o.id == a.id
			}
			objects = objects[len(a.names):]
			return same
		})
	}
	for _, a := range left {
		if differs[a.file] {
			c.set.Report(a.file, validate.RuleCopy, "", "the copy in the outbox of "+string(a.from)+" has other content",
				"restore the file from the outbox")
		} else {
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
