package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
	"github.com/oacp-go/oacp/validate"
)

func newSendCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "send",
		Category:  command.CategoryMessages,
		Usage:     "send a message",
		ArgsUsage: "[PROJECT] --to AGENT --type TYPE --subject TEXT",
		Description: `If send succeeds, the message is on disk in every recipient's inbox. If it fails, it
is in none, unless the error says that it was sent (not_sent: by the next sync).

--wait waits until all recipients have acknowledged it, --wait=noticed until all have
seen it, --wait=reply until one answers. Status 1: it is dead, recalled, expired or
agent_removed before that; 3: the time is over, or P0 mail came first.

EXAMPLES:
   git diff | oacp send --to claude --type review_request --subject "This diff"
   oacp send --to codex -t question -s Port -b "…" --wait=reply`,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringSliceFlag{Name: "to", Usage: "send to `AGENT`[,AGENT…], at most 10, or to all"},
			&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "the message type is `TYPE`: see oacp help types"},
		}, composeFlags(), []cli.Flag{
			&cli.StringFlag{Name: "choices", Category: command.Rare, Usage: "offer 2 to 9 answers: `TEXT,TEXT…`; reply --choose takes one"},
			&cli.StringFlag{Name: "in-reply-to", Category: command.Rare, Usage: "reply to the message `ID`, in its conversation"},
			&cli.StringFlag{Name: "conversation-id", Category: command.Rare, Usage: "use the conversation `ID`, or that of the message ID"},
			&cli.StringFlag{Name: "parent-message-id", Category: command.Rare, Usage: "set the parent message to `ID`, and nothing else"},
			&cli.StringFlag{Name: "template", Usage: "only print a body to fill in: `TEMPLATE`, such as handoff"},
			&cli.StringFlag{Name: "file", Usage: "read the message from `FILE`, as --dry-run prints it"},
		}, deliveryFlags()),
		Action: action(s, anyNumber, runSend),
	}
}

func newReplyCommand(s *command.Streams) *cli.Command {
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
		Flags: slices.Concat(composeFlags(), []cli.Flag{
			&cli.BoolFlag{Name: "ack", Usage: "acknowledge the message after sending the answer, which is final"},
			&cli.StringFlag{Name: "choose", Usage: "answer with `CHOICE` or its number"},
			&cli.BoolFlag{Name: "final", Usage: "mark this as the complete answer, whatever its type"},
			&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "the answer's type is `TYPE` (default: the type that answers the message)"},
			&cli.BoolFlag{Name: "again", Category: command.Rare, Usage: "send an answer to a message that is answered, or that a turn works on"},
		}, deliveryFlags()),
		Action: action(s, 1, runReply),
	}
}

// composeFlags are the flags of send and reply for the parts of a message.
func composeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "subject", Aliases: []string{"s"}, Usage: "the subject is `TEXT`, at most 200 characters"},
		&cli.StringFlag{Name: "body", Aliases: []string{"b"}, Usage: "the body is `TEXT`"},
		&cli.StringFlag{Name: "body-file", Usage: "read the body from `FILE`, - for standard input"},
		&cli.StringFlag{Name: "from", Usage: "the sender is `AGENT` (default: $OACP_AGENT)"},
		&cli.StringFlag{Name: "priority", Usage: "`PRIORITY` is P0 (urgent), P1, P2 (normal) or P3 (low)"},
		&cli.StringFlag{Name: "expires", Aliases: []string{"by"}, Category: command.Rare, Usage: "expire after `TIME`, such as 90s, 30m or 7d, or at YYYY-MM-DDTHH:MM:SSZ"},
		&cli.StringFlag{Name: "channel", Category: command.Rare, Usage: "the channel is `NAME`, a label of your choice"},
		&cli.StringFlag{Name: "related-pr", Category: command.Rare, Usage: "the message is about pull request `NUMBER`"},
		&cli.StringFlag{Name: "related-packet", Category: command.Rare, Usage: "the message is about the packet `NAME`"},
		&cli.StringFlag{Name: "context-keys", Category: command.Rare, Usage: "add `TEXT` as context for the recipient"},
		&cli.StringFlag{Name: "context-keys-file", Category: command.Rare, Usage: "read the context from `FILE`"},
		&cli.StringFlag{Name: "autonomy-hint", Category: command.Rare, Usage: "`HINT` is auto_proceed: the recipient may proceed without asking"},
		&cli.StringFlag{Name: "model", Category: command.Rare, Usage: "in a review message: the model `NAME` did the work"},
		&cli.StringFlag{Name: "turns", Category: command.Rare, Usage: "the work took `COUNT` turns"},
		&cli.StringFlag{Name: "input-tokens", Category: command.Rare, Usage: "the model read `COUNT` tokens"},
		&cli.StringFlag{Name: "output-tokens", Category: command.Rare, Usage: "the model wrote `COUNT` tokens"},
		&cli.StringFlag{Name: "wall-time", Category: command.Rare, Usage: "the work took `SECONDS`"},
		&cli.StringFlag{Name: "cost", Category: command.Rare, Usage: "the work cost `DOLLARS`, such as 0.18"},
		&cli.StringFlag{Name: "agent", Hidden: true},
	}
}

