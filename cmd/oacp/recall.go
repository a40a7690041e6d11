package main

import (
	"errors"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

func newRecallCommand(s *command.Streams) *cli.Command {
	c := newCall(s)
	return &cli.Command{
		Name:      "recall",
		Category:  command.CategoryMessages,
		Usage:     "take a sent message back",
		ArgsUsage: "ID",
		Description: `recall takes a message back from every recipient that has not noticed it: no session
and no command has shown it, and it has had no turn. It becomes a dead letter there, and
its stage is recalled. If a recipient has noticed it, recall says what to do, and the
exit status is 1.

Of a message that a sync may have carried to other machines, recall says "recall
requested": they learn of it with their next sync, and if its recipient has noticed it
there, it comes back. oacp status ID shows its stage.

EXAMPLE:
   oacp recall ID`,
		Flags:  c.flagsWith(c.agentFlag("act as `AGENT`, the sender (default: $OACP_AGENT)")),
		Action: c.inWorkspace(1, c.recall),
	}
}

// recalledJSON is the answer of recall.
type recalledJSON struct {
	MessageID schema.ID `json:"message_id"`
	// Requested reports whether other machines may have the message: if its recipient has noticed it there, it comes back.
	Requested  bool                `json:"requested"`
	Recipients []recalledRecipient `json:"recipients"`
}

type recalledRecipient struct {
	Agent    schema.AgentName `json:"agent"`
	Recalled bool             `json:"recalled"`
	Stage    track.Stage      `json:"stage"`
	// Recall is as in the JSON of status.
	Recall *track.RecallRequest `json:"recall,omitempty"`
}

func (c *call) recall(w *mailbox.Workspace) error {
	id, err := c.only(failure.Usagef("which message? needs an id").WithHint("oacp list --box outbox lists sent messages"))
	if err != nil {
		return err
	}
	acts, err := c.as(c.agent)
	if errors.Is(err, project.ErrNoSender) {
		var found []mailbox.Entry
		if found, err = w.Find(c.ctx, id); len(found) > 0 && found[0].Message != nil {
			acts, err = c.as(found[0].Message.From)
		}
	}
	if err != nil {
		return err
	}
	recalled, err := acts.Recall(c.ctx, id)
	if len(recalled.Progress) == 0 {
		return err
	}
	_, err = warnUnreadable(err, c.Streams)
	m, progress := recalled.Message, recalled.Progress
	answer, missed := recalledJSON{MessageID: m.ID, Requested: recalled.Requested}, false
	for _, p := range progress {
		isRecalled := p.Stage == track.StageRecalled
		answer.Recipients = append(answer.Recipients, recalledRecipient{p.Agent, isRecalled, p.Stage, p.Recall})
		missed = missed || !isRecalled
	}
	if err != nil && c.asJSON {
		// One line, because the error follows on another.
		return errors.Join(command.WriteJSONLine(c.Out, answer), err)
	}
	err = errors.Join(err, c.answer(answer, func() { c.printRecalled(m, progress, answer.Requested) }))
	if missed && err == nil {
		err = failure.ErrReported
	}
	return err
}

// printRecalled says for each recipient whether the message was taken back, and what to do if it was not.
func (c *call) printRecalled(m *schema.Message, progress []track.Progress, requested bool) {
	var noticed []string
	for _, p := range progress {
		if p.Stage == track.StageRecalled && requested {
			c.Confirm("recall requested: %s from %s; after the next syncs, oacp status %[1]s says whether %[2]s had seen it\n", visible.Line(m.ID.Short()), p.Agent)
			continue
		}
		if p.Stage == track.StageRecalled {
			c.Confirm("OK: %s is taken back from %s, who has not noticed it\n", visible.Line(m.ID.Short()), p.Agent)
			continue
		}
		if p.Stage == track.StageAgentRemoved {
			c.Tell("%s is not taken back from %s, which was removed before it handled it: only oacp restore returns it\n", visible.Line(m.ID.Short()), p.Agent)
			continue
		}
		if p.Stage == track.StageDead {
			c.Tell("%s is not taken back from %s, which gave it up: oacp restore %[1]s tries it again, oacp owed says how to close it\n", visible.Line(m.ID.Short()), p.Agent)
			continue
		}
		isWaiting := p.Stage == track.StageWaiting
		if !isWaiting || p.MaySeen { // else an error follows
			noticed = append(noticed, string(p.Agent))
		}
		by := ""
		if isWaiting && p.MaySeen {
			by = " and may have been seen"
		} else if len(p.Noticed) > 0 {
			by = noticedText(p.Noticed, c.Streams)
			if p.Stage != track.StageNoticed {
				by = ", noticed" + by
			}
		}
		c.Tell("%s is not taken back from %s, where it is %s%s%s\n", visible.Line(m.ID.Short()), p.Agent, p.Stage, by, visible.Line(p.Said(c.Now())))
	}
	if noticed != nil {
		c.Tell("hint: oacp send --from %s --to %s --type notification --in-reply-to %s --subject Correction --body TEXT corrects it\n",
			m.From, strings.Join(noticed, ","), visible.Line(m.ID.Short()))
	}
}
