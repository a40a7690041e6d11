package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

func newSendCommand(s *command.Streams) *cli.Command {
	d := &delivery{call: newCall(s)}
	return &cli.Command{
		Name:      "send",
		Category:  command.CategoryMessages,
		Usage:     "send a message",
		ArgsUsage: "[PROJECT] --to AGENT --type TYPE --subject TEXT",
		Description: `If send succeeds, the message is on disk in every recipient's inbox. If it fails, it
is in none, unless the error says that it was sent (not_sent: by the next sync).

--wait waits until all recipients have acknowledged it, --wait=noticed until all have
seen it, --wait=reply until one answers. Status 1: it is dead, declined, recalled,
expired or agent_removed; 3: the time is over, or P0 mail came first.

EXAMPLES:
   git diff | oacp send --to claude --type review_request --subject "This diff"
   oacp send --to codex -t question -s Port -b "…" --wait=reply`,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringSliceFlag{Name: "to", Usage: "send to `AGENT`[,AGENT…], at most 10, or to all", Destination: &d.to},
			&cli.GenericFlag{Name: "type", Aliases: []string{"t"}, Usage: "the message type is `TYPE`: see oacp help types", Value: command.Type(&d.fields.Type)},
		}, d.composeFlags(), []cli.Flag{
			&cli.StringFlag{Name: "choices", Category: command.Rare, Usage: "offer 2 to 9 answers: `TEXT,TEXT…`; reply --choose takes one", Destination: &d.choices},
			&cli.StringFlag{Name: "in-reply-to", Category: command.Rare, Usage: "reply to the message `ID`, in its conversation", Destination: &d.inReplyTo},
			&cli.StringFlag{Name: "conversation-id", Category: command.Rare, Usage: "use the conversation `ID`, or that of the message ID", Destination: &d.conversation},
			&cli.StringFlag{Name: "parent-message-id", Category: command.Rare, Usage: "set the parent message to `ID`, and nothing else", Destination: &d.parent},
			&cli.StringFlag{Name: "template", Usage: "only print a body to fill in: `TEMPLATE`, such as handoff", Destination: &d.template},
			&cli.StringFlag{Name: "file", Usage: "read the message from `FILE`, as --dry-run prints it", Destination: &d.file},
		}, d.deliveryFlags()),
		Action: d.action(anyNumber, d.send),
	}
}

func newReplyCommand(s *command.Streams) *cli.Command {
	d := &delivery{call: newCall(s)}
	return &cli.Command{
		Name:      "reply",
		Category:  command.CategoryMessages,
		Usage:     "answer a message",
		ArgsUsage: "ID [--body TEXT] [--ack]",
		Description: `reply sends the answer to the sender of the message, in its conversation. Subject,
priority and type follow from the message: review_feedback answers a review_request,
handoff_complete a handoff, and a notification a task_request or a question. A
notification completes a task only with --final, which --ack implies.

--ack takes the message out of the inbox once the answer is sent.

EXAMPLES:
   oacp reply ID --body "Done, see #43." --ack
   oacp reply ID --type question --body-file questions.md`,
		Flags: slices.Concat(d.composeFlags(), []cli.Flag{
			&cli.BoolFlag{Name: "ack", Usage: "acknowledge the message after sending the answer, which is final", Destination: &d.ack},
			&cli.StringFlag{Name: "choose", Usage: "answer with `CHOICE`, its number, or approve, accept…", Destination: &d.choose},
			&cli.StringFlag{Name: "decline", Usage: "refuse, and say why: `REASON`", Destination: &d.decline},
			&cli.BoolFlag{Name: "final", Usage: "mark this as the complete answer, whatever its type", Destination: &d.final},
			&cli.GenericFlag{Name: "type", Aliases: []string{"t"}, Usage: "the answer's type is `TYPE` (default: the type that answers the message)", Value: command.Type(&d.fields.Type)},
			&cli.BoolFlag{Name: "again", Category: command.Rare, Usage: "send an answer to a message that is answered, or that a turn works on", Destination: &d.again},
		}, d.deliveryFlags()),
		Action: d.action(1, d.reply),
	}
}