// fieldFlags maps flags to the fields whose text they set.
var fieldFlags = map[string]string{
	"subject": "subject", "channel": "channel", "related-pr": "related_pr", "related-packet": "related_packet", "context-keys": "context_keys",
	"autonomy-hint": "autonomy_hint", "model": "model", "turns": "turns", "input-tokens": "input_tokens", "output-tokens": "output_tokens",
	"cost": "est_cost_usd", "wall-time": "wall_time_s",
}

// checkCompose checks the flags of send and reply. A type or priority that is given must not be empty; an empty
// text is an invalid message.
func checkCompose(c *call) error {
	if c.isSet("agent") {
		return failure.Usagef("there is no flag --agent").WithHint("--from AGENT names the sender, --to AGENT the recipient")
	}
	for _, name := range []string{"type", "priority"} {
		if c.isSet(name) && c.text(name) == "" {
			return failure.Usagef("--%s is empty", name)
		}
	}
	return nil
}

func runSend(c *call) error {
	err := c.place.TakeProject(c.words)
	if err == nil && len(c.words) > 0 && !c.isOn("create") {
		_, err = c.place.Place(c.Streams).Find() // an unknown project is reported before a missing body
	}
	switch {
	case err != nil && strings.HasPrefix(failure.Of(err).Hint, "did you mean"):
		return err
	case err != nil:
		return failure.WithHint(err, "the argument of send is a project; --to names the recipients, and --body the text")
	}
	if c.text("template") != "" {
		return printTemplate(c)
	}
	d, err := newDelivery(c)
	if err != nil {
		return err
	}
	var missing []string
	for _, name := range []string{"to", "type", "subject"} {
		if !c.isSet(name) && c.text("file") == "" {
			missing = append(missing, "--"+name)
		}
	}
	if len(missing) > 0 {
		err := failure.Usagef("needs %s", strings.Join(missing, ", "))
		if !c.isSet("type") {
			err.Hint = "--type is one of " + spelling.Join(schema.Types()) + "; oacp help types explains them"
		}
		return err
	}
	if c.text("file") != "" {
		if err := d.readMessage(); err != nil {
			return err
		}
	}
	if names := c.texts("to"); len(names) > 0 {
		d.draft.To = nil
		for _, name := range names {
			if name = strings.TrimSpace(name); name != "" {
				d.draft.To = append(d.draft.To, schema.AgentName(name))
			}
		}
	}
	if err := d.fill(); err != nil {
		return err
	}
	return d.inWorkspace(func() (err error) {
		if d.draft.From, err = d.sender(cmp.Or(c.text("from"), string(d.draft.From))); err != nil {
			return err
		}
		if d.parts, err = project.Recipients(d.w, d.draft.From, d.draft.Type, d.draft.To); err != nil {
			return failure.Usagef("--to: %w", err)
		}
		if len(d.parts) > 1 && d.wait != "" {
			return failure.Usagef("--wait waits for one message, and %s are %d agents, more than one message has", schema.Everyone, len(slices.Concat(d.parts...))).
				WithHint("send without --wait; oacp owed lists the answers that are missing")
		}
		d.draft.To = d.parts[0]
		if err := d.thread(); err != nil {
			return err
		}
		if d.prepared != nil {
			*d.prepared.Message = d.draft
			if err := d.prepared.Check(); err != nil {
				return err
			}
		}
		return d.deliver()
	})
}

// readMessage reads the message that --file names.
func (d *delivery) readMessage() error {
	name := d.text("file")
	text, err := readInput(name, d.Streams)
	if errors.Is(err, os.ErrNotExist) {
		err = failure.Usagef("--file: %w", err)
	}
	if err != nil {
		return err
	}
	if name == "-" {
		name = "<stdin>"
	}
	if d.prepared, err = validate.ParseDraft(name, []byte(text)); err == nil {
		d.draft = *d.prepared.Message
	}
	return err
}

