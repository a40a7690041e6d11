// Package agent runs turns of an agent. A turn takes a prompt, and returns a stream of events and a
// result. Driver is the interface to all kinds of agents.
package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
)

// Driver runs turns of one agent: Start, any number of Turns one after the other, Stop.
type Driver interface {
	// Start makes sure that turns can run, and starts what outlives a turn. Its error matches
	// ErrUnavailable if something is missing, so that the message is not the cause.
	Start(ctx context.Context) error
	// Turn runs one turn. It passes events to observe, which may be nil, in order and before it
	// returns; observe must not call methods of the driver other than SessionID. The result says
	// how far the turn got, even if there is an error.
	//
	// If the context ends, Turn stops the agent with everything it started and returns the context's
	// cause. A later turn continues the session.
	Turn(ctx context.Context, request Request, observe func(Event)) (Result, error)
	// SessionID returns what a later driver needs to continue the agent's session, or "" if the
	// agent has no sessions or has not begun one. An agent may begin one with its first event.
	SessionID() string
	// Stop ends what Start started and waits for it. It may be called more than once.
	Stop(ctx context.Context) error
}

// A Steerer is a Driver that can give its agent more text during a turn.
type Steerer interface {
	// Steer adds a text to the running turn, which ends only after the agent has taken it. An error means that the
	// agent does not get the text, or does not say that it did. Another goroutine than that of Turn calls it.
	Steer(ctx context.Context, text string) error
}

// ErrUnavailable is returned if the agent cannot be started or reached, or if its model's service
// fails. No message is to blame, and a later turn may succeed.
var ErrUnavailable = failure.New("agent_unavailable", "the agent cannot be started", "")

// errNotStarted is the error of a turn without a program to run it.
var errNotStarted = fmt.Errorf("%w: the driver was not started, or was stopped", ErrUnavailable)

// Request is the input of a turn.
type Request struct {
	// Prompt is the text of the turn. The exec driver writes it to the command's standard input.
	Prompt string
	// Images are content blocks that stand before the prompt; see Kind.
	Images []json.RawMessage
	// Env are variables of the form NAME=value that describe the turn. They reach programs that are
	// started for it.
	Env []string
}

// Event is one piece of output of an agent during a turn.
type Event struct {
	// Raw is the event as the agent sent it, byte for byte. It is nil for plain output.
	Raw json.RawMessage `json:"raw,omitempty"`
	// Text is the readable part of the event, if it has one.
	Text string `json:"text,omitempty"`
	// Error reports that Text came from the agent's error output.
	Error bool `json:"error,omitempty"`
	// Acts are what the agent does besides talking. An event may have Acts and no Text.
	Acts []Act `json:"acts,omitempty"`
}

// Result is the outcome of a turn.
type Result struct {
	// Text is the agent's answer, at most MaxText bytes of it.
	Text string
	// Truncated reports that the answer was longer.
	Truncated bool
	// Tail is the end of everything that the agent printed, for people who investigate a failure.
	Tail string
	// LastLine is the last line that is not blank: of the error output if it has one, else of the
	// output. A long line is cut.
	LastLine string
	// SessionID continues the agent's session; see Driver.SessionID.
	SessionID string
	// Duration is how long the turn took.
	Duration time.Duration
	// Usage is the usage that the agent reported for the turn.
	Usage Usage
	// Refused lists the actions that the agent reported as not permitted, in the order of the first
	// refusals.
	Refused []Refusal
}

// Explain returns the text of an error of the turn, and LastLine if the text does not contain it.
func (r *Result) Explain(err error) string {
	text := err.Error()
	if strings.Contains(text, r.LastLine) {
		return text
	}
	return text + ": " + r.LastLine
}

// MaxText bounds an answer, in bytes.
const MaxText = 1 << 20

// Usage is the usage of a turn. A zero field was not reported.
type Usage struct {
	// Turns is how often the model answered.
	Turns        int64   `json:"turns,omitempty"`
	InputTokens  int64   `json:"input_tokens,omitempty"`
	OutputTokens int64   `json:"output_tokens,omitempty"`
	CostUSD      float64 `json:"cost_usd,omitempty"`
}

// Plus returns the sum of u and other.
func (u Usage) Plus(other Usage) Usage {
	return Usage{
		Turns:        u.Turns + other.Turns,
		InputTokens:  u.InputTokens + other.InputTokens,
		OutputTokens: u.OutputTokens + other.OutputTokens,
		CostUSD:      u.CostUSD + other.CostUSD,
	}
}

// afterDeath precedes a prompt that the program had taken when it died.
const afterDeath = "[The program that ran you ended unexpectedly in the middle of the request below, and was started again. " +
	"Some of the work may be done already: look at the state of things before you do any of it again.]\n\n"

// RunTurn runs a turn of a driver that was started. If the turn fails with a *DiedError, RunTurn runs
// it once more, and the driver starts the program again in the same session. Before that, RunTurn
// calls restarting, unless it is nil, with the result and the error of the first try, and gives up if
// it returns an error. The result is that of the last try, with the duration, the usage, the refusals
// and the output of both.
func RunTurn(ctx context.Context, driver Driver, request Request, observe func(Event), restarting func(Result, error) error) (Result, error) {
	first, err := driver.Turn(ctx, request, observe)
	var died *DiedError
	if !errors.As(err, &died) || ctx.Err() != nil {
		return first, err
	}
	if restarting != nil {
		if err := restarting(first, err); err != nil {
			return first, err
		}
	}
	if died.accepted {
		request.Prompt = afterDeath + request.Prompt
	}
	request.Prompt += died.added
	result, err := driver.Turn(ctx, request, observe)
	result.Duration += first.Duration
	result.Usage = result.Usage.Plus(first.Usage)
	result.Refused = mergeRefusals(first.Refused, result.Refused)
	result.LastLine = cmp.Or(result.LastLine, first.LastLine)
	result.Tail = joinTails(first.Tail, result.Tail)
	return result, err
}

// joinTails returns the end of both texts together.
func joinTails(first, second string) string {
	var both ending
	both.write([]byte(first))
	both.write([]byte(second))
	return both.String()
}
