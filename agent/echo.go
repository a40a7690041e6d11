package agent

import (
	"context"
	"time"
)

// Echo is an agent that answers each prompt with the prompt. It needs no program and no model, so
// anybody can follow a message through a turn and back.
type Echo struct{}

// NewEcho returns the driver.
func NewEcho() *Echo { return &Echo{} }

// Start does nothing.
func (*Echo) Start(context.Context) error { return nil }

// Turn answers with the prompt.
func (*Echo) Turn(ctx context.Context, request Request, observe func(Event)) (Result, error) {
	begin := time.Now()
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	out := newOutput(observe)
	out.add(request.Prompt)
	result := out.result()
	result.Duration = time.Since(begin)
	return result, nil
}

// Interrupt does nothing: a turn is over at once.
func (*Echo) Interrupt(context.Context) error { return nil }

// SessionID returns "": an echo remembers nothing.
func (*Echo) SessionID() string { return "" }

// Stop does nothing.
func (*Echo) Stop(context.Context) error { return nil }
