package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
)

// A readCall is a call of read.
type readCall struct {
	*call
	all, unverified, raw bool
}

func newReadCommand(s *command.Streams) *cli.Command {
	c := &readCall{call: newCall(s)}
	return &cli.Command{
		Name:      "read",
		Category:  command.CategoryMessages,
		Usage:     "show messages",
		ArgsUsage: "[ID|FILE…] [--all]",
		Description: `read finds a message in any mailbox, whether it is pending, sent, archived or a dead
letter. The message counts as noticed if its recipient reads it, and stays in the inbox
until oacp ack marks it as handled. ID may be the short id that oacp inbox shows. --all shows all pending messages, in processing order.

If a message is not valid, read shows what it can decode and the first error. You can
also name a file in an inbox as oacp inbox lists it. read escapes control characters.
Outside a terminal, where a model may read it, each line of a body begins with "|",
and what looks like a tag is escaped. --raw prints the bytes of the file.

EXAMPLES:
   oacp read ID ID
   oacp read --all --agent codex
   oacp read ID --json | jq -r .body`,
		Flags: c.flagsWith(
			&cli.BoolFlag{Name: "all", Usage: "show all pending messages of the agent", Destination: &c.all},
			c.agentFlag("read the copy of `AGENT`, or with --all its inbox (default: $OACP_AGENT)"),
			&cli.BoolFlag{Name: "unverified", Category: command.Rare, Usage: "also show held messages, to a person", Destination: &c.unverified},
			&cli.BoolFlag{Name: "raw", Usage: "print the file's bytes", Destination: &c.raw}),
		Action: c.action(anyNumber, c.run),
	}
}

// checkIDs checks that either ids are given, or --all.
func checkIDs(ids []string, all bool) error {
	switch {
	case all && len(ids) > 0:
		return failure.Usagef("ids and --all are mutually exclusive")
	case !all && (len(ids) == 0 || slices.Contains(ids, "")):
		return errNoID().WithHint("oacp inbox lists pending messages; --all takes all of them")
	}
	return nil
}

func errNoID() *failure.Error {
	return failure.Usagef("which message? needs an id").WithHint("oacp inbox lists pending messages")
}

func (c *readCall) run() error {
	switch {
	case c.raw && c.asJSON:
		return failure.Usagef("--raw and --json are mutually exclusive")
	case c.raw && (c.all || len(c.words) > 1):
		return failure.Usagef("--raw prints one file")
	}
	if err := checkIDs(c.words, c.all); err != nil {
		return err
	}
	var options mailbox.Options
	if c.unverified && !c.IsPerson() {
		return &failure.Error{
			Code: "person", Err: errors.New("only a person reads messages that nobody has signed"),
			Hint: "use a terminal, or write oacp --as-person before the command",
		}
	}
	if c.unverified {
		options.Screen = mailbox.Unscreened
	}
	return c.with(&options, func(w *mailbox.Workspace) error {
		if c.agent != "" {
			w.ViewAs(c.agent)
		}
		read := c.readNamed
		if c.all {
			read = c.readAll
		}
		for {
			if err := read(w); !errors.Is(err, errMoved) {
				return err
			}
		}
	})
}

// reader is the agent that reads, or empty.
func (c *call) reader() schema.AgentName {
	return cmp.Or(c.agent, schema.AgentName(c.Getenv("OACP_AGENT")))
}

// readNamed shows the messages that the arguments name.
func (c *readCall) readNamed(w *mailbox.Workspace) error {
	var messages []shown
	var pending []mailbox.Entry
	for _, id := range c.words {
		found, err := c.findToRead(w, id)
		if err != nil {
			return err
		}
		e := found[0]
		switch {
		case e.IsHeld():
			return e.Err
		case c.raw:
			_, data, err := w.Read(e)
			if data == nil { // else it need not be a message
				return err
			}
			return c.show(c.reader(), found, func() error {
				_, err := c.Out.Write(data)
				return err
			})
		case e.Message == nil:
			return failure.WithHint(fmt.Errorf("%s is not a message: %w", e.Name, e.Err), doctor.BadFileHint(e))
		}
		list := places(w, found)
		for i := range list {
			if e := found[i : i+1]; e[0].Box == mailbox.Inbox {
				list[i].setReply(responses(c.ctx, w, e[0].Agent, e)[e[0].Message.ID])
			}
		}
		messages = append(messages, shown{e, list})
		pending = append(pending, found...)
	}
	return c.show(c.reader(), pending, func() error { return c.printAll(messages, len(c.words) == 1) })
}

// errMoved says that a message has left the inbox since it was found: it may have been taken back.
var errMoved = errors.New("a message has left the inbox")

// show gives the reader those of the files that are in its inbox, prints them, and records that it has noticed them. In a
// workspace that cannot be written, it only prints. After errMoved, nothing is printed, and the caller looks again.
func (c *call) show(reader schema.AgentName, files []mailbox.Entry, print func() error) error {
	files = slices.DeleteFunc(slices.Clone(files), func(e mailbox.Entry) bool { return e.Agent != reader || e.Box != mailbox.Inbox })
	if len(files) == 0 {
		return cmp.Or(print(), c.Out.Flush())
	}
	acts, err := c.as(reader)
	if err != nil {
		return err
	}
	given, err := acts.Read(c.ctx, files)
	messages := slices.DeleteFunc(files, func(e mailbox.Entry) bool { return e.Err != nil })
	switch {
	case err != nil:
		c.Warn("this cannot be recorded, so the message counts as new: " + failure.OneLine(err.Error()))
	case len(given) < len(messages):
		return errMoved
	}
	return c.showGiven(acts, given, print)
}

