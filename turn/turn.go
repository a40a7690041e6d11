// Package turn works an inbox: it runs an agent once for each message, in processing order, with
// retries, dead letters, answers and bounds.
//
// A message leaves the inbox only after its turn succeeds, or as a dead letter with a reason. The
// Runner writes each step to a journal of JSON lines, state/turns/<agent>.jsonl of the workspace. If
// a process or the machine dies, the next Runner continues from there:
//
//   - A turn is recorded before it begins. A turn that never ended counts as an attempt, so a
//     message that crashes the machine is not retried forever. Turns that were stopped on purpose
//     do not count, nor do those whose agent could not be started.
//   - A turn has succeeded once that is recorded, together with the answer. Then the Runner sends
//     the answer, always with the same id, and then acknowledges the message. So a message never
//     has two successful turns or two answers.
//   - Dead letters, and the bounces to their senders, follow the same steps.
//   - Before the next turn, a Runner kills the processes that turns of a killed Runner left behind.
//     A Runner stops if its lock or journal is removed or replaced.
//
// runner.go has the loop, dispatch.go starts work and handles its outcome, attempt.go runs a turn,
// steer.go lets urgent messages join it, and conclude.go completes it.
//
// # Scheduling
//
// For each message there is a decision: try it, wait, skip it, give it up, or finish what was
// begun. The schedule makes a decision again only if it may have changed, so that the cost of an
// arrival does not depend on the number of waiting messages:
//
//   - The messages of a conversation form a lane, in processing order. A lane is busy while one of
//     its messages is in work, ready if a decision is due, or waiting. Only the first message of a
//     lane gets a decision: if it waits, so do the messages behind it.
//   - While there is capacity, the ready lanes get decisions in the processing order of their first
//     messages. A skipped message leaves its lane and does not block others: it is expired, a notice,
//     from a sender that gets no turns here, or for a person to decide.
//   - A lane waits until the end of the delay or the expiry of its first message. It becomes ready
//     earlier if it gets another first message. All lanes, and the skipped messages, become ready
//     if a turn was interrupted, a person resumed a conversation, the keys that the agent trusts
//     changed, the agent did not start, or the clock was set back.
//   - A message whose last turn was lost with its runner runs alone: nothing else begins until its
//     turn is over. So a message that crashes its runner interrupts other messages at most once.
//
// A test compares the schedule with a model that makes all decisions at each step.
package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/exclusive"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// Defaults of a Config.
const (
	DefaultMaxAttempts  = 3
	DefaultMaxTurns     = 20
	DefaultMaxPairTurns = 120
	DefaultMaxHops      = 12
	DefaultTimeout      = 30 * time.Minute
	defaultFirstRetry   = time.Second
	defaultLastRetry    = 5 * time.Minute
)

// Unlimited is a bound that never trips.
const Unlimited = -1

// Config configures a Runner. Agent and NewDriver are required; zero values of other fields mean
// the defaults.
type Config struct {
	// Agent is the agent whose inbox the Runner works.
	Agent schema.AgentName
	// NewDriver makes the agent for a conversation. The session continues the conversation's last
	// turn; it is empty if there was none.
	NewDriver func(conversation schema.ConversationID, session string) agent.Driver
	// Input is what a turn reads.
	Input Input
	// ForModel says that the driver gives its input to a model. It then begins with a line that says where it is from and
	// what the last text of the turn is used for, and is escaped.
	ForModel bool
	// Reply sends the output of a turn as the answer if the message expects one.
	Reply bool
	// Autonomy says whether messages get turns, or all wait for a person.
	Autonomy project.Autonomy
	// Contract, if set, checks an answer before it is sent. A permanent error means that the schemas of the
	// workspace forbid the answer, which is then not sent. After other errors the Runner tries again.
	Contract func(context.Context, *schema.Message) (permanent bool, err error)
	// AllowFrom are the agents whose messages get turns; empty means all. Other messages stay in
	// the inbox. The workspace has to know them.
	AllowFrom []schema.AgentName
	// MaxAttempts is how many turns a message gets before it becomes a dead letter.
	MaxAttempts int
	// MaxTurns bounds the turns in one conversation, and MaxPairTurns those on messages from one
	// agent within an hour. Further messages wait in the inbox; see track.Resume.
	MaxTurns     int
	MaxPairTurns int
	// MaxHops bounds the turns in a chain, in which each turn but the first is on a message that the turn before sent,
	// whatever its agent and conversation. Messages after the last turn wait in the inbox.
	MaxHops int
	// Steer lets a P0 message join the running turn of its conversation, if the driver is an agent.Steerer. It does not
	// go with Claims.
	Steer bool
	// Timeout is how long a turn may take.
	Timeout time.Duration
	// Parallel is how many conversations have turns at the same time. A conversation has one turn
	// at a time, in processing order.
	Parallel int
	// Claims, if set, let several machines work the inbox.
	Claims Claims
	// Once ends the run when nothing is left to do on this machine.
	Once bool
	// Ready, if set, is called once when the Runner has locked the inbox and started the agent.
	Ready func()
	// Observe gets the events, one at a time. It must not block for long.
	Observe func(Event)

	// firstRetry is how long a message waits after its first failed turn. The time doubles with
	// each further one, up to lastRetry, less a random part of up to half of it. LookAgain is how often it is looked whether
	// another program still has a message, and askAgain whether the answer to a question back can still come; one that arrives
	// is seen at once. Tests change them.
	firstRetry, lastRetry, lookAgain, askAgain time.Duration
}

