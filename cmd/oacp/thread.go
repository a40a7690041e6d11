package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

type threadOptions struct {
	workspace command.Workspace
	id        string
	bodies    bool
	json      bool
}

func newThreadCommand(s *command.Streams) *cli.Command {
	var o threadOptions
	return &cli.Command{
		Name:        "thread",
		Category:    command.CategoryMessages,
		Usage:       "show the conversation of a message",
		ArgsUsage:   "ID",
		Subcommands: []*cli.Command{newThreadResumeCommand(s)},
		Description: `Every message of the conversation, the oldest first, wherever it is now; answers
are indented below what they answer.

EXAMPLES:
   oacp thread k3x9
   oacp thread k3x9 --bodies`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "bodies", Usage: "show the messages in full", Destination: &o.bodies},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			var err error
			if o.id, err = oneID(command.Positionals(c)); err != nil {
				return err
			}
			return runThread(c.Context, o, s)
		},
	}
}

func runThread(ctx context.Context, o threadOptions, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		thread, err := w.Thread(ctx, o.id)
		unreadable := ""
		switch incomplete := new(mailbox.UnreadableError); {
		case len(thread) > 0 && errors.As(err, &incomplete):
			unreadable = failure.OneLine(incomplete.Error())
			s.Warn("there may be more: " + unreadable)
		case err != nil:
			return err
		}
		if o.json {
			return printThreadJSON(s, w, thread, unreadable)
		}
		depths := mailbox.Depths(thread)
		for i, e := range thread {
			printThreadLine(s, depths[e.Message.ID], e.Message)
			if o.bodies {
				fmt.Fprintln(s.Out)
				printBody(s, e.Message.Body)
				if i < len(thread)-1 {
					fmt.Fprintln(s.Out)
				}
			}
		}
		return nil
	})
}

func printThreadLine(s *command.Streams, depth int, m *schema.Message) {
	indent, mark := strings.Repeat("   ", depth), ""
	if depth > 0 {
		mark = strings.Repeat("   ", depth-1) + "└─ "
	}
	fmt.Fprintf(s.Out, "%s%s  %s -> %s  %s %s  %s\n", mark,
		visible.Line(string(m.CreatedAt)), visible.Line(string(m.From)), visible.Line(joinNames(m.To)),
		visible.Line(string(m.Type)), priorityText(s, m.Priority), visible.Line(string(m.ID)))
	fmt.Fprintf(s.Out, "%s%s\n", indent, visible.Line(m.Subject))
}

func printThreadJSON(s *command.Streams, w *mailbox.Workspace, thread []mailbox.Entry, unreadable string) error {
	answer := struct {
		ConversationID schema.ConversationID `json:"conversation_id"`
		Messages       []any                 `json:"messages"`
		LoadError      string                `json:"load_error,omitempty"`
	}{Messages: []any{}, LoadError: unreadable}
	for _, e := range thread {
		if answer.ConversationID == "" {
			answer.ConversationID = e.Message.ConversationID
		}
		object, err := messageJSON(e.Message, places(w, []mailbox.Entry{e}), s)
		if err != nil {
			return err
		}
		answer.Messages = append(answer.Messages, object)
	}
	return command.WriteJSON(s.Out, answer)
}