// composeFlags are the flags of send and reply for the parts of a message.
func (d *delivery) composeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "subject", Aliases: []string{"s"}, Usage: "the subject is `TEXT`, at most 200 characters", Destination: &d.fields.Subject},
		&cli.StringFlag{Name: "body", Aliases: []string{"b"}, Usage: "the body is `TEXT`", Destination: &d.body},
		&cli.StringFlag{Name: "body-file", Usage: "read the body from `FILE`, - for standard input", Destination: &d.bodyFile},
		&cli.StringFlag{Name: "from", Usage: "the sender is `AGENT` (default: $OACP_AGENT)", Destination: (*string)(&d.from)},
		&cli.GenericFlag{Name: "priority", Usage: "`PRIORITY` is P0 (urgent), P1, P2 (normal) or P3 (low)", Value: command.Priority(&d.fields.Priority)},
		&cli.GenericFlag{Name: "expires", Aliases: []string{"by"}, Category: command.Rare, Usage: "expire after `TIME`, such as 90s, 30m or 7d, or at YYYY-MM-DDTHH:MM:SSZ: if it is unanswered then, it gets no turn, nobody owes an answer, and oacp owed says so", Value: command.Parsed(&d.fields.ExpiresAt, d.parseExpiry)},
		&cli.StringFlag{Name: "channel", Category: command.Rare, Usage: "the channel is `NAME`, a label of your choice", Destination: &d.fields.Channel},
		&cli.StringFlag{Name: "related-pr", Category: command.Rare, Usage: "the message is about pull request `NUMBER`", Destination: &d.fields.RelatedPR},
		&cli.StringFlag{Name: "related-packet", Category: command.Rare, Usage: "the message is about the packet `NAME`", Destination: &d.fields.RelatedPacket},
		&cli.StringFlag{Name: "context-keys", Category: command.Rare, Usage: "add `TEXT` as context for the recipient", Destination: &d.fields.ContextKeys},
		&cli.StringFlag{Name: "context-keys-file", Category: command.Rare, Usage: "read the context from `FILE`", Destination: &d.contextKeysFile},
		&cli.StringFlag{Name: "autonomy-hint", Category: command.Rare, Usage: "`HINT` is auto_proceed: the recipient may proceed without asking", Destination: &d.fields.AutonomyHint},
		&cli.StringFlag{Name: "model", Category: command.Rare, Usage: "in a review message: the model `NAME` did the work", Destination: &d.fields.Telemetry.Model},
		&cli.StringFlag{Name: "turns", Category: command.Rare, Usage: "the work took `COUNT` turns", Destination: &d.fields.Telemetry.Turns},
		&cli.StringFlag{Name: "input-tokens", Category: command.Rare, Usage: "the model read `COUNT` tokens", Destination: &d.fields.Telemetry.InputTokens},
		&cli.StringFlag{Name: "output-tokens", Category: command.Rare, Usage: "the model wrote `COUNT` tokens", Destination: &d.fields.Telemetry.OutputTokens},
		&cli.StringFlag{Name: "wall-time", Category: command.Rare, Usage: "the work took `SECONDS`", Destination: &d.fields.Telemetry.WallTimeS},
		&cli.StringFlag{Name: "cost", Category: command.Rare, Usage: "the work cost `DOLLARS`, such as 0.18", Destination: &d.fields.Telemetry.EstCostUSD},
		&cli.StringFlag{Name: "agent", Hidden: true, Destination: (*string)(&d.agent)},
	}
}

func (d *delivery) send() error {
	err := d.place.TakeProject(d.words)
	if err == nil && len(d.words) > 0 && !d.create {
		_, err = d.place.Place(d.Streams).Find() // an unknown project is reported before a missing body
	}
	switch {
	case err != nil && strings.HasPrefix(failure.Of(err).Hint, "did you mean"):
		return err
	case err != nil:
		return failure.WithHint(err, "the argument of send is a project; --to names the recipients, and --body the text")
	}
	if d.template != "" {
		return d.printTemplate()
	}
	if err := d.check(); err != nil {
		return err
	}
	if err := d.checkMissing(); err != nil {
		return err
	}
	if d.file != "" {
		if err := d.readMessage(); err != nil {
			return err
		}
	}
	if names := d.to.Value(); len(names) > 0 {
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
		acts, err := d.sender(cmp.Or(d.from, d.draft.From))
		if err != nil {
			return err
		}
		p, err := acts.Prepare(d.ctx, client.Draft{
			Message: d.draft, InReplyTo: d.inReplyTo, Parent: d.parent, Conversation: d.conversation, Source: d.source(), SendOptions: d.options(),
		})
		if err != nil {
			return flagError(err)
		}
		if len(p.Parts) > 1 && d.wait != "" {
			return failure.Usagef("--wait waits for one message, and %s are %d agents, more than one message has", schema.Everyone, len(slices.Concat(p.Parts...))).
				WithHint("send without --wait; oacp owed lists the answers that are missing")
		}
		if d.prepared != nil {
			*d.prepared.Message = p.Message
			if err := d.prepared.Check(); err != nil {
				return err
			}
		}
		return d.deliver(p)
	})
}

