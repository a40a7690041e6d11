package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/fatih/color"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

type threadOptions struct {
	workspace command.Workspace
	id        string
	bodies    bool
	flat      bool
	agent     string // of thread resume
	json      bool
}

func newThreadCommand(s *command.Streams) *cli.Command {
	var o threadOptions
	return &cli.Command{
		Name:        "thread",
		Category:    command.CategoryMessages,
		Usage:       "show a conversation",
		ArgsUsage:   "ID",
		Subcommands: []*cli.Command{newThreadResumeCommand(s)},
		Description: `thread shows every message of the conversation, in any mailbox, with answers below
the message they answer. STAGE is the stage of a message as in oacp status ID; if
there are several recipients, the least advanced one.

EXAMPLES:
   oacp thread ID
   oacp thread ID --flat --bodies`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "flat", Usage: "list the messages by time instead of as a tree", Destination: &o.flat},
			&cli.BoolFlag{Name: "bodies", Usage: "show the messages in full", Destination: &o.bodies},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			var err error
			if o.id, err = oneID(c); err != nil {
				return err
			}
			return runThread(c.Context, o, s)
		},
	}
}

func runThread(ctx context.Context, o threadOptions, s *command.Streams) error {
	// Reading many messages allocates much and ends soon: collecting garbage less often is faster.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		thread, err := track.Thread(ctx, w, o.id)
		unreadable := ""
		if len(thread) > 0 {
			unreadable, err = warnUnreadable(err, s)
		}
		if err != nil {
			return err
		}
		if o.flat {
			conversation.Sort(thread, func(n track.Node) *schema.Message { return n.Message })
			for i := range thread {
				thread[i].Branch, thread[i].Below = "", ""
			}
		}
		if o.json {
			return printThreadJSON(s, w, thread, unreadable)
		}
		printThread(s, thread, o.bodies)
		return nil
	})
}

// warnUnreadable warns if the error only says what could not be read, and returns that. Other errors it returns.
func warnUnreadable(err error, s *command.Streams) (unreadable string, other error) {
	incomplete, ok := errors.AsType[*mailbox.UnreadableError](err)
	if !ok {
		return "", err
	}
	unreadable = failure.OneLine(incomplete.Error())
	s.Warn("there may be more: " + unreadable)
	return unreadable, nil
}

// printThread prints a line for each message, and its body on request.
func printThread(s *command.Streams, thread []track.Node, bodies bool) {
	entries := make([]mailbox.Entry, len(thread))
	for i, n := range thread {
		entries[i] = n.Entry
	}
	ids := shortIDs(entries)
	const subject = 7
	t := newTable(s, row{"ID", "From", "To", "Type", "Stage", "Age", "Subject"}, subject)
	for i, n := range thread {
		m := n.Message
		if n.Err != nil {
			m = command.Preview(&n.Entry)
		}
		title := visible.Line(m.Subject)
		if n.Err != nil {
			title += "  " + paint(s, colors{color.FgRed}, "not valid: "+visible.Line(failure.OneLine(n.Err.Error())))
		}
		t.add(row{n.Branch + ids[i], visible.Line(string(m.From)), visible.Line(joinNames(m.To)), visible.Line(string(m.Type)),
			n.Stage(), spelling.Age(m.CreatedAt.Time(), s.Now()), title})
	}
	lines := t.lines()
	fmt.Fprintln(s.Out, lines[0])
	for i, line := range lines[1:] {
		fmt.Fprintln(s.Out, line)
		if bodies {
			fmt.Fprintln(s.Out)
			printBody(s, thread[i].Message)
			if i < len(thread)-1 {
				fmt.Fprintln(s.Out)
			}
		}
	}
}

func printThreadJSON(s *command.Streams, w *mailbox.Workspace, thread []track.Node, unreadable string) error {
	answer := struct {
		ConversationID schema.ConversationID `json:"conversation_id"`
		Messages       []any                 `json:"messages"`
		LoadError      string                `json:"load_error,omitempty"`
	}{Messages: []any{}, LoadError: unreadable}
	for _, n := range thread {
		answer.ConversationID = cmp.Or(answer.ConversationID, n.Message.ConversationID)
		object, err := messageJSON(n.Entry, places(w, []mailbox.Entry{n.Entry}), s)
		if err == nil {
			object, err = withKeys(object, struct {
				Depth  int                              `json:"depth"`
				Stage  track.Stage                      `json:"stage"`
				Stages map[schema.AgentName]track.Stage `json:"stages"`
			}{n.Depth, n.Stage(), n.Stages()})
		}
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
		Usage:     "resume a conversation that reached its limit on turns",
		ArgsUsage: "CONVERSATION-OR-ID",
		Description: `oacp run limits the turns of a conversation, so that two agents cannot answer each
other forever. resume resets the count. Name the conversation by its id or by the id
of a message in it.

EXAMPLES:
   oacp thread resume CONVERSATION
   oacp thread resume ID`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "resume it for `AGENT` only (default: every agent that had turns in it)", Destination: &o.agent},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			var err error
			if o.id, err = oneID(c); err != nil {
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
			if _, err = mailbox.SplitUnreadable(err); err != nil {
				return err
			}
			id = conversation.Of(found[0].Message)
		}
		var agents []schema.AgentName
		if o.agent != "" {
			agents = append(agents, schema.AgentName(o.agent))
		}
		resumed, err := track.Resume(ctx, w, id, agents...)
		if err != nil {
			return err
		}
		return s.Answer(o.json, map[string]any{"conversation_id": id, "agents": resumed}, func() {
			for _, agent := range resumed {
				fmt.Fprintf(s.Out, "OK: %s goes on with %s\n", id, agent)
			}
		})
	})
}
