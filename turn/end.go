package turn

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// An End is how a turn ends.
type End string

// The ends of a turn; endings says what they mean.
const (
	EndAnswered    End = "answered"
	EndDone        End = "done"
	EndAsked       End = "asked"
	EndSilent      End = "silent"
	EndDeclined    End = "declined"
	EndTooLong     End = "too long"
	EndLimited     End = "limited"
	EndUnavailable End = "unavailable"
	EndFailed      End = "failed"
	EndStopped     End = "stopped"
)

// A consequence is what follows for the message.
type consequence string

const (
	thenDone   consequence = "done"
	thenHeld   consequence = "held until the answer comes, or none can come; then a turn on it again, with the answer"
	thenFresh  consequence = "once more in a new session, whose prompt says so; then a dead letter"
	thenUntil  consequence = "no turn starts before that time; a new runner tries at once"
	thenPause  consequence = "no turn starts for 1 s, 2 s, 4 s … up to 5 min"
	thenRetry  consequence = "again after 1 s, 2 s, 4 s … up to 5 min; after the last attempt a dead letter"
	thenStands consequence = "in the inbox; after `oacp stop` held"
)

// A notice says what the sender of the message gets.
type notice string

const (
	tellAnswer   notice = "the answer"
	tellNothing  notice = "nothing"
	tellQuestion notice = "the question"
	tellSilence  notice = "a notice that the turn ended without an answer"
	tellReason   notice = "the reason, if the message is a request"
	tellBounce   notice = "a bounce with the dead letter"
)

// An ending is all that the end of a turn decides.
type ending struct {
	end  End
	when string
	// counts says that the turn is one of the attempts that a message has, and goesOn that the next turn of the conversation
	// continues the session of the agent.
	counts, goesOn bool
	then           consequence
	tell           notice
}

// endings is the table of the ends of a turn, for all drivers. docs/turns.md prints it.
var endings = []ending{
	{EndAnswered, "the agent answered by a command or a tool, even if the turn failed after that, or its last text is the answer", false, true, thenDone, tellAnswer},
	{EndDone, "it ended well, and its last text is sent to nobody", false, true, thenDone, tellNothing},
	{EndAsked, "the agent asked the sender of a request back, and has not answered", false, true, thenHeld, tellQuestion},
	{EndSilent, "its last text is the answer, and there is none", false, true, thenDone, tellSilence},
	{EndDeclined, "the model, or a policy of its service, refuses the message", false, true, thenDone, tellReason},
	{EndTooLong, "the session has no room for more, or its limit of output, of turns or of cost is reached", true, false, thenFresh, tellBounce},
	{EndLimited, "a usage limit is reached, and the program says when it ends", false, true, thenUntil, tellNothing},
	{EndUnavailable, "every message would fail in the same way: no login, no credit, no connection", false, true, thenPause, tellNothing},
	{EndFailed, "anything else: an exit status, a time limit, a runner that died", true, true, thenRetry, tellBounce},
	{EndStopped, "`oacp stop`, the end of the runner, or a claim that is lost", false, true, thenStands, tellNothing},
}

// ending returns the row of the table.
func (e End) ending() *ending {
	return &endings[slices.IndexFunc(endings, func(row ending) bool { return row.end == e })]
}

// endOf returns how a turn has ended. The slot is that of the message, empty if that is not known.
func (k *worker) endOf(ctx context.Context, m *schema.Message, rec *track.Record, slot track.Slot, result *agent.Result, err error) End {
	service, _ := errors.AsType[*agent.APIError](err)
	sendsText := k.config.Reply && m.Type.ExpectsAnswer()
	switch {
	case err != nil && ctx.Err() != nil, errors.Is(err, gitmail.ErrClaimLost):
		return EndStopped
	case slot.Answer != nil:
		return EndAnswered
	case err == nil && len(slot.Asked) > 0, isNew(slot.Asked, rec):
		return EndAsked
	case err == nil && !sendsText:
		return EndDone
	case err == nil && strings.TrimSpace(result.Text) == "":
		return EndSilent
	case err == nil:
		return EndAnswered
	case errors.Is(err, agent.ErrUnavailable) && service != nil && !service.Until.IsZero():
		return EndLimited
	case errors.Is(err, agent.ErrUnavailable):
		return EndUnavailable
	case service != nil && service.Kind == agent.TooLong:
		return EndTooLong
	case service != nil && service.Kind == agent.Declined:
		return EndDeclined
	}
	return EndFailed
}
