// Package mirror synchronizes a bridge log with a workspace.
//
// [Mirror] copies new messages from the outboxes to the log, and new records from the log to the
// mailboxes. It copies each exactly once, even if it is killed or runs in several processes: before it
// copies something, it looks for the record in the log or for the message in the sender's outbox.
//
// For each log, a mirror keeps its progress in a file in state/mirror of the workspace. The file may be
// deleted; docs/mirror.md says what then happens to a message that was recorded and later removed from all
// mailboxes.
//
// The log of a run gets the messages sent since the run began and before it is finished, and none that were derived from
// another log; see Mirror.Since. A mirror does not read a file that another program may still be
// writing; see watch.Sighting.
//
// A record that cannot be delivered, for example because its recipient is unknown, becomes a dead letter of
// its sender or, if the sender is also unknown, a dead letter in state/mirror/dead_letter. The unknown
// sender of any other record gets a mailbox. Once the recipient exists, deleting the .json files makes the
// mirror retry the delivery.
package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

// Direction says which way a Mirror copies.
type Direction string

// The directions. The zero value is Both.
const (
	Both Direction = "both"
	Out  Direction = "out" // from the outboxes into the log
	In   Direction = "in"  // from the log into the mailboxes
)

// ParseDirection returns the direction that the text names.
func ParseDirection(text string) (Direction, error) {
	if d := Direction(text); slices.Contains([]Direction{Both, Out, In}, d) {
		return d, nil
	}
	return "", fmt.Errorf("%q is not a direction: both, out or in", text)
}

// A Mirror synchronizes a log and a workspace. Any number of processes may run mirrors of the same two.
type Mirror struct {
	Workspace *mailbox.Workspace
	Log       *bridge.Log
	// Direction is Both if it is empty.
	Direction Direction
	// Since is the time of the oldest messages that the log gets. If it is zero, the log gets the messages
	// sent since its run began; see bridge.Beginning.
	Since time.Time
	// Finished delivers the records of a finished run as notices, which start no turn. Without it they stay in the
	// log, unless the run was open when Run or Follow first looked.
	Finished bool
	// earlier is the log of the run before, if Since is when this run began.
	earlier string
	// session is what Run and Follow remember, nil before the first call.
	session *session
	// now and pause replace the clock in tests.
	now   func() time.Time
	pause func(context.Context, time.Duration) error
}

// patience is how long Run waits for files that other programs are writing.
const patience = 5 * time.Second

// Run copies what is new, first out and then in, and returns. If one direction fails, Run still does the
// other.
//
// Everything that the report counts as recorded or delivered is on disk, if the log and the
// workspace sync.
func (m *Mirror) Run(ctx context.Context) (report Report, err error) {
	s, err := m.open()
	if err != nil {
		return report, err
	}
	for deadline := s.now().Add(patience); ; {
		if err := s.pass(ctx, &report); err != nil || len(s.unsettled) == 0 {
			return report, err
		}
		if s.now().After(deadline) {
			for _, path := range s.unsettled {
				report.warn("%s: left out: %v", path, errChanging)
			}
			return report, nil
		}
		if err := s.pause(ctx, watch.Quiet); err != nil {
			return report, err
		}
	}
}

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
	*Mirror
	// Everything before delivered is in the mailboxes, and everything that this session recorded is before
	// recorded. If the log no longer has these places, it was replaced.
	delivered, recorded bridge.Cursor
	outboxes            map[schema.AgentName]*outbox
	// sawOpen reports that the run of the log was open at the start.
	sawOpen bool
	// reported has the files that were reported as bad, and the log if its run is finished.
	reported map[string]bool
	// unsettled has the paths of the files that the last pass left to other programs.
	unsettled []string
}

// open returns the session. The first call makes it, and sets the fields of the mirror that are zero.
func (m *Mirror) open() (_ *session, err error) {
	if m.session != nil {
		return m.session, nil
	}
	if m.Direction, err = ParseDirection(string(cmp.Or(m.Direction, Both))); err != nil {
		return nil, err
	}
	if m.Since.IsZero() && m.Direction != In {
		if m.Since, err = bridge.Beginning(m.Log.Path()); err == nil && !m.Since.IsZero() {
			m.earlier, err = bridge.Earlier(m.Log.Path())
		}
		if err != nil {
			return nil, fmt.Errorf("determining which messages belong in %s: %w", m.Log.Path(), err)
		}
	}
	m.Since = m.Since.Truncate(time.Second)
	if m.now == nil {
		m.now = time.Now
	}
	if m.pause == nil {
		m.pause = wait
	}
	ended, _, unread := bridge.RunState(m.Log.Path()) // passIn returns the error, if there is something to deliver
	m.session = &session{
		Mirror: m, sawOpen: unread == nil && ended == "", delivered: loadSeen(m.Workspace, m.Log),
		outboxes: make(map[schema.AgentName]*outbox), reported: make(map[string]bool),
	}
	return m.session, nil
}

