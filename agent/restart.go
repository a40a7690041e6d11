package agent

import (
	"context"
	"errors"
	"strings"
)

// afterDeath precedes a prompt that the program had taken when it died.
const afterDeath = "[The program that ran you ended unexpectedly in the middle of the request below, and was started again. " +
	"Some of the work may be done already: look at the state of things before you do any of it again.]\n\n"

// RunTurn runs a turn of a driver that was started. If the agent's program dies in the middle of it
// with a *DiedError, RunTurn runs the turn once more: the driver starts the program again in the
// same session. The result is that of the last try, with the time and the usage of both.
func RunTurn(ctx context.Context, driver Driver, request Request, observe func(Event)) (Result, error) {
	first, err := driver.Turn(ctx, request, observe)
	var died *DiedError
	if !errors.As(err, &died) || ctx.Err() != nil {
		return first, err
	}
	if died.accepted {
		request.Prompt = afterDeath + request.Prompt
	}
	result, err := driver.Turn(ctx, request, observe)
	result.Duration += first.Duration
	result.Usage = result.Usage.plus(first.Usage)
	result.Tail = joinTails(first.Tail, result.Tail)
	return result, err
}

// joinTails returns both texts, or the end of each if they are too long together.
func joinTails(first, second string) string {
	if len(first)+len(second) <= maxTail {
		return first + second
	}
	end := func(text string) string {
		return strings.ToValidUTF8(text[max(0, len(text)-maxTail/2):], "")
	}
	return end(first) + end(second)
}
