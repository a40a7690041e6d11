package convert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
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
	return "", fmt.Errorf("%q is no direction: both, out or in", text)
}

// A Mirror keeps a log and a workspace in step. Any number of processes may run mirrors of the same two.
type Mirror struct {
	Workspace *mailbox.Workspace
	Log       *bridge.Log
	// Direction is Both where it is empty.
	Direction Direction
	// Since keeps messages that were made before it out of the log. Where it is zero that is the beginning of
	// the log's run, see bridge.Beginning: what is older belongs to the runs before.
	Since time.Time
	// All puts everything into the log that the outboxes hold: also messages of the time before, and those
	// that came from other logs, which otherwise are never written into this one.
	All bool
	// Only, if not nil, says which messages go from the outboxes into the log, the same of a message each
	// time. The others are passed over and not done with: a mirror without it carries them.
	Only func(*schema.Message) bool
	// Progress, if not nil, is told how many of the messages and lines that are to be looked at have been.
	// The total grows when the second direction begins.
	Progress func(done, total int)

	// passedOver are the files of messages that Only does not want, so that they are read once.
	passedOver map[fileKey]bool
	young      *nursery // nil but in tests
}

// Run carries what is new, first out and then in, and returns. One direction failing does not keep the other
// from being done; the error is of the log, the workspace or the context.
//
// Everything that the report counts as recorded or delivered is on disk, as far as the log and the workspace
// are opened to sync.
func (m *Mirror) Run(ctx context.Context) (report Report, err error) {
	s, err := m.open()
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	s.outward.patience = patience
	return s.pass(ctx, nil)
}

// session is what a Mirror keeps between one pass and the next.
type session struct {
	mirror    *Mirror
	direction Direction
	outboxes  *outboxes
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
			return nil, fmt.Errorf("from when on messages belong in %s: %w", m.Log.Path(), err)
		}
	}
	known, err := openOutboxes(m.Workspace)
	if err != nil {
		return nil, err
	}
	young := m.young
	if young == nil {
		young = newNursery()
	}
	if m.passedOver == nil {
		m.passedOver = make(map[fileKey]bool)
	}
	out := &outward{
		workspace: m.Workspace, log: m.Log, outboxes: known, young: young, reported: make(map[fileKey]bool),
		only: m.Only, passedOver: m.passedOver,
		since: since.Truncate(time.Second), all: m.All, afresh: m.All || !m.Since.IsZero(),
	}
	in := &inward{workspace: m.Workspace, log: m.Log, outboxes: known, wasRecorded: out.wasRecorded}
	return &session{mirror: m, direction: direction, outboxes: known, outward: out, inward: in}, nil
}

func (s *session) close() error { return s.outboxes.close() }

// pass carries what is new. Names, if there are any, are the outbox files to be looked at: then no others are.
func (s *session) pass(ctx context.Context, named *changes) (Report, error) {
	var report Report
	count := &progress{tell: s.mirror.Progress}
	var failed error
	if s.direction != In {
		if err := s.outward.pass(ctx, named, &report, count); err != nil {
			failed = errors.Join(failed, fmt.Errorf("mirror into %s: %w", s.mirror.Log.Path(), err))
		}
	}
	if s.direction != Out {
		if err := s.inward.pass(ctx, &report, count); err != nil {
			failed = errors.Join(failed, fmt.Errorf("mirror into %s: %w", s.mirror.Workspace.Dir(), err))
		}
	}
	return report, failed
}

// progress adds up what is done of what is to be done.
type progress struct {
	tell        func(done, total int)
	done, total int
}

func (p *progress) expect(n int) {
	if p.total += max(n, 0); p.tell != nil && n > 0 {
		p.tell(p.done, p.total)
	}
}

func (p *progress) add(n int) {
	p.done += n
	p.total = max(p.total, p.done)
	if p.tell != nil && n > 0 {
		p.tell(p.done, p.total)
	}
}

// stateWarning reports what the mirror could not remember; nothing but time is lost by it.
func stateWarning(report *Report, err error) {
	if err != nil {
		report.warn("what is done could not be noted, so it will be looked at again: %s", strings.TrimSpace(err.Error()))
	}
}
