package main

import (
	"cmp"
	"fmt"

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

func newThreadCommand(s *command.Streams) *cli.Command {
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
		Flags: flagsWith(
			&cli.BoolFlag{Name: "flat", Usage: "list the messages by time instead of as a tree"},
			&cli.BoolFlag{Name: "bodies", Usage: "show the messages in full"}),
		Action: inWorkspace(s, 1, runThread),
	}
}

func runThread(c *call, w *mailbox.Workspace) error {
	id, err := c.only(errNoID())
	if err != nil {
		return err
	}
	defer lessGarbageCollection()()
	thread, err := track.Thread(c.ctx, w, id)
	unreadable := ""
	if len(thread) > 0 {
		unreadable, err = warnUnreadable(err, c.Streams)
	}
	if err != nil {
		return err
	}
	if c.isOn("flat") {
		conversation.Sort(thread, func(n track.Node) *schema.Message { return n.Message })
		for i := range thread {
			thread[i].Branch, thread[i].Below = "", ""
		}
	}
	if c.json() {
		return printThreadJSON(c.Streams, w, thread, unreadable)
	}
	printThread(c.Streams, thread, c.isOn("bodies"))
	return nil
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
			title += "  " + paint(s, red, "not valid: "+visible.Line(failure.OneLine(n.Err.Error())))
		}
		t.add(n.Branch+ids[i], visible.Line(string(m.From)), visible.Line(joinNames(m.To)), visible.Line(string(m.Type)),
			n.Stage(), spelling.Age(m.CreatedAt.Time(), s.Now()), title)
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
		Flags:  flagsWith(&cli.StringFlag{Name: "agent", Usage: "resume it for `AGENT` only (default: every agent that had turns in it)"}),
		Action: inWorkspace(s, 1, resumeThread),
	}
}

func resumeThread(c *call, w *mailbox.Workspace) error {
	named, err := c.only(errNoID())
	if err != nil {
		return err
	}
	id := schema.ConversationID(named)
	if _, err := schema.ParseConversationID(id); err != nil {
		found, err := w.Find(c.ctx, named)
		if _, err = mailbox.SplitUnreadable(err); err != nil {
			return err
		}
		id = conversation.Of(found[0].Message)
	}
	var agents []schema.AgentName
	if c.agent() != "" {
		agents = append(agents, c.agent())
	}
	resumed, err := track.Resume(c.ctx, w, id, agents...)
	if err != nil {
		return err
	}
	return c.answer(map[string]any{"conversation_id": id, "agents": resumed}, func() {
		for _, agent := range resumed {
			c.printf("OK: %s goes on with %s\n", id, agent)
		}
	})
}
