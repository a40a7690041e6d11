package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
)

// deliveryFlags are the flags of send and reply for the delivery.
func (d *delivery) deliveryFlags() []cli.Flag {
	d.limit = defaultWait
	return d.flagsWith(
		&cli.GenericFlag{Name: "wait", Usage: "wait until acknowledged, or `WHAT`: noticed, reply", Value: (*waitFor)(&d.wait)},
		timeoutFlag(&d.limit),
		d.sync.Flag(command.Rare),
		&cli.BoolFlag{Name: "dry-run", Usage: "print the message and send nothing", Destination: &d.dryRun},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print only the id", Destination: &d.quiet},
		&cli.BoolFlag{Name: "create", Category: command.Rare, Usage: "create the project and the recipients' mailboxes if they do not exist", Destination: &d.create},
		&cli.BoolFlag{Name: "allow-secret", Category: command.Rare, Usage: "send the message even if it has what looks like a key", Destination: &d.allowSecret},
		&cli.BoolFlag{Name: "sign", Category: command.Rare, Usage: "sign the message (default: the signing setting in the sender's config.yaml)", Destination: &d.sign},
		&cli.BoolFlag{Name: "no-sync", Category: command.Rare, Usage: "do not wait for the disk: a power failure may lose the message", Destination: &d.noSync},
		&cli.StringFlag{Name: "suffix", Category: command.Rare, Usage: "file names end in `TEXT`: letters, digits, dots, underscores, hyphens", Destination: &d.suffix})
}

// A delivery is a call of send or reply, and the message that it sends.
type delivery struct {
	*call
	to   cli.StringSlice
	from schema.AgentName
	// fields are those that flags give.
	fields                                    schema.Message
	body, bodyFile, contextKeysFile, file     string
	choices, choose, template                 string
	inReplyTo, conversation, parent, suffix   string
	ack, final, again                         bool
	dryRun, create, allowSecret, sign, noSync bool

	w     *mailbox.Workspace
	draft schema.Message
	// parts are the recipients of each message, if there may be too many for one.
	parts [][]schema.AgentName
	// prepared is the file that holds the message, if there is one.
	prepared *validate.Draft
	// answered, if not nil, is the message that this one answers.
	answered *schema.Message
	// pending, if not nil, is the copy of that message to acknowledge once this one is sent.
	pending *conversation.Copy
	// warnings are printed already; the JSON answer repeats them.
	warnings []string

	// wait is empty if the command does not wait.
	wait      track.Goal
	limit     time.Duration
	exchanger *command.Synchronizer
}

// check checks the flags that send and reply share.
func (d *delivery) check() error {
	switch {
	case d.given((*string)(&d.agent)):
		return failure.Usagef("there is no flag --agent").WithHint("--from AGENT names the sender, --to AGENT the recipient")
	case d.given(&d.fields.Type) && d.fields.Type == "":
		return failure.Usagef("--type is empty")
	case d.given(&d.fields.Priority) && d.fields.Priority == "":
		return failure.Usagef("--priority is empty")
	case d.given(&d.limit) && d.wait == "":
		return failure.Usagef("--timeout requires --wait").WithHint(waitChoices)
	}
	return nil
}

// inWorkspace opens the workspace, calls run and closes it. With --create, it makes an unknown project.
func (d *delivery) inWorkspace(run func() error) error {
	if d.create && !d.dryRun {
		if err := d.makeProject(); err != nil {
			return err
		}
	}
	return d.with(&mailbox.Options{NoSync: d.noSync}, func(w *mailbox.Workspace) (err error) {
		d.w = w
		if !d.dryRun {
			d.exchanger, err = d.synchronizer(w)
		}
		if err != nil {
			return err
		}
		return run()
	})
}

// makeProject makes the project that the command line names if it is unknown.
func (d *delivery) makeProject() error {
	place := d.place.Place(d.Streams)
	_, err := place.Find()
	if _, unknown := errors.AsType[*project.UnknownProjectError](err); !unknown {
		return err
	}
	dir, err := place.ProjectDir()
	if err == nil {
		_, err = project.Init(dir, project.InitOptions{Project: place.Project, Now: d.Now()})
	}
	return err
}

// source returns where the body comes from.
func (d *delivery) source() validate.Source {
	switch file := d.bodyFile; {
	case d.prepared != nil && !d.givesBody():
		return validate.Source{Draft: d.prepared}
	case file != "-":
		return validate.Source{BodyFile: file}
	}
	return validate.Source{}
}

