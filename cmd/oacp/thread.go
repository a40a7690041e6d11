package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

type threadOptions struct {
	workspace command.Workspace
	id        string
	bodies    bool
	agent     string // of thread resume
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
		Description: `Every message of the conversation in its order, wherever it is now; answers
are indented below what they answer.

EXAMPLES:
   oacp thread ID
   oacp thread ID --bodies`,
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
		thread, err := conversation.Thread(ctx, w, o.id)
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
		depths := conversation.Depths(thread)
		for i, e := range thread {
			printThreadLine(s, depths[e.Message.ID], e)
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

func printThreadLine(s *command.Streams, depth int, e mailbox.Entry) {
	m := e.Message
	if e.Err != nil {
		m = command.Preview(&e)
	}
	indent, mark := strings.Repeat("   ", depth), ""
	if depth > 0 {
		mark = strings.Repeat("   ", depth-1) + "└─ "
	}
	fmt.Fprintf(s.Out, "%s%s  %s -> %s  %s %s  %s\n", mark,
		visible.Line(string(m.CreatedAt)), visible.Line(string(m.From)), visible.Line(joinNames(m.To)),
		visible.Line(string(m.Type)), priorityText(s, m.Priority), visible.Line(string(m.ID)))
	fmt.Fprintf(s.Out, "%s%s\n", indent, visible.Line(m.Subject))
	if e.Err != nil {
		fmt.Fprintf(s.Out, "%snot valid: %s\n", indent, visible.Line(failure.OneLine(e.Err.Error())))
	}
}

func printThreadJSON(s *command.Streams, w *mailbox.Workspace, thread []mailbox.Entry, unreadable string) error {
	answer := struct {
		ConversationID schema.ConversationID `json:"conversation_id"`
		Messages       []any                 `json:"messages"`
		LoadError      string                `json:"load_error,omitempty"`
	}{Messages: []any{}, LoadError: unreadable}
	for _, e := range thread {
		answer.ConversationID = cmp.Or(answer.ConversationID, e.Message.ConversationID)
		object, err := messageJSON(e, places(w, []mailbox.Entry{e}), s)
		if err != nil {
			return err
		}
		answer.Messages = append(answer.Messages, object)
	}
	return command.WriteJSON(s.Out, answer)
}

func newThreadResumeCommand(s *command.Streams) *cli.Command {
	var o threadOptions
	return &cli.Command{
		Name:      "resume",
		Usage:     "let a conversation go on after its bound on turns",
		ArgsUsage: "CONVERSATION-OR-ID",
		Description: `oacp run bounds the turns of a conversation, so that two agents cannot answer each
other for ever. resume lets the count start again. The conversation is named by
its id, or by that of a message in it.

EXAMPLES:
   oacp thread resume CONVERSATION
   oacp thread resume ID`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "with `AGENT` only (default: with all that had turns in it)", Destination: &o.agent},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			var err error
			if o.id, err = oneID(command.Positionals(c)); err != nil {
				return err
			}
			return resumeThread(c.Context, o, s)
		},
	}
}

func resumeThread(ctx context.Context, o threadOptions, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		id := schema.ConversationID(o.id)
		if _, err := schema.ParseConversationID(id); err != nil {
			found, err := w.Find(ctx, o.id)
			if err != nil {
				return err
			}
			id = conversation.Of(found[0].Message)
		}
		var agents []schema.AgentName
		if o.agent != "" {
			agents = append(agents, schema.AgentName(o.agent))
		}
		resumed, err := turn.Resume(ctx, w, id, agents...)
		if err != nil {
			return err
		}
		if o.json {
			return command.WriteJSON(s.Out, struct {
				Conversation schema.ConversationID `json:"conversation_id"`
				Agents       []schema.AgentName    `json:"agents"`
			}{id, resumed})
		}
		for _, agent := range resumed {
			fmt.Fprintf(s.Out, "OK: %s goes on with %s\n", id, agent)
		}
		return nil
	})
}