func (s *session) pass(ctx context.Context, report *Report) (err error) {
	if s.Direction != In {
		if failed := s.passOut(ctx, report); failed != nil {
			err = fmt.Errorf("mirror into %s: %w", s.Log.Path(), failed)
		}
	}
	if s.Direction != Out {
		if failed := s.passIn(ctx, report); failed != nil {
			err = errors.Join(err, fmt.Errorf("mirror into %s: %w", s.Workspace.Dir(), failed))
		}
	}
	return err
}

// passIn copies new records from the log to the mailboxes.
func (s *session) passIn(ctx context.Context, report *Report) error {
	known, err := hasPlace(ctx, s.Log, s.delivered)
	if err != nil {
		return err
	}
	if !known {
		report.warn("%s was replaced; all of it is read again", s.Log.Path())
		s.delivered = ""
	}
	end, err := s.Log.End(ctx)
	if err != nil || end == s.delivered {
		return err
	}
	ended, paired, err := bridge.RunState(s.Log.Path())
	if err != nil {
		return err
	}
	d := newDeliverer(s.Workspace, s.Log.Path(), report)
	d.leave = ended != "" && !s.Finished && !s.sawOpen
	d.notices = ended != "" || paired
	if err := d.run(ctx, s.Log.Records(ctx, s.delivered)); err != nil {
		return err
	}
	if report.LeftInLog > 0 {
		if !s.reported[s.Log.Path()] {
			s.reported[s.Log.Path()] = true
			report.warn("the run is finished (%s), so %s of it started no work; --finished delivers them as notices",
				ended, spelling.Plural(report.LeftInLog, "record"))
		}
		return nil // the place stays, for a mirror with Finished
	}
	s.delivered = end
	return saveSeen(s.Workspace, s.Log, end)
}

// Report says what a Mirror or Deliver did.
type Report struct {
	// Recorded counts the records that were appended to the log, and AlreadyRecorded those that it
	// had before.
	Recorded        int `json:"recorded"`
	AlreadyRecorded int `json:"already_recorded"`
	// NotRecorded counts the messages that were not recorded because the run of the log is finished.
	NotRecorded int `json:"not_recorded,omitempty"`
	// LeftOut counts the messages that do not belong in the log: those from before Mirror.Since, and those
	// derived from other logs.
	LeftOut int `json:"left_out,omitempty"`
	// Delivered counts the messages that were delivered, and AlreadyDelivered those that had been
	// delivered before.
	Delivered        int `json:"delivered"`
	AlreadyDelivered int `json:"already_delivered"`
	// LeftInLog counts the records of a finished run that were not delivered.
	LeftInLog int `json:"left_in_log,omitempty"`
	// DeadLetters are the new dead letters. AlreadyDead counts the records that had become dead letters
	// before.
	DeadLetters []DeadLetter `json:"dead_letters,omitempty"`
	AlreadyDead int          `json:"already_dead"`
	// Skipped are the lines of the log that are not records.
	Skipped []SkippedLine `json:"skipped,omitempty"`
	// Warnings has at most maxWarnings texts.
	Warnings []string `json:"warnings,omitempty"`
}

// DeadLetter is a record that could not be delivered.
type DeadLetter struct {
	// Line is the number of the record's line in the log.
	Line int `json:"line,omitempty"`
	// Path is the letter's file; a file with the reason is beside it.
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// SkippedLine is a line of a log that is not a record.
type SkippedLine struct {
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

// maxWarnings bounds the memory that a long log of odd records takes.
const maxWarnings = 1000

func (r *Report) quiet() bool {
	return r.Recorded+r.NotRecorded+r.LeftOut+r.Delivered+len(r.DeadLetters)+len(r.Skipped)+len(r.Warnings) == 0
}

func (r *Report) warn(format string, args ...any) {
	if len(r.Warnings) == maxWarnings-1 {
		format, args = "further warnings are left out", nil
	}
	if len(r.Warnings) == maxWarnings {
		return
	}
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// skip reports whether the error is a skipped line, and counts it.
func (r *Report) skip(err error) bool {
	var line *bridge.LineError
	if !errors.As(err, &line) {
		return false
	}
	r.Skipped = append(r.Skipped, SkippedLine{line.Line, line.Err.Error()})
	return true
}