func (d *delivery) options() *mailbox.SendOptions {
	signs := d.sign || project.IsPerson(d.w, d.draft.From) && trust.CanSign(d.w, d.draft.From)
	return &mailbox.SendOptions{Create: d.create, Suffix: d.suffix, Sign: signs}
}

// deliver sends the draft, prints the receipt, and with --wait waits. A signal before the commit stops the delivery;
// after it, the receipt is printed first.
func (d *delivery) deliver() error {
	if d.draft.ParentID != "" && !d.InTerminal && !d.AsPerson {
		if err := project.CheckProgram(d.w, d.draft.From); err != nil {
			return err
		}
	}
	if err := command.PrepareDraft(d.ctx, d.w, &d.draft, d.source()); err != nil {
		return err
	}
	if d.dryRun {
		return d.showDraft()
	}
	defer d.catchSignals()()
	var receipts []*mailbox.Receipt
	err := track.SendOnce(d.ctx, d.w, d.answered, &d.draft, process.Caller(d.Getenv).Process, d.again, func() (err error) {
		receipts, err = d.w.SendParts(d.ctx, d.draft, d.parts, d.options())
		return err
	})
	if len(receipts) == 0 {
		return err
	}
	receipt, answers := receipts[0], make([]sendAnswer, len(receipts))
	for i, r := range receipts {
		answers[i] = d.receiptAnswer(r)
	}
	answer := answers[0]
	if len(d.parts) > 1 {
		answer.Messages = answers
	}
	if parts, ok := errors.AsType[*mailbox.PartsError](err); ok {
		answer.NotSent = parts.NotSent
	}
	if err == nil && d.pending != nil {
		answer.Acknowledged, err = d.acknowledgeAnswered()
		answer.AlreadyAcknowledged = d.pending.Gone
	}
	syncsOnce := d.exchanger != nil && d.wait == "" && err == nil
	if syncsOnce && d.asJSON {
		synced := d.exchanger.Briefly(d.ctx)
		answer.Synced = &synced
		if d.isUnsent(receipts) {
			answer.Stage, err = track.StageNotSent, failure.ErrReported
		}
	}
	if printErr := d.printReceipts(receipts, answer); printErr != nil {
		printErr = fmt.Errorf("message %s is sent, but printing the result failed: %w", receipt.Message.ID, printErr)
		return errors.Join(err, failure.WithHint(printErr, "do not send it again"))
	}
	if syncsOnce && !d.asJSON {
		d.exchanger.Briefly(d.ctx) // if it fails, it prints why
		if d.isUnsent(receipts) {
			return &failure.Error{
				Code: string(track.StageNotSent), Err: fmt.Errorf("%s: message %s waits on this machine", track.StageNotSent, receipt.Message.ID),
				Hint: "do not send it again: the next oacp sync sends it",
			}
		}
	}
	if err != nil || d.wait == "" {
		return err
	}
	defer d.exchanger.Begin(d.ctx, defaultWait)()
	return d.await(receipt)
}

// isUnsent reports whether a message has not reached the remote.
func (d *delivery) isUnsent(receipts []*mailbox.Receipt) bool {
	return slices.ContainsFunc(receipts, func(r *mailbox.Receipt) bool {
		return mailbox.IsUnsent(d.w, mailbox.Entry{Name: r.Message.FileName(), Message: r.Message})
	})
}

// acknowledgeAnswered acknowledges the message that the one just sent answers.
func (d *delivery) acknowledgeAnswered() (schema.ID, error) {
	id := d.answered.ID
	err := d.pending.Acknowledge(d.w)
	if _, moved := errors.AsType[*mailbox.NotDurableError](err); err != nil && !moved {
		return "", &failure.Error{
			Code: "not_acknowledged", Err: fmt.Errorf("the answer is sent, but %s is not acknowledged: %w", id, err),
			Hint: "do not answer again; oacp ack " + id.Short() + " acknowledges the message",
		}
	}
	return id, err
}

func (d *delivery) showDraft() error {
	message, data, warnings, err := d.w.Compose(d.draft, d.options())
	if err != nil {
		return err
	}
	answer := d.newAnswer(message, warnings)
	answer.DryRun, answer.YAML = true, string(data)
	return d.answer(answer, func() {
		if !d.quiet {
			to, more := message.To, ""
			if n := len(d.parts); n > 1 {
				to, more = slices.Concat(d.parts...), fmt.Sprintf(", in %d messages of which this is the first", n)
			}
			d.Note(fmt.Sprintf("nothing is sent; without --dry-run the message goes from %s to %s in %s%s", message.From, spelling.Join(to), d.w.Dir(), more))
		}
		d.printf("%s", data)
	})
}

