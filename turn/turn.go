// Package turn works an inbox: it gives an agent one turn for each message, in
// processing order, with retries, dead letters, answers and bounds.
//
// A message leaves the inbox only after its turn succeeded, or as a dead letter
// with a reason. What is done is first written to a journal, one line of JSON
// each, in state/turns/<agent>.jsonl of the workspace; whatever dies when, the
// next Runner goes on from there:
//
//   - Before a turn begins, the journal says so. A turn that never ended counts
//     as an attempt, so that a message that kills the machine is not tried for
//     ever. Only a turn that was stopped on purpose, or an agent that could not
//     be started, counts for nothing.
//   - A turn has succeeded when the journal holds that, together with the
//     answer to be sent. Then the answer is sent under an id that stays the
//     same however often it is tried, and only then the message is
//     acknowledged. So a message never has two successful turns, nor two
//     answers.
//   - A dead letter and the notice to its sender go the same way.
//   - What a killed Runner's agents left running is ended before the next one
//     begins, and a Runner whose lock or journal is taken away stops.
//
// # Which message is next
//
// The messages in the inbox are judged (try it, wait, pass it over, give it up,
// finish it), and those of them that there is something to do about are worked
// on in processing order. What is known flows one way: arrivals, outcomes, the
// passing of time and the facts of the journal go into the schedule, and work
// comes out; whoever works reports an outcome and writes facts. So an arrival
// costs the same with one message in the inbox as with a hundred thousand that
// wait. These rules hold between any two steps of the Runner's loop:
//
//   - The messages of a conversation wait in a lane, in processing order. A lane
//     is busy while one of its messages is worked on; or due, to be judged; or it
//     waits, because its first message was judged to. What comes behind a first
//     message that waits is not judged.
//   - Due lanes are judged in the processing order of their first messages, as
//     long as somebody is free. A message passed over (expired, or of a sender
//     who gets no turns here) leaves its lane, and keeps nobody waiting.
//   - A message whose last turn was lost with its runner has the next one
//     alone. Nothing else is begun from when it is that message's turn, in
//     processing order, until that turn is over: so a message that kills its
//     runner takes no other with it more than once.
//   - A judgement stands until something changes that it came from, and then the
//     lane is due again. That is: what is first in the lane; a fact about a
//     message of the conversation, or its state; for a message that a bound on
//     its sender holds, the sender's turns; for one that waits for the agent, when
//     the agent is to be started again; and time, which can be told beforehand:
//     the end of a wait, and when the message expires. A message passed over is
//     judged again only when it expires. When the clock is set, or the journal is
//     written anew, everything is.
//   - So nothing that could be worked on waits longer than it would if each
//     message were judged anew at each step. A test holds the two together.
package turn

