package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

type sendOptions struct {
	workspace command.Workspace
	compose   composeOptions
	deliver   deliverOptions

	to             cli.StringSlice
	typ            string
	conversationID string
	parentID       string
	inReplyTo      string
}

func newSendCommand(s *command.Streams) *cli.Command {
	var o sendOptions
	flags := []cli.Flag{
		&cli.StringSliceFlag{Name: "to", Usage: "the recipients are `AGENT`[,AGENT…], at most 10", Destination: &o.to},
		&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "the message is a `TYPE`: " + typeList(), Destination: &o.typ},
		&cli.StringFlag{Name: "in-reply-to", Usage: "it answers the message `ID`: same conversation", Destination: &o.inReplyTo},
		&cli.StringFlag{Name: "conversation-id", Usage: "it belongs to the conversation `ID`", Destination: &o.conversationID},
		&cli.StringFlag{Name: "parent-message-id", Usage: "it follows the message `ID`", Destination: &o.parentID},
	}
	flags = append(flags, o.compose.flags()...)
	flags = append(flags, o.deliver.flags()...)
	return &cli.Command{
		Name:      "send",
		Category:  command.CategoryMessages,
		Usage:     "write a message and deliver it",
		ArgsUsage: "[PROJECT] --to AGENT --type TYPE --subject TEXT [--body TEXT]",
		Description: `The message is checked first: one that is not valid is not sent. When send
succeeds, the message is on disk in every recipient's inbox and in the sender's
outbox. When it fails, it is in none, unless the error says that it is sent.

EXAMPLES:
   oacp send --from claude --to codex --type task_request --subject "Look at #42" --body "Please."
   git diff | oacp send --to claude --type review_request --subject "This diff"
   oacp send --to codex --type question --subject "Which port?" --body "?" --wait=reply

With --json and --wait, the answer is two lines of JSON: the message sent, then
what it was waited for.`,
		Flags: append(flags, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			if err := o.workspace.TakeProject(command.Positionals(c)); err != nil {
				return err
			}
			o.compose.bodyGiven = c.IsSet("body")
			return runSend(c.Context, o, s)
		},
	}
}

func typeList() string {
	names := make([]string, 0, 12)
	for _, t := range schema.Types() {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

func runSend(ctx context.Context, o sendOptions, s *command.Streams) error {
	draft, err := o.draft()
	if err != nil {
		return err
	}
	if err := o.compose.fill(&draft, s); err != nil {
		return err
	}
	options := &mailbox.Options{NoSync: o.deliver.noSync}
	return o.workspace.With(s, options, func(w *mailbox.Workspace) error {
		if draft.From, err = command.AgentOf(w, o.compose.from, s); err != nil {
			return err
		}
		if o.inReplyTo != "" {
			if err := answer(ctx, w, &draft, o.inReplyTo, s); err != nil {
				return err
			}
		}
		return o.deliver.deliver(ctx, w, draft, s)
	})
}

// draft returns what only send asks for.
func (o *sendOptions) draft() (schema.Message, error) {
	draft := schema.Message{
		ConversationID: schema.ConversationID(o.conversationID),
		ParentID:       schema.ID(o.parentID),
	}
	for _, name := range o.to.Value() {
		if name = strings.TrimSpace(name); name != "" {
			draft.To = append(draft.To, schema.AgentName(name))
		}
	}
	var missing []string
	for _, flag := range []struct {
		name  string
		given bool
	}{
		{"--to", len(draft.To) > 0}, {"--type", o.typ != ""}, {"--subject", o.compose.subject != ""},
	} {
		if !flag.given {
			missing = append(missing, flag.name)
		}
	}
	if len(missing) > 0 {
		return draft, failure.Usagef("needs %s", strings.Join(missing, ", "))
	}
	var err error
	draft.Type, err = parseType(o.typ)
	return draft, err
}

func parseType(text string) (schema.Type, error) {
	t, err := schema.ParseType(text)
	if err != nil {
		return "", failure.Usagef("--type: %w", err).WithHint(spelling.DidYouMean(schema.Types(), text, "the types are "+typeList()))
	}
	return t, nil
}
