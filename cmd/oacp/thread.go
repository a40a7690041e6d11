package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

type threadOptions struct {
	workspace workspaceOptions
	id        string
	bodies    bool
	json      bool
}

func newThreadCommand(s *streams) *cli.Command {
	var o threadOptions
	return &cli.Command{
		Name:        "thread",
		Category:    categoryMessages,
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
			jsonFlag(&o.json),
		}, o.workspace.flags()...),
		Action: func(c *cli.Context) error {
			var err error
			if o.id, err = oneID(positionals(c)); err != nil {
				return err
			}
			return runThread(c.Context, o, s)
		},
	}
}

func runThread(ctx context.Context, o threadOptions, s *streams) error {
	return o.workspace.with(s, nil, func(w *mailbox.Workspace) error {
		thread, err := w.Thread(ctx, o.id)
		unreadable := ""
		switch incomplete := new(mailbox.UnreadableError); {
		case len(thread) > 0 && errors.As(err, &incomplete):
			unreadable = oneLine(incomplete.Error())
			warn(s, "there may be more: "+unreadable)
		case err != nil:
			return err
		}
		if o.json {
			return printThreadJSON(s, w, thread, unreadable)
		}
		depths := threadDepths(thread)
		for i, e := range thread {
			printThreadLine(s, depths[e.Message.ID], e.Message)
			if o.bodies {
				fmt.Fprintln(s.out)
				printBody(s, e.Message.Body)
				if i < len(thread)-1 {
					fmt.Fprintln(s.out)
				}
			}
		}
		return nil
	})
}

func printThreadLine(s *streams, depth int, m *schema.Message) {
	indent, mark := strings.Repeat("   ", depth), ""
	if depth > 0 {
		mark = strings.Repeat("   ", depth-1) + "└─ "
	}
	fmt.Fprintf(s.out, "%s%s  %s -> %s  %s %s  %s\n", mark,
		escapeLine(string(m.CreatedAt)), escapeLine(string(m.From)), escapeLine(joinNames(m.To)),
		escapeLine(string(m.Type)), priorityText(s, m.Priority), escapeLine(string(m.ID)))
	fmt.Fprintf(s.out, "%s%s\n", indent, escapeLine(m.Subject))
}

// threadDepths returns how many messages before it each one answers, one
// through the other.
func threadDepths(thread []mailbox.Entry) map[schema.ID]int {
	depths := make(map[schema.ID]int, len(thread))
	for _, e := range thread {
		depth := 0
		if parent, ok := depths[e.Message.ParentID]; ok {
			depth = parent + 1
		}
		depths[e.Message.ID] = depth
	}
	return depths
}

func printThreadJSON(s *streams, w *mailbox.Workspace, thread []mailbox.Entry, unreadable string) error {
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
	return writeJSON(s.out, answer)
}
