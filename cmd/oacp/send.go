package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

type sendOptions struct {
	composeOptions
	deliverOptions
	to             cli.StringSlice
	conversationID string
	parentID       string
	inReplyTo      string
	template, file string
}

func newSendCommand(s *command.Streams) *cli.Command {
	var o sendOptions
	address := []cli.Flag{
		&cli.StringSliceFlag{Name: "to", Usage: "send to `AGENT`[,AGENT…], at most 10, or to all", Destination: &o.to},
		&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "the message type is `TYPE`: see oacp help types", Destination: &o.typ},
	}
	threading := []cli.Flag{
		&cli.StringFlag{Name: "in-reply-to", Category: command.Rare, Usage: "reply to the message `ID`, in its conversation", Destination: &o.inReplyTo},
		&cli.StringFlag{Name: "conversation-id", Category: command.Rare, Usage: "use the conversation `ID`, or that of the message ID", Destination: &o.conversationID},
		&cli.StringFlag{Name: "parent-message-id", Category: command.Rare, Usage: "set the parent message to `ID`, and nothing else", Destination: &o.parentID},
		&cli.StringFlag{Name: "template", Usage: "only print the body `TEMPLATE`, such as handoff", Destination: &o.template},
		&cli.StringFlag{Name: "file", Usage: "read the message from `FILE`, as --dry-run prints it", Destination: &o.file},
	}
	return &cli.Command{
		Name:      "send",
		Category:  command.CategoryMessages,
		Usage:     "send a message",
		ArgsUsage: "[PROJECT] --to AGENT --type TYPE --subject TEXT",
		Description: `If send succeeds, the message is on disk in every recipient's inbox. If it fails, it
is in none, unless the error says that it was sent.

--wait returns when all recipients have acknowledged the message, --wait=noticed
when a session of each has it, --wait=reply when one has answered or a P0 message
arrives, --wait=any also on other mail. Otherwise the exit status is 3.

EXAMPLES:
   git diff | oacp send --to claude --type review_request --subject "This diff"
   oacp send --to codex -t question -s "Which port?" -b "8080?" --wait=reply`,
		Flags: slices.Concat(address, o.composeOptions.flags(), threading, o.deliverOptions.flags()),
		Action: func(c *cli.Context) error {
			words := command.Positionals(c)
			return explainWords(o.run(c, words, s), words, o.workspace, s)
		},
	}
}

func (o *sendOptions) run(c *cli.Context, words []string, s *command.Streams) error {
	if err := o.workspace.TakeProject(words); err != nil {
		return err
	}
	if len(words) > 0 && !o.create {
		if _, err := o.workspace.Place(s).Find(); err != nil {
			return err // before a body is missing that the words were meant to be
		}
	}
	if o.template != "" {
		return printTemplate(o.template, o.workspace, o.json, s)
	}
	if err := errors.Join(o.check(c), o.wait.check(c), o.sync.Check()); err != nil {
		return err
	}
	var missing []string
	for _, name := range []string{"to", "type", "subject"} {
		if !c.IsSet(name) && o.file == "" {
			missing = append(missing, "--"+name)
		}
	}
	if len(missing) > 0 {
		err := failure.Usagef("needs %s", strings.Join(missing, ", "))
		if !c.IsSet("type") {
			err.Hint = "--type is one of " + typeList() + "; oacp help types explains them"
		}
		return err
	}
	return runSend(c.Context, *o, s)
}

// explainWords adds to the error of a wrong command line or of an unknown project what to write, if
// the words, of which a project would be the only one, seem to be recipients and a text.
func explainWords(err error, words []string, in command.Workspace, s *command.Streams) error {
	unknownProject, unknown := errors.AsType[*project.UnknownProjectError](err)
	if err == nil || len(words) == 0 || !unknown && failure.Of(err).Code != failure.CodeUsage {
		return err
	}
	in.Project = ""
	var agents []string
	_ = in.With(s, nil, func(w *mailbox.Workspace) error { // without a workspace there are no agents
		for len(words) > 0 && w.Knows(schema.AgentName(words[0])) {
			agents, words = append(agents, words[0]), words[1:]
		}
		return nil
	})
	if len(agents) == 0 {
		if unknown && spelling.Nearest(unknownProject.Project, unknownProject.Known) == "" {
			err = failure.WithHint(err, "the argument of send is a project; to pass a body, write "+visible.Shell("--body", words[0]))
		}
		return err
	}
	flags := []string{"--to", strings.Join(agents, ",")}
	if len(words) > 0 {
		flags = append(flags, "--body", strings.Join(words, " "))
	}
	return failure.WithHint(err, strings.Join(agents, " and ")+" can be a recipient: write "+visible.Shell(flags...))
}

func runSend(ctx context.Context, o sendOptions, s *command.Streams) error {
	var draft schema.Message
	if o.file != "" {
		if err := o.readMessage(s); err != nil {
			return err
		}
		draft = *o.prepared.Message
	}
	if names := o.to.Value(); len(names) > 0 {
		draft.To = nil
		for _, name := range names {
			if name = strings.TrimSpace(name); name != "" {
				draft.To = append(draft.To, schema.AgentName(name))
			}
		}
	}
	if err := o.fill(&draft, s); err != nil {
		return err
	}
	return o.withWorkspace(ctx, s, func(w *mailbox.Workspace) (err error) {
		if draft.From, err = sender(w, cmp.Or(o.from, string(draft.From)), s); err != nil {
			return err
		}
		if draft.To, err = project.Recipients(w, draft.From, draft.Type, draft.To); err != nil {
			return failure.Usagef("--to: %w", err)
		}
		if err := o.thread(ctx, w, &draft, s); err != nil {
			return err
		}
		if o.prepared != nil {
			*o.prepared.Message = draft
			if err := o.prepared.Check(); err != nil {
				return err
			}
		}
		return o.deliver(ctx, w, draft, o.source(), s)
	})
}

// readMessage reads the message that --file names.
func (o *sendOptions) readMessage(s *command.Streams) (err error) {
	text, err := readInput(o.file, s)
	if errors.Is(err, fs.ErrNotExist) {
		return failure.Usagef("--file: %w", err)
	}
	if err != nil {
		return err
	}
	name := o.file
	if name == "-" {
		name = "<stdin>"
	}
	o.prepared, err = validate.ParseDraft(name, []byte(text))
	return err
}