// Input is what a turn reads.
type Input string

// What a turn can read.
const (
	// InputMessage is the message's file, byte for byte.
	InputMessage Input = "message"
	// InputBody is the body: its text, or YAML for a structured one.
	InputBody Input = "body"
)

func (c *Config) complete() error {
	if c.Agent == mailbox.Postmaster {
		return mailbox.ErrPostmaster
	}
	if c.NewDriver == nil {
		return errors.New("no driver is given")
	}
	c.Input = cmp.Or(c.Input, InputMessage)
	if c.Input != InputMessage && c.Input != InputBody {
		return fmt.Errorf("input %q is neither %s nor %s", c.Input, InputMessage, InputBody)
	}
	if c.Autonomy != "" {
		if _, err := project.ParseAutonomy(string(c.Autonomy)); err != nil {
			return err
		}
	}
	if c.MaxAttempts < 0 || c.Parallel < 0 || c.Timeout < 0 {
		return errors.New("attempts, parallel turns and the timeout cannot be negative")
	}
	if c.Steer && c.Claims != nil {
		return errors.New("with claims, no message joins a running turn: use steer without them")
	}
	c.MaxAttempts = cmp.Or(c.MaxAttempts, DefaultMaxAttempts)
	c.MaxTurns = cmp.Or(c.MaxTurns, DefaultMaxTurns)
	c.MaxPairTurns = cmp.Or(c.MaxPairTurns, DefaultMaxPairTurns)
	c.MaxHops = cmp.Or(c.MaxHops, DefaultMaxHops)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Parallel = cmp.Or(c.Parallel, 1)
	c.firstRetry = cmp.Or(c.firstRetry, defaultFirstRetry)
	c.lookAgain, c.askAgain = cmp.Or(c.lookAgain, time.Second), cmp.Or(c.askAgain, 10*time.Second)
	c.lastRetry = cmp.Or(c.lastRetry, max(defaultLastRetry, c.firstRetry))
	return nil
}

// BusyError reports that another Runner works the inbox.
type BusyError = exclusive.HeldError

// DeadLettersError is returned if a run with Once could not handle some messages.
type DeadLettersError struct {
	Agent schema.AgentName
	// Messages are the ids of the dead letters, and the names of files that are not messages.
	Messages []string
}

func (e *DeadLettersError) Error() string {
	if len(e.Messages) == 1 {
		return e.Messages[0] + " became a dead letter"
	}
	return fmt.Sprintf("%d messages became dead letters", len(e.Messages))
}

func (e *DeadLettersError) Explain() (code, hint string) {
	return "dead_letters", fmt.Sprintf("oacp read %s shows the reason, oacp restore %[1]s --agent %s tries it again", e.Messages[0], e.Agent)
}

// errTimeout stops a turn that takes too long.
var errTimeout = errors.New("the turn took too long")

// New prepares to work the inbox of an agent that the workspace knows.
func New(w *mailbox.Workspace, config Config) (*Runner, error) {
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("configuring the turns of %q: %w", config.Agent, err)
	}
	if err := w.CheckAgent(config.Agent); err != nil {
		return nil, err
	}
	for _, name := range config.AllowFrom {
		if err := w.CheckAgent(name); err != nil {
			return nil, fmt.Errorf("allowed sender: %w", err)
		}
	}
	return &Runner{
		workspace: w, config: config, now: time.Now,
		poll: time.Second, retryDelay: 2 * time.Second, patience: 2 * time.Second, finish: make(chan struct{}),
	}, nil
}
