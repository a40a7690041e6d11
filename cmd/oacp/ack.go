package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// An ackCall is a call of ack.
type ackCall struct {
	*call
	all      bool
	selected selection
}

func newAckCommand(s *command.Streams) *cli.Command {
	c := &ackCall{call: newCall(s)}
	return &cli.Command{
		Name:      "ack",
		Category:  command.CategoryMessages,
		Usage:     "mark messages as handled",
		ArgsUsage: "[ID|FILE…] [--all]",
		Description: `ack moves messages from the inbox to its archive. Other recipients keep their copies.
oacp restore puts a message back.

If any id is unknown, ack does nothing. --all acknowledges every message that is
pending when ack starts, including expired ones; --type and --from select among them.
Files that are not valid messages stay.

To archive a file that is not a message, name it as oacp inbox lists it.

EXAMPLES:
   oacp ack ID
   oacp ack notes.yaml
   oacp ack --all --type notification --agent codex`,
		Flags: c.flagsWith(slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "acknowledge every pending message of the agent", Destination: &c.all},
			c.agentFlag("use the inbox of `AGENT` (default: $OACP_AGENT)"),
		}, c.selected.flags("with --all: only"))...),
		Action: c.inWorkspace(anyNumber, c.run),
	}
}

// acknowledgedJSON is an acknowledged message or file.
type acknowledgedJSON struct {
	MessageID schema.ID        `json:"message_id,omitempty"`
	File      string           `json:"file"`
	Agent     schema.AgentName `json:"agent"`
	Path      string           `json:"path"`
	// Unanswered reports whether it asks for an answer that the agent has not sent, and still owes.
	Unanswered bool `json:"unanswered,omitempty"`
}

func (c *ackCall) run(w *mailbox.Workspace) error {
	if !c.all && !c.selected.isEmpty() {
		return failure.Usagef("--type and --from need --all")
	}
	if err := checkIDs(c.words, c.all); err != nil {
		return err
	}
	pending, agent := func(id string) (mailbox.Entry, error) { return w.Pending(c.ctx, id, "") }, schema.AgentName("")
	acts, err := c.as(c.agent)
	if err == nil {
		pending, agent = func(id string) (mailbox.Entry, error) { return acts.Pending(c.ctx, id) }, acts.Agent()
	} else if c.all || !errors.Is(err, project.ErrNoSender) {
		return err
	}
	var entries, left []mailbox.Entry
	if c.all {
		entries, left, err = c.pendingSelection(w, agent)
	} else {
		entries, err = c.namedPending(pending)
	}
	if err != nil {
		return err
	}
	done, err := c.acknowledge(w, entries)
	for _, e := range left {
		if _, failed := errors.AsType[syscall.Errno](e.Err); failed { // it may be a message
			err = cmp.Or(err, e.Err)
		}
	}
	if len(done) > 0 || c.all {
		err = errors.Join(c.printAcknowledged(agent, done, left, err != nil), err)
	}
	return err
}

// acknowledge acknowledges the entries. Its error is the first one.
func (c *ackCall) acknowledge(w *mailbox.Workspace, entries []mailbox.Entry) (done []acknowledgedJSON, first error) {
	done = []acknowledgedJSON{}
	unanswered := c.unanswered(w, entries)
	errs, err := client.AcknowledgeAll(c.ctx, w, c.Caller(), entries)
	if err != nil {
		return nil, err
	}
	for i, err := range errs {
		_, isRecalled := errors.AsType[*client.RecalledError](err)
		if !c.all || !mailbox.IsGone(err) && !isRecalled { // else another process has dealt with it
			first = cmp.Or(first, err)
		}
		if _, moved := errors.AsType[*mailbox.NotDurableError](err); err != nil && !moved {
			continue
		}
		e := entries[i]
		one := acknowledgedJSON{File: e.Name, Agent: e.Agent, Path: e.Path}
		if e.Err == nil {
			one.MessageID, one.Unanswered = e.Message.ID, unanswered[e.Path]
		}
		done = append(done, one)
	}
	return done, first
}

// unanswered returns the paths of the requests that their recipient has not answered.
func (c *ackCall) unanswered(w *mailbox.Workspace, entries []mailbox.Entry) map[string]bool {
	requests, paths := make(map[schema.AgentName][]mailbox.Entry), make(map[string]bool)
	for _, e := range entries {
		if e.Err == nil && e.Message.Type.IsRequest() {
			requests[e.Agent] = append(requests[e.Agent], e)
		}
	}
	for agent, all := range requests {
		sent, err := conversation.Responses(c.ctx, w, agent, all)
		if err != nil {
			c.Warn("some may be unanswered: " + failure.OneLine(err.Error()))
			continue
		}
		for _, e := range all {
			paths[e.Path] = !sent[e.Message.ID].Answers
		}
	}
	return paths
}

