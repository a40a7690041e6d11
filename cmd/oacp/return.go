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
agent gets it, even if another process has it. Use it after you have read the mail of an
agent, or in a process that cannot do the work. The sender still cannot recall the
message, because somebody may have seen it.

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
		c.Confirm("OK: %s is new to %s again\n", visible.Line(m.ID.Short()), acts.Agent())
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
