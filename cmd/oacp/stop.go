package main

import (
	"cmp"
	"errors"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

func newStopCommand(s *command.Streams) *cli.Command {
	c := newCall(s)
	return &cli.Command{
		Name:      "stop",
		Category:  command.CategoryTurns,
		Usage:     "end the turn on a message",
		ArgsUsage: "ID",
		Description: `stop makes oacp run end its turn on a message, together with the agent and what the agent
started, and waits until it has. Turns on other messages go on. The message stays in the
inbox as held and is not tried again: oacp restore gives it another turn.

If no turn works on the message, stop fails. If the turn ends by itself before the
runner stops it, stop says so, and the exit status is 1. stop reaches only runners on
this machine.

EXAMPLE:
   oacp stop ID`,
		Flags:  c.flagsWith(c.agentFlag("only the turn of `AGENT`, a recipient")),
		Action: c.inWorkspace(1, c.stop),
	}
}

// stoppedJSON is the answer of stop.
type stoppedJSON struct {
	MessageID schema.ID        `json:"message_id"`
	Turns     []track.Progress `json:"turns"`
}

func (c *call) stop(w *mailbox.Workspace) error {
	id, err := c.only(failure.Usagef("which message? needs an id").WithHint("oacp status lists the turns"))
	if err != nil {
		return err
	}
	by, err := c.actsFor(client.Acting(w, "", c.Caller()))
	if err != nil && !errors.Is(err, project.ErrNoSender) {
		return err
	}
	defer c.catchSignals()()
	turns, err := track.Stop(c.ctx, w, id, c.agent, cmp.Or(string(by), "a person"))
	if err != nil {
		return err
	}
	err = c.answer(stoppedJSON{turns[0].ID, turns}, func() {
		for _, p := range turns {
			if name := visible.Line(p.ID.Short()); p.Stage == track.StageHeld {
				c.Confirm("OK: the turn of %s on %s is stopped; oacp restore %[2]s gives it another one\n", p.Agent, name)
			} else {
				c.Confirm("the turn of %s on %s ended before it could be stopped: it is %s\n", p.Agent, name, p.Stage)
			}
		}
	})
	if err == nil && slices.ContainsFunc(turns, func(p track.Progress) bool { return p.Stage != track.StageHeld }) {
		err = failure.ErrReported
	}
	return err
}