// namedPending returns the entries that the ids name, each once.
func (c *ackCall) namedPending(pending func(id string) (mailbox.Entry, error)) (entries []mailbox.Entry, err error) {
	for _, id := range c.words {
		e, err := pending(id)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(entries, func(other mailbox.Entry) bool { return other.Path == e.Path }) {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// pendingSelection returns the messages in the agent's inbox that the flags select, and the files that are
// not valid messages.
func (c *ackCall) pendingSelection(w *mailbox.Workspace, agent schema.AgentName) (wanted, left []mailbox.Entry, err error) {
	c.selected.warn(w, c.Streams)
	entries, err := w.Inbox(c.ctx, agent)
	for _, e := range entries {
		switch {
		case e.Err != nil:
			left = append(left, e)
		case c.selected.matches(e.Message):
			wanted = append(wanted, e)
		}
	}
	return wanted, left, err
}

// printAcknowledged prints the acknowledged messages and, after --all, the files left because they are not
// messages.
func (c *ackCall) printAcknowledged(agent schema.AgentName, done []acknowledgedJSON, left []mailbox.Entry, failed bool) error {
	var names []string
	for _, e := range left {
		names = append(names, e.Name)
	}
	if len(names) > 0 {
		c.Warn(fmt.Sprintf("not a valid message, so it stays: %s; oacp inbox says what is wrong", strings.Join(names, ", ")))
	}
	if c.asJSON {
		// One line, because an error may follow on another.
		answer := map[string]any{"acknowledged": done}
		if len(names) > 0 {
			answer["left"] = names
		}
		return command.WriteJSONLine(c.Out, answer)
	}
	if len(done) == 0 && !failed {
		c.Confirm("%s: nothing to acknowledge\n", agent)
	}
	for _, one := range done {
		owed := ""
		if one.Unanswered {
			owed = ", without an answer: " + string(one.Agent) + " still owes it"
		}
		c.Confirm("acknowledged: %s%s\n", visible.Line(cmp.Or(one.MessageID.Short(), one.File)), owed)
	}
	return nil
}

func newRestoreCommand(s *command.Streams) *cli.Command {
	c := newCall(s)
	return &cli.Command{
		Name:      "restore",
		Category:  command.CategoryFiles,
		Usage:     "return a message to its inbox",
		ArgsUsage: "ID…",
		Description: `restore returns a message to the inbox of each recipient that acknowledged it
or gave it up. It removes the dead letter and resets the count of turns.
A pending message gets turns again if oacp stop held it, and otherwise does not change.
A message at the stage agent_removed needs the agent first: oacp add-agent. oacp list
finds ids.

Mail of an agent that was removed is in state/removed. Once oacp add-agent has added the
agent again, restore returns it.

If any id is unknown, restore does nothing.

EXAMPLES:
   oacp restore ID
   oacp restore ID ID --agent codex`,
		Flags:  c.flagsWith(c.agentFlag("only into the inbox of `AGENT`")),
		Action: c.inWorkspace(anyNumber, c.restore),
	}
}

func (c *call) restore(w *mailbox.Workspace) error {
	if len(c.words) == 0 {
		return failure.Usagef("needs an id").WithHint("oacp list shows the ids")
	}
	if agent := schema.AgentName(c.Getenv("OACP_AGENT")); w.CheckAgent(agent) == nil {
		_, _ = c.actsFor(agent, nil)
	}
	all, failed := client.Restore(c.ctx, w, c.agent, c.words...)
	if len(all) > 0 {
		return errors.Join(printRestored(c, all), failed)
	}
	return failed
}

func printRestored(c *call, all []track.Restored) error {
	if c.asJSON {
		// One line, because an error may follow on another.
		return command.WriteJSONLine(c.Out, map[string]any{"restored": all})
	}
	for _, one := range all {
		name := visible.Line(one.ID.Short())
		switch {
		case one.Was == track.StageWaiting && one.Path == "":
			c.Confirm("%s is on its way to the inbox of %s already\n", name, one.Agent)
		case one.Was == track.StageWaiting:
			c.Confirm("%s is in the inbox of %s already\n", name, one.Agent)
		case one.Was == track.StageHeld:
			c.Confirm("OK: %s gets turns of %s again; its last one was stopped\n", name, one.Agent)
		case one.Was == track.StageAgentRemoved:
			c.Confirm("OK: %s is in the inbox of %s, which was removed before it handled it\n", name, one.Agent)
		default:
			c.Confirm("OK: %s is back in the inbox of %s; it was %s\n", name, one.Agent, one.Was)
		}
	}
	return nil
}

// A selection chooses messages by type and sender. The zero value chooses all.
type selection struct {
	types   []schema.Type
	senders []schema.AgentName
}

// flags returns --type and --from. Their usage starts with the given text.
func (s *selection) flags(usage string) []cli.Flag {
	return []cli.Flag{
		&cli.GenericFlag{Name: "type", Aliases: []string{"t"}, Usage: usage + " messages of a `TYPE`[,TYPE…]", Value: command.Types(&s.types)},
		&cli.GenericFlag{Name: "from", Usage: usage + " messages from an `AGENT`[,AGENT…]", Value: command.Each(&s.senders, schema.ParseAgentName)},
	}
}

func (s *selection) isEmpty() bool { return len(s.types)+len(s.senders) == 0 }

// warn warns of senders that the workspace does not know.
func (s *selection) warn(w *mailbox.Workspace, streams *command.Streams) {
	for _, from := range s.senders {
		if !w.Knows(from) {
			streams.Warn("the workspace has no agent " + string(from))
		}
	}
}

func (s selection) matches(m *schema.Message) bool {
	return (len(s.types) == 0 || slices.Contains(s.types, m.Type)) &&
		(len(s.senders) == 0 || slices.Contains(s.senders, m.From))
}

// String describes the messages that match, as in "question from claude or gemini".
func (s selection) String() string {
	text := "message"
	if len(s.types) > 0 {
		text = strings.ReplaceAll(spelling.Join(s.types), ", ", " or ")
	}
	if len(s.senders) > 0 {
		text += " from " + strings.ReplaceAll(spelling.Join(s.senders), ", ", " or ")
	}
	return text
}
