package main

import (
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

type sendOptions struct {
	composeOptions
	deliverOptions
	to             cli.StringSlice
	conversationID string
	parentID       string
	inReplyTo      string
	template       string
}

func newSendCommand(s *command.Streams) *cli.Command {
	var o sendOptions
	address := []cli.Flag{
		&cli.StringSliceFlag{Name: "to", Usage: "the recipients are `AGENT`[,AGENT…], at most 10", Destination: &o.to},
		&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "the message is a `TYPE`: oacp help types", Destination: &o.typ},
	}
	threading := []cli.Flag{
		&cli.StringFlag{Name: "in-reply-to", Usage: "it answers the message `ID`: same conversation", Destination: &o.inReplyTo},
		&cli.StringFlag{Name: "conversation-id", Category: command.Rare, Usage: "it belongs to the conversation `ID`", Destination: &o.conversationID},
		&cli.StringFlag{Name: "parent-message-id", Category: command.Rare, Usage: "it follows the message `ID`", Destination: &o.parentID},
		&cli.StringFlag{Name: "template", Usage: "only print a body to fill in, for `TYPE` or channel-NAME", Destination: &o.template},
	}
	return &cli.Command{
		Name:      "send",
		Category:  command.CategoryMessages,
		Usage:     "write a message and deliver it",
		ArgsUsage: "[PROJECT] --to AGENT --type TYPE --subject TEXT [--body TEXT]",
		Description: `A message that is not valid is not sent. When send succeeds, the message is on disk
in every recipient's inbox; when it fails, in none, unless the error says that it is sent.

--wait returns when all recipients have acknowledged the message, --wait=reply
when one has answered. Both fail after --timeout, and at once if the message becomes
a dead letter.

EXAMPLES:
   oacp send --from claude --to codex --type task_request --subject "Look at #42" --body "Please."
   git diff | oacp send --to claude --type review_request --subject "This diff"
   oacp send --to codex --type question --subject "Which port?" --body "?" --wait=reply`,
		Flags: slices.Concat(address, o.composeOptions.flags(), threading, o.deliverOptions.flags()),
		Action: func(c *cli.Context) error {
			if err := o.workspace.TakeProject(command.Positionals(c)); err != nil {
				return err
			}
			if o.template != "" {
				return printTemplate(o.template, o.workspace, s)
			}
			var missing []string
			for _, name := range []string{"to", "type", "subject"} {
				if !c.IsSet(name) {
					missing = append(missing, "--"+name)
				}
			}
			if len(missing) > 0 {
				return failure.Usagef("needs %s", strings.Join(missing, ", "))
			}
			if err := o.check(c); err != nil {
				return err
			}
			return runSend(c.Context, o, s)
		},
	}
}

func runSend(ctx context.Context, o sendOptions, s *command.Streams) error {
	draft := schema.Message{ConversationID: schema.ConversationID(o.conversationID), ParentID: schema.ID(o.parentID)}
	for _, name := range o.to.Value() {
		if name = strings.TrimSpace(name); name != "" {
			draft.To = append(draft.To, schema.AgentName(name))
		}
	}
	if err := o.fill(&draft, s); err != nil {
		return err
	}
	return o.withWorkspace(s, func(w *mailbox.Workspace) (err error) {
		if draft.From, err = command.AgentOf(w, o.from, s); err != nil {
			return err
		}
		if o.inReplyTo != "" {
			found, err := conversation.AnswerTo(ctx, w, &draft, o.inReplyTo)
			if err != nil {
				return err
			}
			if !found {
				o.warnings = append(o.warnings, "there is no message "+o.inReplyTo+" any more; the answer names it as its parent anyway")
				s.Warn(o.warnings[0])
			}
		}
		return o.deliver(ctx, w, draft, o.bodySource(), s)
	})
}

func typeList() string { return joinNames(schema.Types()) }

func parseType(text string) (schema.Type, error) {
	t, err := schema.ParseType(strings.ToLower(text))
	if err != nil {
		return "", failure.Usagef("--type: %w", err).WithHint(spelling.DidYouMean(schema.Types(), text, "the types are "+typeList()))
	}
	return t, nil
}
