package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
)

// deliverOptions are the flags of send and reply for the delivery.
type deliverOptions struct {
	workspace              command.Workspace
	create, noSync, dryRun bool
	json, quiet, verbose   bool
	suffix                 string
	sign                   bool
	wait                   waitOptions
	sync                   command.Sync
	synchronizer           *command.Synchronizer
	// answered, if not nil, is the message that this one answers. The editor shows it. It gets a second
	// answer only if again is true.
	answered *schema.Message
	again    bool
	// pending, if not nil, is the copy of that message to acknowledge once this one is sent.
	pending *conversation.Copy
	// warnings are printed already; the JSON answer has them too.
	warnings []string
}

func (o *deliverOptions) flags() []cli.Flag {
	return append([]cli.Flag{
		o.wait.flag(),
		timeoutFlag(),
		o.sync.Flag(command.Rare),
		&cli.BoolFlag{Name: "dry-run", Usage: "print the message and send nothing", Destination: &o.dryRun},
		command.JSONFlag(&o.json),
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print only the id", Destination: &o.quiet},
		&cli.BoolFlag{Name: "verbose", Category: command.Rare, Usage: "also print the full id and the files", Destination: &o.verbose},
		&cli.BoolFlag{Name: "create", Category: command.Rare, Usage: "create the project and the recipients' mailboxes if they do not exist", Destination: &o.create},
		&cli.BoolFlag{Name: "sign", Category: command.Rare, Usage: "sign the message (default: the signing setting in the sender's config.yaml)", Destination: &o.sign},
		&cli.BoolFlag{Name: "no-sync", Category: command.Rare, Usage: "do not wait for the disk: a power failure may lose the message", Destination: &o.noSync},
		&cli.StringFlag{Name: "suffix", Category: command.Rare, Usage: "file names end in `TEXT`: letters, digits, dots, underscores, hyphens", Destination: &o.suffix},
	}, o.workspace.Flags()...)
}

// withWorkspace opens the workspace, calls use and closes it. With --create, it makes an unknown
// project.
func (o *deliverOptions) withWorkspace(ctx context.Context, s *command.Streams, use func(*mailbox.Workspace) error) error {
	if o.create && !o.dryRun {
		if err := o.makeProject(s); err != nil {
			return err
		}
	}
	return o.workspace.With(s, &mailbox.Options{NoSync: o.noSync}, func(w *mailbox.Workspace) (err error) {
		if !o.dryRun {
			o.synchronizer, err = o.sync.Open(ctx, s, w)
		}
		if err != nil {
			return err
		}
		return use(w)
	})
}

// makeProject makes the project that the command line names if it is unknown.
func (o *deliverOptions) makeProject(s *command.Streams) error {
	place := o.workspace.Place(s)
	_, err := place.Find()
	if _, unknown := errors.AsType[*project.UnknownProjectError](err); !unknown {
		return err
	}
	dir, err := place.ProjectDir()
	if err == nil {
		_, err = project.Init(dir, project.InitOptions{Project: place.Project, ProjectFolders: true, Now: s.Now()})
	}
	return err
}

// deliver sends the draft. If it has no body, the user writes it in an editor, and what is not sent is kept in a
// file. Source is where the body was read from.
func (o deliverOptions) deliver(ctx context.Context, w *mailbox.Workspace, draft schema.Message, source validate.Source, s *command.Streams) error {
	if draft.Body.Kind != schema.Absent {
		_, err := o.send(ctx, w, draft, source, s)
		return err
	}
	path, err := o.writeBody(ctx, w, &draft, s)
	if err != nil {
		return err
	}
	sent, err := o.send(ctx, w, draft, validate.Source{BodyFile: path}, s)
	if sent || o.dryRun && err == nil {
		return errors.Join(err, os.Remove(path))
	}
	s.Note(keptIn(path))
	return err
}

