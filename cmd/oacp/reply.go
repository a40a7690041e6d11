package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
	"github.com/oacp-go/oacp/validate"
)

type replyOptions struct {
	composeOptions
	deliverOptions
	id         string
	final, ack bool
}

func newReplyCommand(s *command.Streams) *cli.Command {
	var o replyOptions
	flags := []cli.Flag{
		&cli.BoolFlag{Name: "ack", Usage: "acknowledge the message after sending the answer, which is final", Destination: &o.ack},
		&cli.BoolFlag{Name: "final", Usage: "mark this as the complete answer, whatever its type", Destination: &o.final},
		&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "the answer's type is `TYPE` (default: the type that answers the message)", Destination: &o.typ},
	}
	rare := []cli.Flag{
		&cli.BoolFlag{Name: "again", Category: command.Rare, Usage: "send another answer to a message that is answered", Destination: &o.again},
	}
	return &cli.Command{
		Name:      "reply",
		Category:  command.CategoryMessages,
		Usage:     "answer a message",
		ArgsUsage: "ID [--body TEXT] [--ack]",
		Description: `reply sends the answer to the sender of the message, in its conversation. Subject,
priority and type follow from the message: review_feedback answers a review_request,
handoff_complete a handoff, and a notification a task_request or a question. A
notification completes a task only with --final, which --ack implies. A question
never counts as an answer.

--ack takes the message out of the inbox once the answer is sent.

EXAMPLES:
   oacp reply ID --body "Done, see #43." --ack
   oacp reply ID --type question --body-file questions.md`,
		Flags: slices.Concat(o.composeOptions.flags(), flags, rare, o.deliverOptions.flags()),
		Action: func(c *cli.Context) (err error) {
			if o.id, err = oneID(c); err != nil {
				return err
			}
			if o.final && o.typ == string(schema.Question) {
				return failure.Usagef("--final: a question is never the answer")
			}
			if err := errors.Join(o.check(c), o.wait.check(c), o.sync.Check()); err != nil {
				return err
			}
			return runReply(c.Context, o, s)
		},
	}
}

func runReply(ctx context.Context, o replyOptions, s *command.Streams) error {
	return o.withWorkspace(ctx, s, func(w *mailbox.Workspace) error {
		found, err := w.Find(ctx, o.id)
		if _, err = mailbox.SplitUnreadable(err); err != nil {
			return err
		}
		from, err := sender(w, o.from, s)
		if to := found[0].Message.To; errors.Is(err, project.ErrNoSender) && len(to) == 1 {
			from, err = to[0], nil // nobody else can answer
		}
		if err == nil {
			err = w.CheckAgent(from)
		}
		if err != nil {
			return err
		}
		if _, inSession := command.SessionAgent(w, s); inSession && o.readsFile() {
			return &failure.Error{
				Code: "file_in_session", Err: errors.New("in a live session, which sends answers without asking, no flag reads a file"),
				Hint: "use --body TEXT, or standard input: its program checks what that reads",
			}
		}
		original, err := conversation.Original(found, from)
		if err == nil {
			err = turn.CheckFence(ctx, w, original.ID, from, s.Getenv)
		}
		if err != nil {
			return err
		}
		o.answered = original
		draft := conversation.Reply(original, from)
		if err := o.fill(&draft, s); err != nil {
			return err
		}
		if conversation.Conclude(&draft, original, o.final, o.ack) {
			o.noteUnanswered(&draft, original, s)
		}
		if o.ack {
			held, err := conversation.FindCopy(ctx, w, string(original.ID), from)
			if err != nil {
				return err
			}
			o.pending = &held
		}
		err = o.deliver(ctx, w, draft, o.source(), s)
		if _, invalid := errors.AsType[*validate.InvalidError](err); invalid && draft.Type == schema.HandoffComplete {
			return failure.WithHint(err, "oacp send --template handoff_complete prints a body to fill in; "+
				"--type notification --final answers in free text")
		}
		return err
	})
}

// noteUnanswered says that this reply is not the answer to the message.
func (o *replyOptions) noteUnanswered(draft, original *schema.Message, s *command.Streams) {
	note := fmt.Sprintf("a %s does not answer a %s; --final makes it the answer", draft.Type, original.Type)
	s.Note(note)
	o.warnings = append(o.warnings, note)
}

// oneID returns the only argument, which is a message id.
func oneID(c *cli.Context) (string, error) { return onlyArgument(c, errNoID()) }

func errNoID() *failure.Error {
	return failure.Usagef("which message? needs an id").WithHint("oacp inbox lists pending messages")
}
