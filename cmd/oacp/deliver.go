package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
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
	choices, choose, decline, template        string
	inReplyTo, conversation, parent, suffix   string
	ack, final, again                         bool
	dryRun, create, allowSecret, sign, noSync bool

	w     *mailbox.Workspace
	draft schema.Message
	// prepared is the file that holds the message, if there is one.
	prepared *validate.Draft
	// request, if not nil, is the message that this one replies to.
	request *client.Request

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

func (d *delivery) options() mailbox.SendOptions {
	return mailbox.SendOptions{Create: d.create, Suffix: d.suffix, Sign: d.sign}
}

// deliver sends a message, prints the receipt, and with --wait waits. A signal before the commit stops the delivery;
// after it, the receipt is printed first.
func (d *delivery) deliver(p *client.Prepared) error {
	if d.dryRun {
		return d.showDraft(p)
	}
	defer d.catchSignals()()
	r, err := p.Send(d.ctx)
	if r == nil {
		return err
	}
	answer := d.receiptAnswer(r, err)
	syncsOnce := d.exchanger != nil && d.wait == "" && err == nil
	if syncsOnce && d.asJSON {
		synced := d.exchanger.Briefly(d.ctx)
		answer.Synced = &synced
		if client.Unsent(d.w, r) {
			answer.Stage, err = track.StageNotSent, failure.ErrReported
		}
	}
	if printErr := d.printReceipts(r, answer); printErr != nil {
		printErr = fmt.Errorf("message %s is sent, but printing the result failed: %w", r.Message().ID, printErr)
		return errors.Join(err, failure.WithHint(printErr, "do not send it again"))
	}
	if syncsOnce && !d.asJSON {
		d.exchanger.Briefly(d.ctx) // if it fails, it prints why
		if client.Unsent(d.w, r) {
			return &failure.Error{
				Code: string(track.StageNotSent), Err: fmt.Errorf("%s: message %s waits on this machine", track.StageNotSent, r.Message().ID),
				Hint: "do not send it again: the next oacp sync sends it",
			}
		}
	}
	if err != nil || d.wait == "" {
		return err
	}
	defer d.exchanger.Begin(d.ctx, defaultWait)()
	return d.await(r.Receipts[0])
}

func (d *delivery) showDraft(p *client.Prepared) error {
	message, data, warnings, err := p.Compose()
	if err != nil {
		return err
	}
	answer := d.newAnswer(message, warnings)
	d.say(&answer, p.NotesOf(message)...)
	answer.DryRun, answer.YAML = true, string(data)
	return d.answer(answer, func() {
		if !d.quiet {
			to, more := message.To, ""
			if n := len(p.Parts); n > 1 {
				to, more = slices.Concat(p.Parts...), fmt.Sprintf(", in %d messages of which this is the first", n)
			}
			d.Note(fmt.Sprintf("nothing is sent; without --dry-run the message goes from %s to %s in %s%s", message.From, spelling.Join(to), d.w.Dir(), more))
		}
		d.Printf("%s", data)
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
	answer := sendAnswer{MessageID: m.ID, head: headOf(m), ShortID: m.ID.Short()}
	if signatures, err := signing.Parse(m.Auth); err == nil {
		answer.Signed = true
		for _, signature := range signatures {
			answer.Keys = append(answer.Keys, signature.KeyID)
		}
	}
	var texts []string
	if m.CreatedAt.Time().Sub(d.Now()) > time.Minute {
		texts = append(texts, fmt.Sprintf("the message is dated in the future, %s; its age counts from its arrival", m.CreatedAt))
	}
	for _, w := range warnings {
		texts = append(texts, w.String())
	}
	for _, text := range texts {
		d.Warn(text)
	}
	answer.Warnings = texts
	return answer
}

// say prints notes about a message, and adds them to the answer.
func (d *delivery) say(answer *sendAnswer, notes ...string) {
	note := d.Note
	if answer.Priority == schema.P0 {
		note = d.Warn
	}
	for _, text := range notes {
		note(text)
	}
	answer.Warnings = append(answer.Warnings, notes...)
}

// receiptAnswer returns the answer about what was sent, in spite of an error.
func (d *delivery) receiptAnswer(r *client.Receipt, err error) sendAnswer {
	var all []sendAnswer
	for _, one := range r.Receipts {
		answer := d.newAnswer(one.Message, one.Warnings)
		answer.Outbox, answer.AlreadySent, answer.Inboxes = one.Outbox, one.AlreadySent, one.Inboxes
		if len(one.Inboxes) == 1 {
			answer.Inbox, answer.Inboxes = one.Inboxes[0], nil
		}
		all = append(all, answer)
	}
	answer := all[0]
	d.say(&answer, r.Notes...)
	if len(all) > 1 {
		answer.Messages = all
	}
	answer.Acknowledged, answer.AlreadyAcknowledged = r.Acknowledged, r.AlreadyAcknowledged
	if parts, ok := errors.AsType[*mailbox.PartsError](err); ok {
		answer.NotSent = parts.NotSent
	}
	return answer
}

func (d *delivery) printReceipts(r *client.Receipt, answer sendAnswer) error {
	var err error
	switch {
	case d.asJSON && d.wait != "":
		err = command.WriteJSONLine(d.Out, answer) // another line follows
	case d.asJSON:
		err = command.WriteJSON(d.Out, answer)
	case d.quiet:
		for _, one := range r.Receipts {
			d.Printf("%s\n", one.Message.ID)
		}
	default:
		for _, one := range r.Receipts {
			d.printSent(one, r.Answers)
		}
		if len(answer.Messages)+len(answer.NotSent) > 1 {
			d.Confirm("%s, because one has at most %d recipients\n", spelling.Plural(len(r.Receipts), "message"), schema.MaxRecipients)
		}
		if answer.Acknowledged != "" {
			already := ""
			if answer.AlreadyAcknowledged {
				already = "already "
			}
			d.Confirm("%sacknowledged: %s\n", already, answer.Acknowledged.Short())
		}
	}
	return errors.Join(err, d.Out.Flush())
}

// printSent prints one line about a message that is sent.
func (d *delivery) printSent(r *mailbox.Receipt, isAnswer bool) {
	m, sent, answers := r.Message, "sent", ""
	if r.AlreadySent {
		sent = "already sent"
	}
	switch {
	case m.Marks.Declined:
		answers = ", which declines " + m.ParentID.Short()
	case isAnswer:
		answers = ", the answer to " + m.ParentID.Short()
	}
	d.Confirm("%s %s to %s (%s)%s\n", sent, m.ID.Short(), spelling.Join(m.To), m.Type, answers)
}
