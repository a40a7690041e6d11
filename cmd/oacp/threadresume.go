package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

type threadResumeOptions struct {
	workspace    command.Workspace
	conversation string
	agent        string
	json         bool
}

func newThreadResumeCommand(s *command.Streams) *cli.Command {
	var o threadResumeOptions
	return &cli.Command{
		Name:      "resume",
		Usage:     "let a conversation go on after its bound on turns",
		ArgsUsage: "CONVERSATION-OR-ID",
		Description: `oacp run bounds the turns of a conversation, so that two agents cannot answer each
other for ever. resume lets the count start again. The conversation is named by
its id, or by that of a message in it.

EXAMPLES:
   oacp thread resume conv-20260313-claude-001
   oacp thread resume k3x9`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "with `AGENT` only (default: with all that had turns in it)", Destination: &o.agent},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			var err error
			if o.conversation, err = oneID(command.Positionals(c)); err != nil {
				return err
			}
			return runThreadResume(c.Context, o, s)
		},
	}
}

func runThreadResume(ctx context.Context, o threadResumeOptions, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		conversation := schema.ConversationID(o.conversation)
		if _, err := schema.ParseConversationID(conversation); err != nil {
			found, err := w.Find(ctx, o.conversation)
			if err != nil {
				return err
			}
			conversation = mailbox.ConversationOf(found[0].Message)
		}
		var agents []schema.AgentName
		if o.agent != "" {
			agents = append(agents, schema.AgentName(o.agent))
		}
		resumed, err := turn.Resume(ctx, w, conversation, agents...)
		if err != nil {
			return err
		}
		if o.json {
			return command.WriteJSON(s.Out, struct {
				Conversation schema.ConversationID `json:"conversation_id"`
				Agents       []schema.AgentName    `json:"agents"`
			}{conversation, resumed})
		}
		for _, agent := range resumed {
			fmt.Fprintf(s.Out, "OK: %s goes on with %s\n", conversation, agent)
		}
		return nil
	})
}
