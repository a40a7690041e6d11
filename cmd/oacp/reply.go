package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

type replyOptions struct {
	workspace command.Workspace
	compose   composeOptions
	deliver   deliverOptions

	id  string
	typ string
}

func newReplyCommand(s *command.Streams) *cli.Command {
	var o replyOptions
	flags := append([]cli.Flag{
		&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "the answer is a `TYPE` (default: what answers the original's)", Destination: &o.typ},
	}, o.compose.flags()...)
	flags = append(flags, o.deliver.flags()...)
	return &cli.Command{
		Name:      "reply",
		Category:  command.CategoryMessages,
		Usage:     "answer a message",
		ArgsUsage: "ID [--body TEXT]",
		Description: `The answer goes to the sender of the message, in its conversation. Subject,
priority and type follow from the original's: a review_request is answered with
review_feedback, a task_request with a notification. ID may be the beginning of
an id, or its last part, as oacp inbox shows it.

EXAMPLES:
   oacp reply k3x9 --body "Done, see #43."
   oacp reply k3x9 --type question --body-file questions.md`,
		Flags: append(flags, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			var err error
			if o.id, err = oneID(command.Positionals(c)); err != nil {
				return err
			}
			o.compose.bodyGiven = c.IsSet("body")
			return runReply(c.Context, o, s)
		},
	}
}

func runReply(ctx context.Context, o replyOptions, s *command.Streams) error {
	options := &mailbox.Options{NoSync: o.deliver.noSync}
	return o.workspace.With(s, options, func(w *mailbox.Workspace) error {
		found, err := w.Find(ctx, o.id)
		if err != nil {
			return err
		}
		original := found[0].Message
		from, err := answeringAgent(w, o.compose.from, original, s)
		if err != nil {
			return err
		}
		draft := mailbox.Reply(original, from)
		if o.typ != "" {
			if draft.Type, err = parseType(o.typ); err != nil {
				return err
			}
		}
		if err := o.compose.fill(&draft, s); err != nil {
			return err
		}
		return o.deliver.deliver(ctx, w, draft, s)
	})
}

// answeringAgent returns the acting agent, or if nothing says which agent acts, the only recipient
// of the original.
func answeringAgent(w *mailbox.Workspace, flag string, original *schema.Message, s *command.Streams) (schema.AgentName, error) {
	from, err := command.AgentOf(w, flag, s)
	if errors.Is(err, project.ErrNoSender) && len(original.To) == 1 {
		return original.To[0], nil
	}
	return from, err
}

// oneID returns the only argument, which is a message id.
func oneID(args []string) (string, error) {
	switch {
	case len(args) == 0 || args[0] == "":
		return "", failure.Usagef("which message? needs an id").WithHint("oacp inbox lists what is pending")
	case len(args) > 1:
		return "", failure.Usagef("unexpected argument %s", visible.Quote(args[1]))
	}
	return args[0], nil
}
