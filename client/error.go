package client

import (
	"errors"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/validate"
)

// An Error is an error of this package as programs and people see it: docs/exit-status.md lists the codes.
type Error struct {
	// Code stays the same from version to version.
	Code string
	// Hint says what to do, if that is known.
	Hint string
	// Diagnostics are the problems of an invalid message.
	Diagnostics validate.Diagnostics
	Err         error
}

// Explain returns what an error means, nil for nil.
func Explain(err error) *Error {
	if err == nil {
		return nil
	}
	f := failure.Of(err)
	e := &Error{Code: f.Code, Hint: f.Hint, Err: err}
	if invalid, ok := errors.AsType[*validate.InvalidError](err); ok {
		e.Diagnostics = invalid.Diagnostics
	}
	return e
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// ErrFinalQuestion reports a question that shall be the final answer.
var ErrFinalQuestion = failure.New(failure.CodeUsage, "a question is never the final answer", "")

// ErrNoReason reports an answer that declines without a text.
var ErrNoReason = failure.New("invalid_message", "body: there is no reason", "say why: the sender decides by it what to do")

func (e *NotAskedError) Explain() (code, hint string) {
	return failure.CodeUsage, "oacp ack " + e.Message.ID.Short() + " acknowledges it"
}

func (e *RecipientsError) Explain() (code, hint string) { return failure.CodeUsage, "" }

func (e *FencedError) Explain() (code, hint string) {
	return "claim_lost", "leave the message to that machine; oacp status shows how far it gets"
}

func (e *NotAcknowledgedError) Explain() (code, hint string) {
	return "not_acknowledged", "do not answer again; oacp ack " + e.Message.Short() + " acknowledges the message"
}

func (e *NotSenderError) Explain() (code, hint string) {
	return "", "oacp list --box outbox --agent " + string(e.Agent) + " lists what " + string(e.Agent) + " sent"
}
