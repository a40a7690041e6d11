package turn

import (
	"errors"
	"sync"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// An EventKind says what happened.
type EventKind string

// The events of a Runner.
const (
	// EventStarted is the start of a turn.
	EventStarted EventKind = "turn_started"
	// EventOutput is output of the agent during a turn.
	EventOutput EventKind = "output"
	// EventSucceeded and EventFailed end a turn. After a failure there is another attempt at
	// RetryAt, if it is set.
	EventSucceeded EventKind = "turn_succeeded"
	EventFailed    EventKind = "turn_failed"
	// EventInterrupted is a turn that was stopped and does not count.
	EventInterrupted EventKind = "turn_interrupted"
	// EventAnswered is an answer that was sent, with the id in Sent.
	EventAnswered EventKind = "answered"
	// EventAcknowledged is a handled message that left the inbox.
	EventAcknowledged EventKind = "acknowledged"
	// EventDuplicate is a copy of a handled message. It is acknowledged without another turn.
	EventDuplicate EventKind = "duplicate"
	// EventDeadLetter is a message, or a file that is not a message, that was given up.
	EventDeadLetter EventKind = "dead_letter"
	// EventBounced is a notice about a dead letter, or that a turn ended without an answer, that was sent to the sender.
	EventBounced EventKind = "bounced"
	// EventUnsendable is an answer or notice that cannot be sent.
	EventUnsendable EventKind = "unsendable"
	// EventHeld and EventExpired are messages that get no turn and stay.
	EventHeld    EventKind = "held"
	EventExpired EventKind = "expired"
	// EventClaimedElsewhere is a message that another machine works on. It waits here.
	EventClaimedElsewhere EventKind = "claimed_elsewhere"
	// EventBound is a conversation, or a pair of agents, with too many turns. Both sides get the
	// notice in Sent.
	EventBound EventKind = "bound"
	// EventUnavailable is an agent that cannot be started, or a remote that does not answer. It concerns no
	// single message.
	EventUnavailable EventKind = "unavailable"
	// EventWarning is something that a person may want to know, but that needs no action.
	EventWarning EventKind = "warning"
	// EventProblem is a failure of the workspace, such as a full disk. The Runner tries again.
	EventProblem EventKind = "problem"
)

// Event is a step of a Runner. Fields that do not apply to its kind are empty. Times are whole seconds in UTC.
type Event struct {
	Kind  EventKind        `json:"event"`
	At    time.Time        `json:"at"`
	Agent schema.AgentName `json:"agent"`
	// Envelope describes the message, without a fingerprint, or names the file that is not a message.
	track.Envelope
	// Machine is the one that has the message.
	Machine string `json:"machine,omitempty"`
	// Path is the path of a dead letter.
	Path string `json:"path,omitempty"`
	// End is how a turn ended.
	End End `json:"end,omitempty"`
	// Attempt is the number of the turn on the message, from 1.
	Attempt int `json:"attempt,omitempty"`
	// Reason is a sentence for people, and Err the error behind it, if there is one.
	Reason string `json:"reason,omitempty"`
	Err    error  `json:"-"`
	// RetryAt is when the Runner tries again.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Output is the agent's output.
	Output *agent.Event `json:"output,omitempty"`
	// Sent is the message that was sent.
	Sent     schema.ID     `json:"sent,omitempty"`
	Duration time.Duration `json:"duration_ns,omitempty"`
	Usage    agent.Usage   `json:"usage,omitzero"`
	// Refused lists the actions that were refused to the agent during the turn.
	Refused []agent.Refusal `json:"refused,omitempty"`
	// LastLine is the last line that the agent of a failed turn printed. The reason ends with it.
	LastLine string `json:"last_line,omitempty"`
}

// events publishes what a Runner does.
type events struct {
	config *Config
	now    func() time.Time
	// mu guards Observe and problems, which counts equal problems.
	mu       sync.Mutex
	problems map[string]int
	// lost gets an error that matches track.ErrStateLost.
	lost chan error
}

func (s *events) publish(e Event) {
	if s.config.Observe == nil {
		return
	}
	e.At, e.RetryAt = s.now().UTC().Truncate(time.Second), e.RetryAt.UTC().Truncate(time.Second)
	e.Agent = s.config.Agent
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Kind == EventProblem {
		same := e.File + e.Reason
		if s.problems[same]++; !isWorthSaying(s.problems[same]) {
			return
		}
	}
	s.config.Observe(e)
}

// isWorthSaying reports whether to report something that happens for the nth time: it is true for powers of two.
func isWorthSaying(n int) bool { return n&(n-1) == 0 }

// about makes an event about a message, with the number of its attempts.
func (k EventKind) about(rec *track.Record) Event {
	e := k.of(&rec.Envelope)
	e.Attempt = rec.Attempts
	return e
}

// of makes an event about a message.
func (k EventKind) of(m *track.Envelope) Event {
	e := Event{Kind: k, Envelope: *m}
	e.Fingerprint = ""
	return e
}

// say publishes an event with its reason.
func (s *events) say(e Event, reason string) {
	e.Reason = reason
	s.publish(e)
}

// problem publishes a failure of the workspace. The given event may name the message or file. An error that
// matches track.ErrStateLost is not published: it ends the run, and Run returns it.
func (s *events) problem(about Event, err error) {
	if errors.Is(err, track.ErrStateLost) {
		select {
		case s.lost <- err:
		default: // it is known
		}
		return
	}
	about.Kind, about.Reason, about.Err = EventProblem, err.Error(), err
	s.publish(about)
}
