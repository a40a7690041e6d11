package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/turn/track"
)

func newReturnCommand(s *command.Streams) *cli.Command {
	c := newCall(s)
	return &cli.Command{
		Name:      "return",
		Category:  command.CategoryMessages,
		Usage:     "leave a message to others",
		ArgsUsage: "ID",
		Description: `return makes a pending message new again: the next oacp next, session or turn of the
agent gets it, whoever was given it before. So a person who has read the mail of an agent
leaves it to the agent, and a process that cannot do the work to another one. The sender
still cannot recall the message: it may have been seen.

EXAMPLE:
   oacp return ID --agent codex`,
		Flags:  c.flagsWith(c.agentFlag("use the inbox of `AGENT` (default: $OACP_AGENT)")),
		Action: c.inWorkspace(1, c.returnMessage),
	}
}

func (c *call) returnMessage(w *mailbox.Workspace) error {
	id, err := c.only(errNoID())
	if err != nil {
		return err
	}
	acts, err := c.as(c.agent)
	if err != nil {
		return err
	}
	m, err := acts.ReturnMessage(c.ctx, id)
	if err != nil {
		return err
	}
	c.acting = "" // the agent knows that this one is new
	return c.answer(map[string]any{"returned": m.ID, "agent": acts.Agent()}, func() {
		c.printf("OK: %s is new to %s again\n", visible.Line(m.ID.Short()), acts.Agent())
	})
}

// holderText names who has a message.
func holderText(h track.Holder) string {
	switch {
	case h.Session != "":
		return visible.Line(h.Program) + " session " + visible.Line(shortSession(h.Session))
	case h.Process.PID > 0:
		return fmt.Sprintf("process %d", h.Process.PID)
	}
	return "a person"
}