// sendAnswer is the JSON of the reference implementation's send, with more keys.
type sendAnswer struct {
	MessageID schema.ID `json:"message_id"`
	ShortID   string    `json:"short_id"`
	head
	DryRun       bool            `json:"dry_run"`
	AlreadySent  bool            `json:"already_sent,omitempty"`
	Signed       bool            `json:"signed,omitempty"`
	Keys         []signing.KeyID `json:"kids,omitempty"`
	Warnings     []string        `json:"warnings,omitempty"`
	Inbox        string          `json:"inbox_path,omitempty"`
	Inboxes      []string        `json:"inbox_paths,omitempty"`
	Outbox       string          `json:"outbox_path,omitempty"`
	YAML         string          `json:"yaml,omitempty"`
	Acknowledged schema.ID       `json:"acknowledged,omitempty"`
	// AlreadyAcknowledged reports whether someone else acknowledged it.
	AlreadyAcknowledged bool  `json:"already_acknowledged,omitempty"`
	Synced              *bool `json:"synced,omitempty"`
	// Stage is not_sent if the message has not reached the remote.
	Stage track.Stage `json:"stage,omitempty"`
	// Messages are all of them, if the recipients needed several; the fields above are of the first. NotSent are the
	// recipients of those that failed.
	Messages []sendAnswer       `json:"messages,omitempty"`
	NotSent  []schema.AgentName `json:"not_sent,omitempty"`
}

// newAnswer returns the answer about a message and prints its warnings.
func (d *delivery) newAnswer(m *schema.Message, warnings validate.Diagnostics) sendAnswer {
	answer := sendAnswer{MessageID: m.ID, head: headOf(m), ShortID: m.ID.Short(), Warnings: d.warnings}
	if signatures, err := signing.Parse(m.Auth); err == nil {
		answer.Signed = true
		for _, signature := range signatures {
			answer.Keys = append(answer.Keys, signature.KeyID)
		}
	}
	say := func(print func(string), text string) {
		print(text)
		answer.Warnings = append(answer.Warnings, text)
	}
	if m.CreatedAt.Time().Sub(d.Now()) > time.Minute {
		say(d.Warn, fmt.Sprintf("the message is dated in the future, %s; its age counts from its arrival", m.CreatedAt))
	}
	for _, w := range warnings {
		say(d.Warn, w.String())
	}
	note := d.Note
	if m.Priority == schema.P0 {
		note = d.Warn
	}
	for _, text := range append(project.OfflineNotes(d.w, m), trust.HeldNotes(d.w, m)...) {
		say(note, text)
	}
	return answer
}

// receiptAnswer returns the answer about a message that was sent.
func (d *delivery) receiptAnswer(r *mailbox.Receipt) sendAnswer {
	answer := d.newAnswer(r.Message, r.Warnings)
	answer.Outbox, answer.AlreadySent, answer.Inboxes = r.Outbox, r.AlreadySent, r.Inboxes
	if len(r.Inboxes) == 1 {
		answer.Inbox, answer.Inboxes = r.Inboxes[0], nil
	}
	return answer
}

func (d *delivery) printReceipts(receipts []*mailbox.Receipt, answer sendAnswer) error {
	var err error
	switch {
	case d.asJSON && d.wait != "":
		err = command.WriteJSONLine(d.Out, answer) // another line follows
	case d.asJSON:
		err = command.WriteJSON(d.Out, answer)
	case d.quiet:
		for _, r := range receipts {
			d.printf("%s\n", r.Message.ID)
		}
	default:
		for _, r := range receipts {
			d.printSent(r)
		}
		if len(d.parts) > 1 {
			d.printf("%s, because one has at most %d recipients\n", spelling.Plural(len(receipts), "message"), schema.MaxRecipients)
		}
		if answer.Acknowledged != "" {
			already := ""
			if answer.AlreadyAcknowledged {
				already = "already "
			}
			d.printf("%sacknowledged: %s\n", already, answer.Acknowledged.Short())
		}
	}
	return errors.Join(err, d.Out.Flush())
}

// printSent prints one line about a message that is sent.
func (d *delivery) printSent(r *mailbox.Receipt) {
	m, sent, answers := r.Message, "sent", ""
	if r.AlreadySent {
		sent = "already sent"
	}
	if d.answered != nil && m.Answers(d.answered) {
		answers = ", the answer to " + d.answered.ID.Short()
	}
	d.printf("%s %s to %s (%s)%s\n", sent, m.ID.Short(), spelling.Join(m.To), m.Type, answers)
}