// thread sets the parent and the conversation of the message.
func (d *delivery) thread() (err error) {
	if named := d.text("conversation-id"); named != "" {
		if d.draft.ConversationID, err = conversation.Named(d.ctx, d.w, named); err != nil {
			return fmt.Errorf("--conversation-id: %w", err)
		}
	}
	parent, found := d.text("in-reply-to"), true
	if parent != "" {
		if found, err = conversation.AnswerTo(d.ctx, d.w, &d.draft, parent); err != nil {
			return fmt.Errorf("--in-reply-to: %w", err)
		}
	} else if parent = d.text("parent-message-id"); parent != "" {
		if d.draft.ParentID, _, found, err = conversation.After(d.ctx, d.w, parent); err != nil {
			return fmt.Errorf("--parent-message-id: %w", err)
		}
	}
	if !found {
		d.warnings = append(d.warnings, "there is no message "+parent+" any more; the new one names it as its parent anyway")
		d.Warn(d.warnings[len(d.warnings)-1])
	}
	return nil
}

func runReply(c *call) error {
	id, err := c.only(errNoID())
	if err != nil {
		return err
	}
	if c.isOn("final") && strings.EqualFold(c.text("type"), string(schema.Question)) {
		return failure.Usagef("--final: a question is never the answer")
	}
	d, err := newDelivery(c)
	if err != nil {
		return err
	}
	return d.inWorkspace(func() error {
		from, err := d.findAnswered(id)
		if err != nil {
			return err
		}
		d.draft = conversation.Reply(d.answered, from)
		if err := d.fill(); err != nil {
			return err
		}
		if c.isSet("choose") {
			if err := d.draft.Choose(d.answered, c.text("choose")); err != nil {
				return fmt.Errorf("--choose: %w", err)
			}
		}
		if conversation.Conclude(&d.draft, d.answered, c.isOn("final"), c.isOn("ack")) {
			note := fmt.Sprintf("a %s does not answer a %s; --final makes it the answer", d.draft.Type, d.answered.Type)
			c.Note(note)
			d.warnings = append(d.warnings, note)
		}
		if c.isOn("ack") {
			held, err := conversation.FindCopy(c.ctx, d.w, string(d.answered.ID), from)
			if err != nil {
				return err
			}
			d.pending = &held
		}
		err = d.deliver()
		if _, invalid := errors.AsType[*validate.InvalidError](err); invalid && d.draft.Type == schema.HandoffComplete {
			return failure.WithHint(err, "oacp send --template handoff_complete --in-reply-to "+d.answered.ID.Short()+" prints a body to fill in; "+
				"--type notification --final answers in free text")
		}
		return err
	})
}

// findAnswered finds the message to answer, and returns the agent that answers it.
func (d *delivery) findAnswered(id string) (from schema.AgentName, err error) {
	found, err := d.w.Find(d.ctx, id)
	if _, err = mailbox.SplitUnreadable(err); err != nil {
		return "", err
	}
	from, err = d.sender(d.text("from"))
	if to := found[0].Message.To; errors.Is(err, project.ErrNoSender) && len(to) == 1 {
		from, err = d.actsFor(to[0], nil) // nobody else can answer
	}
	if err == nil {
		err = d.w.CheckAgent(from)
	}
	if err != nil {
		return "", err
	}
	isFile := func(flag string) bool { return d.text(flag) != "" && d.text(flag) != "-" }
	if _, inSession := command.SessionAgent(d.w, d.Streams); inSession && (isFile("body-file") || isFile("context-keys-file")) {
		return "", &failure.Error{
			Code: "file_in_session", Err: errors.New("a live session sends answers without asking, so no flag may read a file"),
			Hint: "use --body TEXT, or a pipe: the program checks the commands in it",
		}
	}
	if d.answered, err = conversation.Original(found, from); err == nil {
		err = turn.CheckFence(d.ctx, d.w, d.answered.ID, from, d.Getenv)
	}
	return from, err
}

// sender returns the agent that --from or a prepared message names, or else the one that the
// environment names.
func (d *delivery) sender(from string) (schema.AgentName, error) {
	agent, err := d.actsFor(command.ActingAgent(d.w, from, d.Streams))
	if errors.Is(err, project.ErrNoSender) {
		err = failure.WithHint(err, "use --from AGENT, or set OACP_AGENT")
	}
	return agent, err
}