// showGiven prints messages that were given to the agent, and records that it has noticed them. If the reader goes away, they
// are new again.
func (c *call) showGiven(acts *client.Client, given []*client.Request, print func() error) error {
	if err := cmp.Or(print(), c.Out.Flush()); err != nil {
		return errors.Join(err, acts.Return(false, given...))
	}
	return acts.Shown(given...)
}

// findToRead returns the copies of a message. The first one is the one to show.
func (c *readCall) findToRead(w *mailbox.Workspace, id string) ([]mailbox.Entry, error) {
	found, err := w.FindNamed(c.ctx, id, c.agent)
	unreadable, err := mailbox.SplitUnreadable(err)
	if err != nil {
		return nil, err
	}
	own := slices.IndexFunc(found, func(e mailbox.Entry) bool { return e.Agent == c.reader() })
	if own > 0 {
		found[0], found[own] = found[own], found[0]
	}
	if unreadable != nil && found[0].Message != nil && !c.raw {
		c.Warn("there may be more copies: " + failure.OneLine(unreadable.Error()))
	}
	return found, nil
}

// readAll shows the inbox of the agent.
func (c *readCall) readAll(w *mailbox.Workspace) error {
	agent, err := c.views(c.agent)
	if err != nil {
		return err
	}
	entries, err := w.List(c.ctx, agent, mailbox.Inbox)
	if err != nil {
		return err
	}
	if len(entries) == 0 && !c.asJSON {
		c.Printf("%s: nothing pending\n", agent)
	}
	return c.show(agent, entries, func() error {
		return c.printAll(withReplies(c.ctx, w, agent, entries), false)
	})
}

// withReplies returns entries as an agent sees them: with its replies to those that are in its inbox.
func withReplies(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, entries []mailbox.Entry) []shown {
	replies := responses(ctx, w, agent, entries)
	messages := make([]shown, len(entries))
	for i, e := range entries {
		messages[i] = shown{e, places(w, entries[i:i+1])}
		if e.Message != nil && e.Agent == agent && e.Box == mailbox.Inbox {
			messages[i].places[0].setReply(replies[e.Message.ID])
		}
	}
	return messages
}

// shown is a message, or a file that is not one, and all its copies.
type shown struct {
	entry  mailbox.Entry
	places []place
}

// printAll prints messages, with what ends the work on those that are in the inbox of the agent. Several messages get numbered
// headings. As JSON, each message is one line, unless the caller asked for one message.
func (c *call) printAll(messages []shown, one bool) error {
	s := c.Streams
	for i, m := range messages {
		if c.asJSON {
			object, err := messageJSON(m.entry, m.places, s)
			write := command.WriteJSONLine
			if one {
				write = command.WriteJSON
			}
			if err == nil {
				err = write(s.Out, object)
			}
			if err != nil {
				return err
			}
			continue
		}
		if len(messages) > 1 {
			s.Printf("%s--- %d of %d ---\n", strings.Repeat("\n", min(i, 1)), i+1, len(messages))
		}
		if m.entry.Message == nil {
			printField(s, "file", m.places[0].name())
			problem := "not a message"
			if m.entry.IsHeld() {
				problem = "held"
			}
			printField(s, problem, failure.OneLine(m.entry.Err.Error()))
			continue
		}
		printMessage(s, m.entry, m.places)
		if isPending := m.entry.Box == mailbox.Inbox && m.entry.Err == nil; isPending && m.entry.Agent == c.acting {
			c.Printf("\nwhen done: %s\n", visible.Line(c.afterWork(m.entry.Message, m.places[0].Answered)))
		}
	}
	return nil
}

// A place is a file that holds a message.
type place struct {
	Agent schema.AgentName `json:"agent"`
	Box   mailbox.Box      `json:"box"`
	Path  string           `json:"path"`
	// Reason says why a message is a dead letter. Output is the end of what its last turn printed.
	Reason string `json:"reason,omitempty"`
	Output string `json:"output,omitempty"`
	// Finding says whether the agent trusts the signature of this file.
	trust.Finding
	// Differs is set if the file holds another message under the same id.
	Differs bool `json:"differs,omitempty"`
	// Reply is the id of what the agent sent in reply while the message is pending. Answered is set if
	// it answers the message.
	Reply    schema.ID `json:"reply,omitempty"`
	Answered bool      `json:"answered,omitempty"`
	// asked reports whether it asks back.
	asked bool
}

// name returns the path below the workspace.
func (p place) name() string { return schema.BoxPath(p.Agent, p.Box) + "/" + filepath.Base(p.Path) }

func (p *place) setReply(r conversation.Response) {
	if r.Message != nil {
		p.Reply, p.Answered, p.asked = r.Message.ID, r.Answers, !r.Answers && r.Message.Type.IsRequest()
	}
}

// responses returns the agent's replies to the entries. It ignores an outbox that cannot be read, so that
// the messages are shown all the same.
func responses(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, entries []mailbox.Entry) map[schema.ID]conversation.Response {
	found, _ := conversation.Responses(ctx, w, agent, entries)
	return found
}

func places(w *mailbox.Workspace, found []mailbox.Entry) []place {
	list := make([]place, len(found))
	checker := trust.NewChecker(w)
	for i, e := range found {
		list[i] = place{Agent: e.Agent, Box: e.Box, Path: e.Path, Finding: checker.Check(e), Differs: !reflect.DeepEqual(e.Message, found[0].Message)}
		if e.Box != mailbox.DeadLetters {
			continue
		}
		// Other tools leave dead letters without a reason.
		if reason, err := w.Reason(e); err == nil {
			list[i].Reason, list[i].Output = reason.Reason, reason.Output
		}
	}
	return list
}