import (
	"errors"
	"fmt"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Defaults of a Config.
const (
	DefaultMaxAttempts  = 3
	DefaultMaxTurns     = 20
	DefaultMaxPairTurns = 120
	DefaultTimeout      = 30 * time.Minute
	defaultFirstRetry   = time.Second
	defaultLastRetry    = 5 * time.Minute
)

// Unlimited is a bound that never trips.
const Unlimited = -1

// Config says how an inbox is worked. Agent and NewDriver are required; zero
// values of the rest mean the defaults.
type Config struct {
	// Agent is whose inbox it is.
	Agent schema.AgentName
	// NewDriver makes the agent for a conversation. The session is what the
	// agent's last turn in the conversation left for continuing it, or empty.
	NewDriver func(conversation schema.ConversationID, session string) agent.Driver
	// Input is what a turn is given to read.
	Input Input
	// Reply sends what a turn says as an answer, to messages that expect one.
	Reply bool
	// AllowFrom are the agents whose messages get turns; empty means all.
	// Messages of others stay in the inbox, but for notices of Postmaster.
	AllowFrom []schema.AgentName
	// MaxAttempts is how many turns a message gets before it becomes a dead
	// letter.
	MaxAttempts int
	// MaxTurns bounds the turns in one conversation, and MaxPairTurns those on
	// messages from one agent within an hour. What goes beyond waits in the
	// inbox; see Resume.
	MaxTurns     int
	MaxPairTurns int
	// Timeout is how long a turn may take.
	Timeout time.Duration
	// Parallel is how many conversations have turns side by side. Within a
	// conversation there is one turn at a time, in processing order.
	Parallel int
	// FirstRetry is how long a message waits after its first failed turn. The
	// time doubles with each further one, up to LastRetry, less a random part
	// of up to half of it.
	FirstRetry, LastRetry time.Duration
	// Once ends the run when nothing is left to do.
	Once bool
	// Observe is told what happens, one event at a time. It must not block for
	// long.
	Observe func(Event)
}

// Input says what a turn is given to read.
type Input string

// What a turn can be given to read.
const (
	// InputMessage is the message's file, byte for byte.
	InputMessage Input = "message"
	// InputBody is the body alone: its text, or YAML for a structured one.
	InputBody Input = "body"
)

func (c *Config) complete() error {
	if _, err := schema.ParseAgentName(string(c.Agent)); err != nil {
		return err
	}
	if c.Agent == Postmaster {
		return mailbox.ErrPostmaster
	}
	if c.NewDriver == nil {
		return errors.New("no driver is given")
	}
	if c.Input == "" {
		c.Input = InputMessage
	}
	if c.Input != InputMessage && c.Input != InputBody {
		return fmt.Errorf("input %q is neither %s nor %s", c.Input, InputMessage, InputBody)
	}
	for _, name := range c.AllowFrom {
		if _, err := schema.ParseAgentName(string(name)); err != nil {
			return fmt.Errorf("allowed sender: %w", err)
		}
	}
	if c.MaxAttempts < 0 || c.Parallel < 0 || c.Timeout < 0 || c.FirstRetry < 0 || c.LastRetry < 0 {
		return errors.New("attempts, parallel turns and times cannot be negative")
	}
	setDefault(&c.MaxAttempts, DefaultMaxAttempts)
	setDefault(&c.MaxTurns, DefaultMaxTurns)
	setDefault(&c.MaxPairTurns, DefaultMaxPairTurns)
	setDefault(&c.Timeout, DefaultTimeout)
	setDefault(&c.Parallel, 1)
	setDefault(&c.FirstRetry, defaultFirstRetry)
	setDefault(&c.LastRetry, max(defaultLastRetry, c.FirstRetry))
	return nil
}

func setDefault[Value comparable](value *Value, to Value) {
	var zero Value
	if *value == zero {
		*value = to
	}
}

// DeadLettersError says that a run with Once did what there was to do, and
// that some messages could not be handled.
type DeadLettersError struct {
	// Messages are the ids of the messages that became dead letters, and the
	// names of files that were none.
	Messages []string
}

// Error tells how many.
func (e *DeadLettersError) Error() string {
	if len(e.Messages) == 1 {
		return e.Messages[0] + " became a dead letter"
	}
	return fmt.Sprintf("%d messages became dead letters", len(e.Messages))
}

// InvalidFilesError says that at the end of a run with Once there were files in
// the inbox that are no messages. Somebody may be writing them still, so they
// become dead letters only when they have stayed so for a minute.
type InvalidFilesError struct {
	// Files are their names.
	Files []string
}

// Error names the file, or tells how many there are.
func (e *InvalidFilesError) Error() string {
	if len(e.Files) == 1 {
		return e.Files[0] + " in the inbox is no message"
	}
	return fmt.Sprintf("%d files in the inbox are no messages", len(e.Files))
}

// UnreadableFilesError says that at the end of a run with Once there were files
// in the inbox that could not be read.
type UnreadableFilesError struct {
	// Files are their names.
	Files []string
}

// Error names the file, or tells how many there are.
func (e *UnreadableFilesError) Error() string {
	if len(e.Files) == 1 {
		return e.Files[0] + " in the inbox could not be read"
	}
	return fmt.Sprintf("%d files in the inbox could not be read", len(e.Files))
}

// errTimeout is why a turn that takes too long is stopped.
var errTimeout = errors.New("the turn took too long")

// New prepares to work the inbox of an agent that the workspace knows.
func New(w *mailbox.Workspace, config Config) (*Runner, error) {
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("configuring the turns of %q: %w", config.Agent, err)
	}
	if err := w.CheckAgent(config.Agent); err != nil {
		return nil, err
	}
	return &Runner{workspace: w, config: config, now: time.Now, poll: time.Second, troubleRetry: 2 * time.Second, finish: make(chan struct{})}, nil
}
