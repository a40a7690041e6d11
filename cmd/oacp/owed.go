package main

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

func newOwedCommand(s *command.Streams) *cli.Command {
	c := statusCall{newCall(s)}
	return &cli.Command{
		Name:      "owed",
		Category:  command.CategoryMessages,
		Usage:     "list unanswered requests",
		ArgsUsage: "[PROJECT] [--agent AGENT]",
		Description: `owed lists the requests that wait for this agent's answer, then its own requests that
wait for others, oldest first. A request that was acknowledged without an answer is
still owed, for 30 days. An answer ends it for the recipient; its sender has it in the
list until the answer was shown. Once its deadline (send --by) has passed, nobody owes
an answer and the request gets no turn: a last list has those that are still pending.
A dead request stays in its sender's list until the notice about it is acknowledged.
A task_request waits for a final reply: oacp reply --ack or --final makes a notification
final. A last line counts the messages that are new to the agent, as oacp next would
show them: what it was shown by a process that has ended is new again.

EXAMPLES:
   oacp owed --agent codex
   oacp owed --json`,
		Flags:  c.flagsWith(c.agentFlag("list what `AGENT` owes and is owed (default: $OACP_AGENT)")),
		Action: c.inProject(c.owed),
	}
}

func (c statusCall) owed(w *mailbox.Workspace) error {
	defer lessGarbageCollection()()
	agent, err := c.views(c.agent)
	if err != nil {
		return err
	}
	owed, err := track.OwedBy(c.ctx, w, agent)
	unreadable, err := warnUnreadable(err, c.Streams)
	if err != nil {
		return err
	}
	return c.answer(struct {
		envelope
		track.Owed
		LoadError string `json:"load_error,omitempty"`
	}{envelopeOf(w), owed, unreadable}, func() { printOwed(w, owed, c.Streams) })
}

func printOwed(w *mailbox.Workspace, owed track.Owed, s *command.Streams) {
	if owed.Unread > 0 {
		defer s.Printf("%s: %s\n", spelling.Plural(owed.Unread, "new message"), showsNew(w, owed.Agent))
	}
	from := func(r track.OpenRequest) schema.AgentName { return r.From }
	to := func(r track.OpenRequest) schema.AgentName { return r.To }
	unread := 0
	for _, r := range owed.Theirs {
		if r.Answer != "" {
			unread++
		}
	}
	waits := fmt.Sprintf("%s waits for %s", owed.Agent, spelling.Plural(len(owed.Theirs)-unread, "answer"))
	switch {
	case unread == len(owed.Theirs):
		waits = fmt.Sprintf("%s has %s to read", owed.Agent, spelling.Plural(unread, "answer"))
	case unread > 0:
		waits += fmt.Sprintf(", and has %d to read", unread)
	}
	separator := ""
	for _, list := range []struct {
		requests     []track.OpenRequest
		heading, who string
		other        func(track.OpenRequest) schema.AgentName
	}{
		{owed.Mine, fmt.Sprintf("%s owes %s", owed.Agent, spelling.Plural(len(owed.Mine), "answer")), "From", from},
		{owed.Theirs, waits, "To", to},
		{owed.Expired, "expired without an answer; they get no turn, and nobody owes one", "To", to},
	} {
		if len(list.requests) > 0 {
			s.Printf("%s%s:\n", separator, list.heading)
			printOpen(list.requests, list.who, list.other, s)
			separator = "\n"
		}
	}
	isOwn := func(r track.OpenRequest) bool { return r.From == owed.Agent }
	if len(owed.Mine)+len(owed.Theirs) == 0 && !slices.ContainsFunc(owed.Expired, isOwn) {
		s.Printf("%s%s: nothing owed\n", separator, owed.Agent)
	}
	printClosing(owed, s)
}

// printClosing says how the agent closes its requests that ended without an answer.
func printClosing(owed track.Owed, s *command.Streams) {
	for _, r := range owed.Theirs {
		if r.Notice != "" {
			s.Printf("hint: oacp restore %s tries a dead request again, oacp ack %s closes it\n", visible.Line(r.ID.Short()), visible.Line(r.Notice.Short()))
			break
		}
	}
	for _, r := range owed.Expired {
		if r.From == owed.Agent {
			s.Printf("hint: oacp recall %s closes an expired request that nobody has seen; %s closes any with oacp ack\n", visible.Line(r.ID.Short()), r.To)
			break
		}
	}
}

// printOpen prints a line for each request, with the other agent.
func printOpen(requests []track.OpenRequest, title string, other func(track.OpenRequest) schema.AgentName, s *command.Streams) {
	var entries []mailbox.Entry // one for each request, even if several recipients owe an answer
	for _, r := range requests {
		if len(entries) == 0 || entries[len(entries)-1].Message.ID != r.ID {
			entries = append(entries, mailbox.Entry{Message: &schema.Message{ID: r.ID}})
		}
	}
	short := make(map[schema.ID]string, len(entries))
	for i, id := range shortIDs(entries) {
		short[entries[i].Message.ID] = id
	}
	t := newTable(s, row{"ID", title, "Type", "Age", "Stage", "Subject"})
	now := s.Now()
	for _, r := range requests {
		t.add(short[r.ID], other(r), r.Type, spelling.Age(r.CreatedAt.Time(), now), openText(r, s), visible.Line(r.Subject))
	}
	t.print()
}

// openText returns the stage of a request, the last reply and the deadline.
func openText(r track.OpenRequest, s *command.Streams) string {
	now := s.Now()
	text := stageWord(r.Stage, s) + visible.Line(r.Said(now))
	switch n := len(r.Replies); {
	case r.Answer != "":
		text += fmt.Sprintf(", %s is new", visible.Line(r.Answer.Short()))
	case r.Notice != "":
		text += fmt.Sprintf(", %s says why", visible.Line(r.Notice.Short()))
	case n > 0 && r.Replies[n-1].Answers: // which a restore made outdated
		text += ", restored since " + visible.Line(r.Replies[n-1].ID.Short())
	case n > 0 && !r.Replies[n-1].AsksBack():
		text += fmt.Sprintf(", %s sent", r.Replies[n-1].Type)
	}
	switch {
	case r.ExpiresAt == "":
	case r.Stage == track.StageExpired:
		text += " " + spelling.Age(r.ExpiresAt.Time(), now) + " ago"
	case r.Answer == "":
		text += ", expires in " + spelling.Age(now, r.ExpiresAt.Time())
	}
	return text
}