// send sends the draft, prints the receipt, and waits for --wait. Without --wait and --sync it does
// not catch signals, which would take a tenth of its time: delivery survives that the process is killed.
// A message that is sent may come with an error.
func (o deliverOptions) send(ctx context.Context, w *mailbox.Workspace, draft schema.Message, source validate.Source, s *command.Streams) (sent bool, err error) {
	options := &mailbox.SendOptions{Create: o.create, Suffix: o.suffix, Sign: o.sign}
	if err := command.CheckDraft(ctx, w, &draft, source); err != nil {
		return false, err
	}
	if o.dryRun {
		return false, o.showDraft(w, draft, options, s)
	}
	if o.wait.what != "" || o.sync.IsSet() {
		var stop func()
		ctx, stop = command.UntilSignal(ctx)
		defer stop()
	}
	before, err := o.wait.before(w, draft.From)
	if err != nil {
		return false, err
	}
	var receipt *mailbox.Receipt
	err = track.SendOnce(ctx, w, o.answered, &draft, o.again, func() (err error) {
		receipt, err = w.Send(ctx, draft, options)
		return err
	})
	if receipt == nil {
		return false, err
	}
	answer := o.newSendAnswer(w, receipt.Message, receipt.Warnings, s)
	answer.Outbox, answer.AlreadySent, answer.Inboxes = receipt.Outbox, receipt.AlreadySent, receipt.Inboxes
	if len(receipt.Inboxes) == 1 {
		answer.Inbox, answer.Inboxes = receipt.Inboxes[0], nil
	}
	if err == nil && o.pending != nil {
		answer.Acknowledged, err = o.acknowledgeAnswered(w)
	}
	syncsOnce := o.sync.IsSet() && o.wait.what == "" && err == nil
	if syncsOnce && o.json {
		synced := o.synchronizer.Briefly(ctx)
		answer.Synced = &synced
	}
	if printErr := o.printReceipt(receipt, answer, s); printErr != nil {
		printErr = fmt.Errorf("message %s is sent, but printing the result failed: %w", receipt.Message.ID, printErr)
		return true, errors.Join(err, failure.WithHint(printErr, "do not send it again"))
	}
	if syncsOnce && !o.json {
		o.synchronizer.Briefly(ctx) // if that fails, it says so, and the next sync takes the message along
	}
	if err != nil || o.wait.what == "" {
		return true, err
	}
	defer o.synchronizer.Start(ctx, true)()
	return true, o.await(ctx, w, receipt, before, s)
}

// acknowledgeAnswered acknowledges the message that the one just sent answers.
func (o deliverOptions) acknowledgeAnswered(w *mailbox.Workspace) (schema.ID, error) {
	id := o.answered.ID
	if err := o.pending.Acknowledge(w); err != nil {
		return "", &failure.Error{
			Code: "not_acknowledged", Err: fmt.Errorf("the answer is sent, but %s is not acknowledged: %w", id, err),
			Hint: "do not answer again; oacp ack " + id.Short() + " acknowledges the message",
		}
	}
	return id, nil
}

func (o deliverOptions) showDraft(w *mailbox.Workspace, draft schema.Message, options *mailbox.SendOptions, s *command.Streams) error {
	message, data, warnings, err := w.Compose(draft, options)
	if err != nil {
		return err
	}
	answer := o.newSendAnswer(w, message, warnings, s)
	answer.DryRun, answer.YAML = true, string(data)
	return s.Answer(o.json, answer, func() {
		if !o.quiet {
			s.Note(fmt.Sprintf("nothing is sent; without --dry-run the message goes from %s to %s in %s", message.From, joinNames(message.To), w.Dir()))
		}
		fmt.Fprintf(s.Out, "%s", data)
	})
}

