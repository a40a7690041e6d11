package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A nextCall is a call of next.
type nextCall struct {
	*call
	limit              time.Duration
	thread, all, again bool
	selected           selection
}

func newNextCommand(s *command.Streams) *cli.Command {
	c := &nextCall{call: newCall(s), limit: defaultWait}
	return &cli.Command{
		Name:      "next",
		Category:  command.CategoryMessages,
		Usage:     "show the next message, or wait for one",
		ArgsUsage: "[PROJECT] [--agent AGENT]",
		Description: `next shows the first pending message that is new to the agent, in the order of oacp
inbox, or waits for one. A message stays in the inbox until it is acknowledged, but next
shows it once: --again shows all that are pending. What it showed to a process that has
ended is new again, so an agent that starts again finds its work. Two processes of one
agent never get the same message.

The exit status is 3 if no message arrives in time.

EXAMPLES:
   oacp next --agent codex
   oacp next --type question --from claude --timeout 30s
   oacp next --thread`,
		Flags: c.flagsWith(append([]cli.Flag{
			c.agentFlag("read the inbox of `AGENT` (default: $OACP_AGENT)"),
			timeoutFlag(&c.limit),
			c.sync.Flag(command.Rare),
			&cli.BoolFlag{Name: "thread", Usage: "also show what is new in the conversation since the agent's last message", Destination: &c.thread},
			&cli.BoolFlag{Name: "all", Usage: "show all new messages", Destination: &c.all},
			&cli.BoolFlag{Name: "again", Usage: "also show messages that the agent was shown before", Destination: &c.again},
		}, c.selected.flags("only")...)...),
		Action: c.inProject(c.run),
	}
}

func (c *nextCall) run(w *mailbox.Workspace) error {
	defer c.catchSignals()()
	if c.all && c.thread {
		return failure.Usagef("--all and --thread are mutually exclusive")
	}
	c.selected.warn(w, c.Streams)
	acts, err := c.as(c.agent)
	if err != nil {
		return err
	}
	agent := acts.Agent()
	synchronizer, err := c.synchronizer(w)
	if err != nil {
		return err
	}
	defer synchronizer.Begin(c.ctx, cmp.Or(c.limit, defaultWait))()
	what := c.selected.String()
	if !c.again {
		what = "new " + what
	}
	filter := c.filter(agent, what)
	filter.Match, filter.Again, filter.All = c.selected.matches, c.again, c.all
	given, err := acts.Take(c.ctx, filter)
	if err != nil {
		text := fmt.Sprintf("no %s came for %s within %s", what, agent, shortDuration(c.limit))
		if open := c.openMessages(w, agent, nil); open != "" {
			text += "; " + open
		}
		return timeoutError(err, text, "run oacp next again to wait longer: it misses nothing in between")
	}
	return c.showGiven(acts, given, func() error { return c.showNext(w, agent, given) })
}

// showNext prints what next found.
func (c *nextCall) showNext(w *mailbox.Workspace, agent schema.AgentName, given []*client.Request) error {
	var found []mailbox.Entry
	for _, r := range given {
		found = append(found, r.Entry)
		if !r.ShownBefore.IsZero() && !c.again {
			c.Note(fmt.Sprintf("%s was shown before, at %s", r.Message.ID.Short(), c.Clock(r.ShownBefore)))
		}
	}
	messages := found
	if c.thread {
		thread, err := conversation.Thread(c.ctx, w, string(found[0].Message.ID))
		if _, err = warnUnreadable(err, c.Streams); err != nil {
			return err
		}
		messages = conversation.NewFor(thread, agent, found[0])
	}
	if err := c.printAll(withReplies(c.ctx, w, agent, messages), !c.all && !c.thread); err != nil {
		return err
	}
	if open := c.openMessages(w, agent, found); open != "" && !c.asJSON {
		c.Printf("%s\n", open)
	}
	return nil
}

// openMessages says in a line which messages, except some, the agent was shown and has not handled. It is empty if there are
// none.
func (c *call) openMessages(w *mailbox.Workspace, agent schema.AgentName, except []mailbox.Entry) string {
	open, _ := track.NewsOf(w, agent).Open(c.ctx) // the wait reports what cannot be read
	open = slices.DeleteFunc(open, func(m track.OpenMessage) bool {
		return slices.ContainsFunc(except, func(shown mailbox.Entry) bool { return shown.Message.ID == m.ID })
	})
	const most = 3
	var parts []string
	for _, m := range open[:min(most, len(open))] {
		parts = append(parts, fmt.Sprintf("%s %s, shown %s", visible.Line(m.ID.Short()), visible.Line(m.Subject), c.Clock(m.Shown)))
	}
	if len(open) > most {
		parts = append(parts, fmt.Sprintf("and %d more: oacp owed", len(open)-most))
	}
	if len(open) == 0 {
		return ""
	}
	return "open: " + strings.Join(parts, "; ")
}

// filter returns how long next waits and, on standard error, warns of files that are not messages and says what it waits for.
func (c *nextCall) filter(agent schema.AgentName, what string) client.Filter {
	hinted := false
	f := client.Filter{Timeout: c.limit, Problem: func(e mailbox.Entry) {
		place := schema.BoxPath(e.Agent, e.Box)
		if e.Name != "" {
			place += "/" + e.Name
		}
		c.Warn(place + ": " + strings.TrimPrefix(failure.OneLine(e.Err.Error()), "reading "+e.Path+": "))
		if e.Name != "" && !hinted { // one hint is enough for all of them
			hinted = true
			c.Tell("hint: %s\n", visible.Line(doctor.BadFileHint(e)))
		}
	}}
	limit := ""
	if c.limit > 0 {
		limit = " for at most " + shortDuration(c.limit)
	}
	if !c.asJSON {
		f.Idle = func() { c.Note("no " + what + " is pending for " + string(agent) + "; waiting" + limit) }
	}
	return f
}

// afterWork returns the command that ends the work on a message to the acting agent.
func (c *call) afterWork(m *schema.Message, isAnswered bool) string {
	reply, ack := "oacp reply "+m.ID.Short(), "oacp ack "+m.ID.Short()
	if agent := string(c.acting); agent != c.Getenv("OACP_AGENT") && len(m.To) > 1 { // the commands must name one of several recipients
		reply, ack = reply+" --from "+agent, ack+" --agent "+agent
	}
	switch {
	case isAnswered, !m.Type.IsRequest() && m.Marks.Choices == nil:
		return ack
	case m.Marks.Choices != nil:
		return reply + " --ack --choose CHOICE, or --body TEXT"
	case client.DefaultOption(m).Type == schema.ReviewFeedback:
		return reply + " --ack --type review_lgtm --body TEXT; --type review_feedback asks for changes"
	case m.Type == schema.Handoff:
		return reply + " --ack --body-file FILE; oacp send --template handoff_complete --in-reply-to " + m.ID.Short() + " prints one to fill in"
	}
	return reply + " --ack --body TEXT"
}
