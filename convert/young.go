package convert

import (
	"context"
	"time"

	"github.com/oacp-go/oacp/mailbox"
)

// A message file's body stands last in it, so most beginnings of a message are a message. What somebody may
// still be writing is therefore not read: a file must have been left alone for quietTime. A mirror that runs
// once waits for that, but no longer than patience. A writer may pause for longer than that, so an outbox is
// listed again for as long as one of its files was written within slowWriting.
const (
	quietTime   = 250 * time.Millisecond
	patience    = 5 * time.Second
	slowWriting = 10 * time.Second
)

// nursery knows how long files have been left alone.
type nursery struct {
	quiet time.Duration
	now   func() time.Time
	pause func(context.Context, time.Duration) error
	// seen is when the files that are waited for were first found as they are. A clock that the file system
	// and this machine do not share does not make them wait for ever.
	seen map[fileKey]time.Time
	// waiting are the files that the last pass left, and due says when to look at them again.
	waiting []*outboxFile
	due     time.Time
}

func newNursery() *nursery {
	return &nursery{quiet: quietTime, now: time.Now, pause: pause, seen: make(map[fileKey]time.Time)}
}

// pause waits, unless the context ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isYoung reports whether somebody may still be writing a file.
func (n *nursery) isYoung(f *outboxFile) bool {
	now := n.now()
	if wasMoved(f) || n.age(f) >= n.quiet {
		delete(n.seen, f.key)
		return false
	}
	since, ok := n.seen[f.key]
	if !ok {
		n.seen[f.key] = now
	}
	if ok && now.Sub(since) >= n.quiet {
		delete(n.seen, f.key)
		return false
	}
	return true
}

// age is how long ago a file was written.
func (n *nursery) age(f *outboxFile) time.Duration {
	return n.now().Sub(time.Unix(0, f.stamp.modified))
}

// wasMoved reports whether the workspace put a file into its place whole, and nobody has written it since: it has
// the mark that the mailbox gives. Writing sets both times to one, of any number of nanoseconds.
func wasMoved(f *outboxFile) bool {
	return isOurs(f.name) && f.stamp.modified%int64(mailbox.MovedStep) == 0 &&
		f.stamp.changed-f.stamp.modified >= int64(mailbox.MovedBack)
}

// leave remembers the files that were left, for the next look.
func (n *nursery) leave(files []*outboxFile) {
	seen := make(map[fileKey]time.Time, len(files))
	now := n.now()
	n.waiting, n.due = files, now.Add(n.quiet)
	for _, f := range files {
		if since, ok := n.seen[f.key]; ok {
			seen[f.key] = since
		}
		if ready := time.Unix(0, f.stamp.modified).Add(n.quiet); ready.Before(n.due) {
			n.due = ready
		}
	}
	// What changed while it was read is not looked at again and again without a breath.
	if soonest := now.Add(n.quiet / 10); n.due.Before(soonest) {
		n.due = soonest
	}
	n.seen = seen
}

// names are the files that were left.
func (n *nursery) names() *changes {
	c := newChanges()
	for _, f := range n.waiting {
		c.add(f.agent, f.name)
	}
	return c
}
