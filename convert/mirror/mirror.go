// Package mirror keeps a bridge log and a workspace in step.
//
// [Mirror] carries what is new from the outboxes into the log and from the log into the mailboxes, each thing once,
// however often it runs, even if it is killed or runs in several processes at once. A record is in the log or not, a
// message is in its sender's outbox or not, and that decides.
//
// In state/mirror of the workspace a mirror keeps, for each log,
//
//   - what it has seen, in files that end in .json. They save time and may be deleted at any time.
//   - a ledger of which messages of which outbox copies it recorded, in a file that ends in .journal. It may be deleted
//     if no message was removed from its outbox, or changed in it, after it was recorded.
//
// The log of a run takes in the messages sent since the run began, and none that were derived from another log; see
// Mirror.Since and Mirror.All. A file that another program may still be writing is left alone until it is settled, see
// watch.Settled.
//
// A record that cannot be delivered becomes a dead letter of its sender or, if the workspace does not know the sender,
// one in state/mirror/dead_letter. An unknown recipient is a reason for that. An unknown sender is not: it gets a
// mailbox. Once the recipient exists, deleting the .json files makes the mirror deliver what it could not deliver.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

// Direction says which way a Mirror carries.
type Direction string

// The directions. The zero value is Both.
const (
	Both Direction = "both"
	Out  Direction = "out" // from the outboxes into the log
	In   Direction = "in"  // from the log into the mailboxes
)

// Directions returns the directions.
func Directions() []Direction { return []Direction{Both, Out, In} }

// ParseDirection returns the direction that the text names.
func ParseDirection(text string) (Direction, error) {
	if d := Direction(text); slices.Contains(Directions(), d) {
		return d, nil
	}
	return "", fmt.Errorf("%q is not a direction: both, out or in", text)
}

// A Mirror keeps a log and a workspace in step. Any number of processes may run mirrors of the same two.
type Mirror struct {
	Workspace *mailbox.Workspace
	Log       *bridge.Log
	// Direction is Both if it is empty.
	Direction Direction
	// Since keeps messages that were made before it out of the log. If it is zero, the log's run decides, see
	// bridge.Beginning: what is older belongs to the runs before.
	Since time.Time
	// All puts all messages of the outboxes into the log, also older ones and those derived from other logs.
	All bool
	// Only, if not nil, selects the messages that go from the outboxes into the log. It must always give the same
	// answer for a message. A mirror without it carries the others, too.
	Only func(*schema.Message) bool
	// Progress, if not nil, is called with the number of messages and lines that were handled, and of those to
	// handle. The total grows when the second direction begins.
	Progress func(done, total int)

	// passedOver are the files of messages that Only rejected, so that they are read once.
	passedOver map[copyKey]bool
	// now and pause replace the clock in tests.
	now   func() time.Time
	pause func(context.Context, time.Duration) error
}

// patience is how long Run waits for files that other programs are writing.
const patience = 5 * time.Second

// Run carries what is new, first out and then in, and returns. If one direction fails, the other is still done; the
// error is of the log, the workspace or the context.
//
// Everything that the report counts as recorded or delivered is on disk, if the log and the workspace sync.
func (m *Mirror) Run(ctx context.Context) (report Report, err error) {
	s, err := m.open()
	if err != nil {
		return report, err
	}
	out := s.outward
	for deadline := out.now().Add(patience); ; {
		if err := s.pass(ctx, &report); err != nil || len(out.unsettled) == 0 {
			return report, err
		}
		if out.now().After(deadline) {
			for _, path := range out.unsettled {
				report.warn("%s: left out: %v", path, errChanging)
			}
			return report, nil
		}
		if err := m.pause(ctx, watch.Quiet); err != nil {
			return report, err
		}
	}
}

// wait waits, unless the context ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// session is what a Mirror keeps between one pass and the next.
type session struct {
	mirror    *Mirror
	direction Direction
	outward   *outward
	inward    *inward
}

func (m *Mirror) open() (*session, error) {
	direction := m.Direction
	if direction == "" {
		direction = Both
	}
	if _, err := ParseDirection(string(direction)); err != nil {
		return nil, err
	}
	since := m.Since
	if since.IsZero() && !m.All && direction != In {
		var err error
		if since, err = bridge.Beginning(m.Log.Path()); err != nil {
			return nil, fmt.Errorf("finding out which messages belong in %s: %w", m.Log.Path(), err)
		}
	}
	if m.passedOver == nil {
		m.passedOver = make(map[copyKey]bool)
	}
	out := &outward{
		workspace: m.Workspace, log: m.Log, since: since.Truncate(time.Second), all: m.All,
		afresh: m.All || !m.Since.IsZero(), only: m.Only, passedOver: m.passedOver,
		reported: make(map[copyKey]bool), bound: "since " + since.UTC().Format(time.RFC3339), now: time.Now,
	}
	if m.All {
		out.bound = "all"
	}
	if m.now != nil {
		out.now = m.now
	}
	if m.pause == nil {
		m.pause = wait
	}
	out.seen = loadSeen(m.Workspace, m.Log, Out)
	if out.afresh || out.seen.Bound != out.bound {
		out.seen.Outboxes = nil
	}
	out.seen.Bound = out.bound
	in := &inward{workspace: m.Workspace, log: m.Log, ledger: out.needLedger, seen: loadSeen(m.Workspace, m.Log, In)}
	return &session{mirror: m, direction: direction, outward: out, inward: in}, nil
}

// pass carries what is new.
func (s *session) pass(ctx context.Context, report *Report) error {
	count := &progress{report: s.mirror.Progress}
	var failed error
	if s.direction != In {
		if err := s.outward.pass(ctx, report, count); err != nil {
			failed = errors.Join(failed, fmt.Errorf("mirror into %s: %w", s.mirror.Log.Path(), err))
		}
	}
	if s.direction != Out {
		if err := s.inward.pass(ctx, report, count); err != nil {
			failed = errors.Join(failed, fmt.Errorf("mirror into %s: %w", s.mirror.Workspace.Dir(), err))
		}
	}
	return failed
}

// progress counts what is done of what is to be done.
type progress struct {
	report      func(done, total int) // may be nil
	done, total int
}

// add counts n as done, and more as to be done.
func (p *progress) add(n, more int) {
	p.done += n
	p.total = max(p.total+more, p.done)
	if p.report != nil && n+more > 0 {
		p.report(p.done, p.total)
	}
}