// sendAnswer is the JSON of the reference implementation's send, with more keys.
type sendAnswer struct {
	MessageID      schema.ID             `json:"message_id"`
	ID             schema.ID             `json:"id"`
	ShortID        string                `json:"short_id"`
	From           schema.AgentName      `json:"from"`
	To             recipients            `json:"to"`
	Type           schema.Type           `json:"type"`
	Priority       schema.Priority       `json:"priority"`
	Subject        string                `json:"subject"`
	CreatedAt      schema.Timestamp      `json:"created_at_utc"`
	ExpiresAt      schema.Timestamp      `json:"expires_at,omitempty"`
	ConversationID schema.ConversationID `json:"conversation_id,omitempty"`
	DryRun         bool                  `json:"dry_run"`
	AlreadySent    bool                  `json:"already_sent,omitempty"`
	Signed         bool                  `json:"signed,omitempty"`
	Keys           []signing.KeyID       `json:"kids,omitempty"`
	Warnings       []string              `json:"warnings,omitempty"`
	Inbox          string                `json:"inbox_path,omitempty"`
	Inboxes        []string              `json:"inbox_paths,omitempty"`
	Outbox         string                `json:"outbox_path,omitempty"`
	YAML           string                `json:"yaml,omitempty"`
	Acknowledged   schema.ID             `json:"acknowledged,omitempty"`
	Synced         *bool                 `json:"synced,omitempty"`
}

// newSendAnswer also prints the warnings.
func (o deliverOptions) newSendAnswer(workspace *mailbox.Workspace, m *schema.Message, warnings validate.Diagnostics, s *command.Streams) sendAnswer {
	answer := sendAnswer{
		MessageID: m.ID, ID: m.ID, ShortID: m.ID.Short(), From: m.From, To: m.To, Type: m.Type, Priority: m.Priority,
		Subject: m.Subject, CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt, ConversationID: m.ConversationID, Warnings: o.warnings,
	}
	if signatures, err := signing.Parse(m.Auth); err == nil {
		answer.Signed = true
		for _, signature := range signatures {
			answer.Keys = append(answer.Keys, signature.KeyID)
		}
	}
	for _, w := range warnings {
		s.Warn(w.String())
		answer.Warnings = append(answer.Warnings, w.String())
	}
	for _, note := range project.OfflineNotes(workspace, m) {
		if m.Priority == schema.P0 {
			s.Warn(note)
		} else {
			s.Note(note)
		}
		answer.Warnings = append(answer.Warnings, note)
	}
	return answer
}

func (o deliverOptions) printReceipt(r *mailbox.Receipt, answer sendAnswer, s *command.Streams) error {
	var err error
	switch {
	case o.json && o.wait.what != "":
		err = command.WriteJSONLine(s.Out, answer) // another line follows
	case o.json:
		err = command.WriteJSON(s.Out, answer)
	case o.quiet:
		fmt.Fprintln(s.Out, r.Message.ID)
	default:
		o.printSent(r, s)
		if answer.Acknowledged != "" {
			fmt.Fprintf(s.Out, "acknowledged: %s\n", answer.Acknowledged.Short())
		}
	}
	return errors.Join(err, s.Out.Flush())
}

// printSent prints one line about a message that is sent and, with --verbose, its id and its files.
func (o deliverOptions) printSent(r *mailbox.Receipt, s *command.Streams) {
	m, sent := r.Message, "sent"
	if r.AlreadySent {
		sent = "already sent"
	}
	answers := ""
	if o.answered != nil && m.Answers(o.answered) {
		answers = ", the answer to " + o.answered.ID.Short()
	}
	fmt.Fprintf(s.Out, "%s %s to %s (%s)%s\n", sent, m.ID.Short(), joinNames(m.To), m.Type, answers)
	if !o.verbose {
		return
	}
	fmt.Fprintf(s.Out, "  id:     %s\n", m.ID)
	for _, path := range r.Inboxes {
		fmt.Fprintf(s.Out, "  inbox:  %s\n", visible.Line(path))
	}
	fmt.Fprintf(s.Out, "  outbox: %s\n", visible.Line(r.Outbox))
}