// flagError names the flag that an error of package client is about.
func flagError(err error) error {
	if recipients, ok := errors.AsType[*client.RecipientsError](err); ok {
		return failure.Usagef("--to: %w", recipients)
	}
	if thread, ok := errors.AsType[*client.ThreadError](err); ok {
		return fmt.Errorf("--%s: %w", strings.ReplaceAll(thread.Field, "_", "-"), thread.Err)
	}
	if choice, ok := errors.AsType[*schema.NoChoiceError](err); ok {
		return fmt.Errorf("--choose: %w", choice)
	}
	return err
}

// checkMissing returns an error if send lacks a flag that it needs.
func (d *delivery) checkMissing() error {
	var missing []string
	for _, flag := range []struct {
		name  string
		given bool
	}{{"to", d.given(&d.to)}, {"type", d.fields.Type != ""}, {"subject", d.given(&d.fields.Subject)}} {
		if !flag.given {
			missing = append(missing, "--"+flag.name)
		}
	}
	if len(missing) == 0 || d.file != "" {
		return nil
	}
	err := failure.Usagef("needs %s", strings.Join(missing, ", "))
	if d.fields.Type == "" {
		err.Hint = "--type is one of " + spelling.Join(schema.Types()) + "; oacp help types explains them"
	}
	return err
}

// readMessage reads the message that --file names.
func (d *delivery) readMessage() error {
	name := d.file
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

func (d *delivery) reply() error {
	id, err := d.only(errNoID())
	if err != nil {
		return err
	}
	if d.final && d.fields.Type == schema.Question {
		return failure.Usagef("--final: a question is never the answer")
	}
	declines := d.given(&d.decline)
	if declines && (d.givesBody() || d.final || d.given(&d.choose) || d.fields.Type != "") {
		return failure.Usagef("--decline sends its REASON alone: leave out --body, --body-file, --choose, --type and --final")
	}
	if err := d.check(); err != nil {
		return err
	}
	return d.inWorkspace(func() error {
		if d.request, err = d.findRequest(id); err != nil {
			return err
		}
		answer := d.request.Draft()
		d.draft = answer.Message
		if err := d.fill(); err != nil {
			return err
		}
		answer.Message, answer.Source, answer.SendOptions = d.draft, d.source(), d.options()
		answer.Choose, answer.Final, answer.Acknowledge, answer.Again, answer.Decline = d.choose, d.final, d.ack, d.again, declines
		p, err := d.request.Prepare(d.ctx, answer)
		if err == nil {
			err = d.deliver(p)
		}
		if _, invalid := errors.AsType[*validate.InvalidError](err); invalid && d.draft.Type == schema.HandoffComplete {
			return failure.WithHint(err, "oacp send --template handoff_complete --in-reply-to "+d.request.Message.ID.Short()+" prints a body to fill in; "+
				"--type notification --final answers in free text")
		}
		return flagError(err)
	})
}

// findRequest finds the message to answer, as the agent that answers it.
func (d *delivery) findRequest(id string) (*client.Request, error) {
	found, err := d.w.Find(d.ctx, id)
	if _, err = mailbox.SplitUnreadable(err); err != nil {
		return nil, err
	}
	acts, err := d.sender(d.from)
	if to := found[0].Message.To; errors.Is(err, project.ErrNoSender) && len(to) == 1 {
		acts, err = d.as(to[0]) // nobody else can answer
	}
	if err == nil {
		err = d.w.CheckAgent(acts.Agent())
	}
	if err != nil {
		return nil, err
	}
	isFile := func(name string) bool { return name != "" && name != "-" }
	if _, inSession := d.Caller().Session(d.w); inSession && (isFile(d.bodyFile) || isFile(d.contextKeysFile)) {
		return nil, &failure.Error{
			Code: "file_in_session", Err: errors.New("a live session sends answers without asking, so no flag may read a file"),
			Hint: "use --body TEXT, or a pipe: the program checks the commands in it",
		}
	}
	return acts.RequestOf(d.ctx, found)
}

// sender returns the client of the agent that --from or a prepared message names, or else the one that the environment names.
func (d *delivery) sender(from schema.AgentName) (*client.Client, error) {
	acts, err := d.as(from)
	if errors.Is(err, project.ErrNoSender) {
		err = failure.WithHint(err, "use --from AGENT, or set OACP_AGENT")
	}
	return acts, err
}
