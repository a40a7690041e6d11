package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/project"
)

type replyOptions struct {
	composeOptions
	deliverOptions
	id string
}

func newReplyCommand(s *command.Streams) *cli.Command {
	var o replyOptions
	flags := []cli.Flag{
		&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "the answer is a `TYPE` (default: what answers the original's)", Destination: &o.typ},
	}
	return &cli.Command{
		Name:      "reply",
		Category:  command.CategoryMessages,
		Usage:     "answer a message",
		ArgsUsage: "ID [--body TEXT]",
		Description: `The answer goes to the sender of the message, in its conversation. Subject,
priority and type follow from the original's: a review_request is answered with
review_feedback, a task_request with a notification. ID may be the short one that
oacp inbox shows.

EXAMPLES:
   oacp reply k3x9 --body "Done, see #43."
   oacp reply k3x9 --type question --body-file questions.md`,
		Flags: append(append(flags, o.composeOptions.flags()...), o.deliverOptions.flags()...),
		Action: func(c *cli.Context) (err error) {
			if o.id, err = oneID(command.Positionals(c)); err != nil {
				return err
			}
			if err := o.check(c); err != nil {
				return err
			}
			return runReply(c.Context, o, s)
		},
	}
}

func runReply(ctx context.Context, o replyOptions, s *command.Streams) error {
	return o.withWorkspace(s, func(w *mailbox.Workspace) error {
		found, err := w.Find(ctx, o.id)
		if err != nil {
			return err
		}
		original := found[0].Message
		if err := found[0].Err; err != nil {
			return fmt.Errorf("message %s cannot be answered: it is not valid: %w", original.ID, err)
		}
		from, err := command.AgentOf(w, o.from, s)
		if errors.Is(err, project.ErrNoSender) && len(original.To) == 1 {
			from, err = original.To[0], nil // nobody else can answer
		}
		if err != nil {
			return err
		}
		draft := conversation.Reply(original, from)
		if err := o.fill(&draft, s); err != nil {
			return err
		}
		return o.deliver(ctx, w, draft, o.source(), s)
	})
}

// oneID returns the only argument, which is a message id.
func oneID(args []string) (string, error) {
	switch {
	case len(args) == 0 || args[0] == "":
		return "", errNoID()
	case len(args) > 1:
		return "", failure.Usagef("unexpected argument %s", visible.Quote(args[1]))
	}
	return args[0], nil
}

func errNoID() error {
	return failure.Usagef("which message? needs an id").WithHint("oacp inbox lists what is pending")
}
