// Package agent runs turns of an agent: one prompt in, a stream of events and a result out, through
// one small interface with a driver for each way of reaching an agent.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Driver is one agent that can be given turns. A driver runs one turn at a time; Interrupt may be
// called from another goroutine meanwhile, everything else may not. The order is Start, any number
// of Turns, Stop.
type Driver interface {
	// Start makes sure that turns can be run and starts what lives longer than one. It must find
	// what is missing: an error matching ErrUnavailable says that no turn was begun and that no
	// message is to blame.
	Start(ctx context.Context) error
	// Turn runs one turn. Events are handed to observe, which may be nil, in order and before Turn
	// returns; observe must not call the driver, but for SessionID. The result is filled in as far
	// as the turn came, also when there is an error. Cancelling the context stops the agent with
	// everything it started, and then returns the context's cause.
	Turn(ctx context.Context, request Request, observe func(Event)) (Result, error)
	// Interrupt asks the running turn to end early; Turn then returns ErrInterrupted. Without a
	// running turn it does nothing.
	Interrupt(ctx context.Context) error
	// SessionID returns what a later driver needs to continue the agent's session, or "" where
	// there is no such thing or none was begun yet. An agent's first event may be the one that
	// begins it.
	SessionID() string
	// Stop ends what Start started and waits for it. It may be called at any time and more than
	// once.
	Stop(ctx context.Context) error
}

// Errors that drivers wrap.
var (
	// ErrUnavailable says that the agent cannot be reached at all: a command that is missing or not
	// executable, a socket nobody listens on.
	ErrUnavailable = errors.New("the agent cannot be started")
	// ErrInterrupted says that Interrupt ended the turn.
	ErrInterrupted = errors.New("the turn was interrupted")
)

// Request is what an agent is given for a turn.
type Request struct {
	// Prompt is the text of the turn. The exec driver writes it to the command's standard input.
	Prompt string
	// Env are variables of the form NAME=value that describe the turn, added to the environment of
	// a process that is started for it.
	Env []string
}

// Event is something that an agent showed during a turn.
type Event struct {
	// Raw is the driver's own event, byte for byte as the agent sent it. It is nil for plain
	// output.
	Raw json.RawMessage `json:"raw,omitempty"`
	// Text is what a person following the turn would read of it, if anything.
	Text string `json:"text,omitempty"`
	// Error reports that Text came from the agent's error output.
	Error bool `json:"error,omitempty"`
}

// Result is what a turn came to.
type Result struct {
	// Text is the agent's answer, at most MaxText bytes of it.
	Text string
	// Truncated reports that the answer was longer.
	Truncated bool
	// Tail is the end of everything the agent printed, for people who look into a failure.
	Tail string
	// SessionID continues the agent's session; see Driver.SessionID.
	SessionID string
	// Duration is how long the turn took.
	Duration time.Duration
	// Usage is what the turn used up, as far as the agent tells.
	Usage Usage
}

// MaxText is the most that is kept of an answer, in bytes.
const MaxText = 1 << 20

// Usage is what a turn used up. Zero means that the agent did not tell.
type Usage struct {
	InputTokens  int64   `json:"input_tokens,omitempty"`
	OutputTokens int64   `json:"output_tokens,omitempty"`
	CostUSD      float64 `json:"cost_usd,omitempty"`
}
