package main

import (
	"errors"
	"fmt"

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

// A workingCall is a call of working.
type workingCall struct {
	*call
	done bool
}

func newWorkingCommand(s *command.Streams) *cli.Command {
	c := &workingCall{call: newCall(s)}
	return &cli.Command{
		Name:      "working",
		Category:  command.CategoryMessages,
		Usage:     "say how far you are",
		ArgsUsage: "ID [TEXT]",
		Description: `working tells the sender of a pending message that this agent works on it. TEXT is one
line of at most 200 characters; saying it again replaces it. All views show it. It also
sets status, current_task and updated_at in the agent's status.yaml.

--done says that the agent works on no message any more. It acknowledges none.

EXAMPLES:
   oacp working ID "tests pass, now the docs"
   oacp working --done`,
		Flags: c.flagsWith(
			c.agentFlag("say it as `AGENT` (default: $OACP_AGENT)"),
			&cli.BoolFlag{Name: "done", Usage: "say that the agent is finished", Destination: &c.done}),
		Action: c.inWorkspace(2, c.run),
	}
}

// workingJSON is the answer of working.
type workingJSON struct {
	Agent     schema.AgentName `json:"agent"`
	MessageID schema.ID        `json:"message_id,omitempty"`
	Text      string           `json:"text,omitempty"`
	Status    string           `json:"status"`
}

func (c *workingCall) run(w *mailbox.Workspace) error {
	if c.done == (len(c.words) > 0) {
		return failure.Usagef("working needs either an id or --done").WithHint("oacp inbox lists the ids of pending messages")
	}
	acts, err := c.as(c.agent)
	if err != nil {
		return err
	}
	answer := workingJSON{Agent: acts.Agent(), Status: project.Available}
	line := fmt.Sprintf("OK: %s is finished", acts.Agent())
	if c.done {
		err = acts.Finished()
	} else {
		answer.Status = project.Busy
		if len(c.words) > 1 {
			answer.Text = c.words[1]
		}
		var m *schema.Message
		if m, err = acts.Working(c.ctx, c.words[0], answer.Text); m != nil {
			answer.MessageID = m.ID
			line = fmt.Sprintf("OK: %s works on %s", acts.Agent(), visible.Line(m.ID.Short()))
		}
		if errors.Is(err, track.ErrWorkingText) {
			err = failure.Usagef("TEXT: %w", err).WithHint("say it in one line of at most 200 characters: oacp working " + m.ID.Short() + ` "half done"`)
		}
	}
	if late, ok := errors.AsType[*client.StatusFileError](err); ok {
		c.Warn(failure.OneLine(late.Error()))
	} else if err != nil {
		return err
	}
	return c.answer(answer, func() { c.Confirm("%s\n", line) })
}
