package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/turn"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
)

// deliveryFlags are the flags of send and reply for the delivery.
func deliveryFlags() []cli.Flag {
	return flagsWith(
		&cli.GenericFlag{Name: "wait", Usage: "wait until acknowledged, or `WHAT`: noticed, reply, any", Value: new(waitFor)},
		timeoutFlag(),
		new(command.Sync).Flag(command.Rare),
		&cli.BoolFlag{Name: "dry-run", Usage: "print the message and send nothing"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print only the id"},
		&cli.BoolFlag{Name: "verbose", Category: command.Rare, Usage: "also print the full id and the files"},
		&cli.BoolFlag{Name: "create", Category: command.Rare, Usage: "create the project and the recipients' mailboxes if they do not exist"},
		&cli.BoolFlag{Name: "sign", Category: command.Rare, Usage: "sign the message (default: the signing setting in the sender's config.yaml)"},
		&cli.BoolFlag{Name: "no-sync", Category: command.Rare, Usage: "do not wait for the disk: a power failure may lose the message"},
		&cli.StringFlag{Name: "suffix", Category: command.Rare, Usage: "file names end in `TEXT`: letters, digits, dots, underscores, hyphens"})
}

// A delivery is a message that send or reply sends.
type delivery struct {
	*call
	w     *mailbox.Workspace
	draft schema.Message
	// prepared is the file that holds the message, if there is one.
	prepared *validate.Draft
	// answered, if not nil, is the message that this one answers.
	answered *schema.Message
	// pending, if not nil, is the copy of that message to acknowledge once this one is sent.
	pending *conversation.Copy
	// warnings are printed already; the JSON answer repeats them.
	warnings []string

	// wait is empty if the command does not wait.
	wait      waitFor
	limit     time.Duration
	exchanger *command.Synchronizer
}

// newDelivery checks the flags that send and reply share.
func newDelivery(c *call) (*delivery, error) {
	d := &delivery{call: c, wait: *c.flags.Generic("wait").(*waitFor)}
	err := errors.Join(checkCompose(c), d.checkWait())
	return d, err
}

// inWorkspace opens the workspace, calls run and closes it. With --create, it makes an unknown project.
func (d *delivery) inWorkspace(run func() error) error {
	if d.isOn("create") && !d.isOn("dry-run") {
		if err := d.makeProject(); err != nil {
			return err
		}
	}
	return d.place.With(d.Streams, &mailbox.Options{NoSync: d.isOn("no-sync")}, func(w *mailbox.Workspace) (err error) {
		d.w = w
		if !d.isOn("dry-run") {
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
		_, err = project.Init(dir, project.InitOptions{Project: place.Project, ProjectFolders: true, Now: d.Now()})
	}
	return err
}

// deliver sends the draft. If it has no body, the user writes it in an editor, and what is not sent is kept in a
// file.
func (d *delivery) deliver() error {
	if d.draft.Body.Kind != schema.Absent {
		source := validate.Source{BodyFile: d.text("body-file")}
		if d.prepared != nil && !d.givesBody() {
			source = validate.Source{Draft: d.prepared}
		} else if source.BodyFile == "-" {
			source.BodyFile = ""
		}
		_, err := d.send(source)
		return err
	}
	path, err := d.writeBody()
	if err != nil {
		return err
	}
	sent, err := d.send(validate.Source{BodyFile: path})
	if sent || d.isOn("dry-run") && err == nil {
		return errors.Join(err, os.Remove(path))
	}
	d.Note(keptIn(path))
	return err
}

func (d *delivery) options() *mailbox.SendOptions {
	return &mailbox.SendOptions{Create: d.isOn("create"), Suffix: d.text("suffix"), Sign: d.isOn("sign")}
}

// send sends the draft, prints the receipt, and waits for --wait. Without --wait and --sync it does
// not catch signals, which would take a tenth of its time: delivery survives that the process is killed.
// A message that is sent may come with an error. Source is where the body was read from.
func (d *delivery) send(source validate.Source) (sent bool, err error) {
	if err := command.CheckDraft(d.ctx, d.w, &d.draft, source); err != nil {
		return false, err
	}
	if d.isOn("dry-run") {
		return false, d.showDraft()
	}
	if d.wait != "" || d.exchanger != nil {
		defer d.catchSignals()()
	}
	before, err := d.inboxBefore()
	if err != nil {
		return false, err
	}
	var receipt *mailbox.Receipt
	err = track.SendOnce(d.ctx, d.w, d.answered, &d.draft, d.isOn("again"), func() (err error) {
		receipt, err = d.w.Send(d.ctx, d.draft, d.options())
		return err
	})
	if receipt == nil {
		return false, err
	}
	answer := d.newAnswer(receipt.Message, receipt.Warnings)
	answer.Outbox, answer.AlreadySent, answer.Inboxes = receipt.Outbox, receipt.AlreadySent, receipt.Inboxes
	if len(receipt.Inboxes) == 1 {
		answer.Inbox, answer.Inboxes = receipt.Inboxes[0], nil
	}
	if err == nil && d.pending != nil {
		answer.Acknowledged, err = d.acknowledgeAnswered()
	}
	syncsOnce := d.exchanger != nil && d.wait == "" && err == nil
	if syncsOnce && d.json() {
		synced := d.exchanger.Briefly(d.ctx)
		answer.Synced = &synced
	}
	if printErr := d.printReceipt(receipt, answer); printErr != nil {
		printErr = fmt.Errorf("message %s is sent, but printing the result failed: %w", receipt.Message.ID, printErr)
		return true, errors.Join(err, failure.WithHint(printErr, "do not send it again"))
	}
	if syncsOnce && !d.json() {
		d.exchanger.Briefly(d.ctx) // if that fails, it says so, and the next sync takes the message along
	}
	if err != nil || d.wait == "" {
		return true, err
	}
	defer d.exchanger.Start(d.ctx, true)()
	return true, d.await(receipt, before)
}

// acknowledgeAnswered acknowledges the message that the one just sent answers.
func (d *delivery) acknowledgeAnswered() (schema.ID, error) {
	id := d.answered.ID
	if err := d.pending.Acknowledge(d.w); err != nil {
		return "", &failure.Error{
			Code: "not_acknowledged", Err: fmt.Errorf("the answer is sent, but %s is not acknowledged: %w", id, err),
			Hint: "do not answer again; oacp ack " + id.Short() + " acknowledges the message",
		}
	}
	return id, nil
}

func (d *delivery) showDraft() error {
	message, data, warnings, err := d.w.Compose(d.draft, d.options())
	if err != nil {
		return err
	}
	answer := d.newAnswer(message, warnings)
	answer.DryRun, answer.YAML = true, string(data)
	return d.answer(answer, func() {
		if !d.isOn("quiet") {
			d.Note(fmt.Sprintf("nothing is sent; without --dry-run the message goes from %s to %s in %s", message.From, joinNames(message.To), d.w.Dir()))
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
	Synced       *bool           `json:"synced,omitempty"`
}

// newAnswer also prints the warnings.
func (d *delivery) newAnswer(m *schema.Message, warnings validate.Diagnostics) sendAnswer {
	answer := sendAnswer{MessageID: m.ID, head: headOf(m), ShortID: m.ID.Short(), Warnings: d.warnings}
	if signatures, err := signing.Parse(m.Auth); err == nil {
		answer.Signed = true
		for _, signature := range signatures {
			answer.Keys = append(answer.Keys, signature.KeyID)
		}
	}
	for _, w := range warnings {
		d.Warn(w.String())
		answer.Warnings = append(answer.Warnings, w.String())
	}
	for _, note := range project.OfflineNotes(d.w, m) {
		if m.Priority == schema.P0 {
			d.Warn(note)
		} else {
			d.Note(note)
		}
		answer.Warnings = append(answer.Warnings, note)
	}
	return answer
}

func (d *delivery) printReceipt(r *mailbox.Receipt, answer sendAnswer) error {
	var err error
	switch {
	case d.json() && d.wait != "":
		err = command.WriteJSONLine(d.Out, answer) // another line follows
	case d.json():
		err = command.WriteJSON(d.Out, answer)
	case d.isOn("quiet"):
		d.printf("%s\n", r.Message.ID)
	default:
		d.printSent(r)
		if answer.Acknowledged != "" {
			d.printf("acknowledged: %s\n", answer.Acknowledged.Short())
		}
	}
	return errors.Join(err, d.Out.Flush())
}

// printSent prints one line about a message that is sent and, with --verbose, its id and its files.
func (d *delivery) printSent(r *mailbox.Receipt) {
	m, sent, answers := r.Message, "sent", ""
	if r.AlreadySent {
		sent = "already sent"
	}
	if d.answered != nil && m.Answers(d.answered) {
		answers = ", the answer to " + d.answered.ID.Short()
	}
	d.printf("%s %s to %s (%s)%s\n", sent, m.ID.Short(), joinNames(m.To), m.Type, answers)
	if !d.isOn("verbose") {
		return
	}
	d.printf("  id:     %s\n", m.ID)
	for _, path := range r.Inboxes {
		d.printf("  inbox:  %s\n", visible.Line(path))
	}
	d.printf("  outbox: %s\n", visible.Line(r.Outbox))
}

// scissors is the line that ends what is sent of the text in the editor.
const scissors = "# ------------------------ >8 ------------------------"

// editorOf returns the words of the user's editor command, or none if there is no terminal for it or
// the environment names none.
func editorOf(s *command.Streams) ([]string, error) {
	if !s.InTerminal || !s.ErrTerminal {
		return nil, nil
	}
	words, err := parseCommand(cmp.Or(s.Getenv("VISUAL"), s.Getenv("EDITOR")))
	if err != nil {
		err = failure.Usagef("VISUAL or EDITOR: %w", err)
	}
	return words, err
}

// keptIn says where a text is that was not sent.
func keptIn(path string) string {
	return "what you wrote is kept in " + path + "; --body-file sends it"
}

// writeBody lets the user write the body of the draft in an editor, and returns the file that holds it.
func (d *delivery) writeBody() (path string, err error) {
	if err := d.checkBeforeEditing(); err != nil {
		return "", err
	}
	start, err := bodyTemplate(string(d.draft.Type), d.w.Root(), d.w.Dir())
	if err != nil && !errors.Is(err, contract.ErrNoTemplate) {
		return "", err
	}
	path, text, err := d.edit(string(start))
	if path == "" {
		return "", err
	}
	if trimmed := strings.TrimSpace(text); trimmed == "" || trimmed == strings.TrimSpace(string(start)) {
		if err == nil {
			err = &failure.Error{Code: "nothing_written", Err: errors.New("no text was written, so nothing is sent")}
		}
		return "", errors.Join(err, os.Remove(path))
	}
	d.draft.Body = schema.TextValue(text)
	if err != nil {
		err = failure.WithHint(err, keptIn(path))
	}
	return path, err
}

// checkBeforeEditing returns what is wrong with a message apart from its body.
func (d *delivery) checkBeforeEditing() error {
	draft, options := d.draft, d.options()
	if err := command.CheckSubject(&draft); err != nil {
		return err
	}
	draft.Body = schema.TextValue("x")
	options.Sign, options.Unsigned = false, true
	_, _, _, err := d.w.Compose(draft, options)
	invalid, ok := errors.AsType[*validate.InvalidError](err)
	if !ok {
		return err
	}
	ofBody := func(d validate.Diagnostic) bool { return d.Field == "body" || strings.HasPrefix(d.Field, "body.") }
	return slices.DeleteFunc(invalid.Diagnostics, ofBody).Err()
}

// editorNotes returns the lines below the scissors: instructions, and a summary of the message.
func (d *delivery) editorNotes() string {
	m := &d.draft
	notes := fmt.Sprintf("# Write the message above this line. Text below it is not sent.\n"+
		"# To cancel, leave nothing above it.\n#\n# A %s from %s to %s: %s\n", m.Type, m.From, joinNames(m.To), m.Subject)
	if d.answered != nil {
		notes += fmt.Sprintf("#\n# It answers what %s wrote:\n\n%s\n", d.answered.From, bodyText(d.answered))
	}
	return notes
}

// edit opens an editor on a file that holds the text and, below the scissors, the notes. It returns
// the path of the file, empty if there is none, and what the user left above the scissors.
func (d *delivery) edit(text string) (path, edited string, err error) {
	words, err := editorOf(d.Streams)
	if err != nil {
		return "", "", err
	}
	file, err := os.CreateTemp("", "oacp-*.md")
	if err != nil {
		return "", "", err
	}
	path = file.Name()
	_, err = file.WriteString(text + "\n" + scissors + "\n" + d.editorNotes())
	if err = errors.Join(err, file.Close()); err != nil {
		return "", "", errors.Join(err, os.Remove(path))
	}
	// A ^C is for the editor, which has the terminal.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	editor := exec.CommandContext(d.ctx, words[0], append(words[1:], path)...)
	editor.Stdin, editor.Stdout, editor.Stderr = d.In, d.Err, d.Err
	if err = editor.Run(); err != nil {
		err = &failure.Error{Code: "editor", Err: fmt.Errorf("the editor %s: %w", words[0], err), Hint: "set VISUAL or EDITOR to an editor"}
	}
	edited, readErr := readInput(path, d.Streams)
	if readErr != nil {
		return "", "", errors.Join(err, readErr)
	}
	if at := strings.Index("\n"+edited, "\n"+scissors); at >= 0 {
		edited, err = edited[:at], errors.Join(err, os.Truncate(path, int64(at))) // the user may want to send the file
	}
	return path, strings.TrimRight(edited, "\r\n") + "\n", err
}

// defaultWait is how long commands wait for messages. Agents often stop a command after ten minutes.
const defaultWait = 8 * time.Minute

// timeoutFlag is --timeout of the commands that wait for messages.
func timeoutFlag() cli.Flag {
	return &cli.StringFlag{Name: "timeout", Usage: "wait at most `TIME`, 0: no limit", DefaultText: shortDuration(defaultWait)}
}

// timeLimit returns the value of --timeout.
func timeLimit(c *cli.Context) (time.Duration, error) {
	if !c.IsSet("timeout") {
		return defaultWait, nil
	}
	limit, err := schema.ParseDuration(c.String("timeout"))
	if err != nil {
		return 0, failure.Usagef("--timeout: %w", err)
	}
	return limit, nil
}

// shortDuration writes 8m0s as 8m.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// timeoutError returns the error of a wait whose time is over, with its own exit status, and err if
// that says something else.
func timeoutError(err error, text, hint string) error {
	if !errors.Is(err, watch.ErrTimeout) {
		return err
	}
	return &failure.Error{Code: "timeout", Exit: failure.ExitInVain, Err: errors.New(text), Hint: hint}
}

// A waitFor is what --wait waits for.
type waitFor string

const (
	waitForNoticed waitFor = "noticed"
	waitForAck     waitFor = "ack"
	waitForReply   waitFor = "reply"
	waitForAny     waitFor = "any"
)

var waits = []waitFor{waitForNoticed, waitForAck, waitForReply, waitForAny}

func (w *waitFor) String() string { return string(*w) }

// IsBoolFlag allows --wait without a value.
func (w *waitFor) IsBoolFlag() bool { return true }

// Accepts reports whether the word after --wait is its value, not an argument of the command.
func (w *waitFor) Accepts(word string) bool { return slices.Contains(waits, waitFor(word)) }

// Set takes the value, which is "true" if --wait has none. checkWait checks it.
func (w *waitFor) Set(text string) error {
	if *w = waitFor(text); text == "true" {
		*w = waitForAck
	}
	return nil
}

// checkWait checks --wait and --timeout.
func (d *delivery) checkWait() (err error) {
	const choices = "--wait (until it is acknowledged), --wait=noticed (a session has it), --wait=reply (answered) " +
		"or --wait=any (answered, or other mail comes)"
	switch {
	case d.isSet("wait") && !slices.Contains(waits, d.wait):
		return failure.Usagef("--wait: cannot wait for %s", visible.Quote(string(d.wait))).WithHint(choices)
	case d.isSet("timeout") && d.wait == "":
		return failure.Usagef("--timeout requires --wait").WithHint(choices)
	}
	d.limit, err = timeLimit(d.flags)
	return err
}

// inboxBefore returns what the sender's inbox holds before the message is sent.
func (d *delivery) inboxBefore() (map[string]bool, error) {
	if d.wait != waitForReply && d.wait != waitForAny {
		return nil, nil
	}
	return watch.Names(d.w, d.draft.From)
}

// await waits until a sent message is noticed, acknowledged or answered, and prints what ended the wait.
func (d *delivery) await(r *mailbox.Receipt, before map[string]bool) (err error) {
	ctx, m := d.ctx, r.Message
	if d.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d.limit, watch.ErrTimeout)
		defer cancel()
	}
	if !d.isOn("quiet") && !d.json() {
		if err := d.announceWait(m); err != nil {
			return err
		}
	}
	var arrived watch.Arrival
	switch d.wait {
	case waitForNoticed:
		err = track.AwaitNoticed(ctx, d.w, r)
	case waitForAck:
		err = watch.AwaitAcknowledged(ctx, d.w, r, nil)
	default:
		// Other mail to the sender may end the wait for an answer.
		arrived, err = watch.AwaitReply(ctx, d.w, r, watch.ReplyOptions{
			Before: before, Other: func(m *schema.Message) bool { return d.wait == waitForAny || m.Priority == schema.P0 },
		})
	}
	switch {
	case err != nil:
		return d.stillSent(m, err)
	case d.wait == waitForNoticed:
		return d.printNoticed(m)
	case d.wait != waitForAck:
		return d.printArrival(m, arrived)
	case d.json():
		return command.WriteJSONLine(d.Out, map[string]any{"acknowledged": m.ID})
	case !d.isOn("quiet"):
		d.printf("acknowledged: %s\n", m.ID)
	}
	return nil
}

// announceWait says what the command waits for, which recipients have open sessions, and which have neither
// a session nor a runner.
func (d *delivery) announceWait(m *schema.Message) error {
	limit := "without a limit"
	if d.limit > 0 {
		limit = "for at most " + shortDuration(d.limit)
	}
	what := map[waitFor]string{
		waitForNoticed: "waiting until it is noticed by " + joinNames(m.To),
		waitForAck:     "waiting until it is acknowledged by " + joinNames(m.To),
		waitForReply:   "waiting for an answer from " + joinNames(m.To) + " or a P0 message to " + string(m.From),
		waitForAny:     "waiting for an answer from " + joinNames(m.To) + " or any message to " + string(m.From),
	}[d.wait]
	var open, idle []schema.AgentName
	for _, to := range m.To {
		sessions, err := live.Sessions(d.w, to)
		if err != nil {
			return err
		}
		if len(sessions) > 0 {
			open = append(open, to)
			continue
		}
		if d.exchanger != nil {
			continue // it may run on another machine
		}
		running, err := track.IsRunning(d.w, to)
		if err != nil {
			return err
		}
		if !running {
			idle = append(idle, to)
		}
	}
	if len(open) > 0 {
		limit += "; open sessions: " + joinNames(open)
	}
	switch {
	case len(idle) > 0 && d.wait == waitForNoticed:
		limit += "; neither an open session nor oacp run gets the mail of " + joinNames(idle)
	case len(idle) > 0:
		limit += "; no oacp run works the inbox of " + joinNames(idle)
	}
	d.Note(what + ", " + limit)
	return nil
}

// stillSent makes an error that ends the wait say that the message is sent.
func (d *delivery) stillSent(m *schema.Message, err error) error {
	ask := "do not send it again; oacp status " + m.ID.Short() + " says how far it is"
	what := "there was no answer"
	switch d.wait {
	case waitForAck:
		what = "there was no acknowledgement"
	case waitForNoticed:
		what = "nobody noticed it"
	}
	text := fmt.Sprintf("message %s is sent, but %s within %s", m.ID, what, shortDuration(d.limit))
	if _, stopped := errors.AsType[*failure.SignalError](err); stopped {
		return failure.WithHint(fmt.Errorf("message %s is sent, but the wait was interrupted: %w", m.ID, err), ask)
	}
	return timeoutError(err, text, ask)
}

// printNoticed prints how far the message got with each recipient.
func (d *delivery) printNoticed(m *schema.Message) error {
	if d.isOn("quiet") && !d.json() {
		return nil
	}
	progress, err := track.Track(d.ctx, d.w, string(m.ID))
	if err != nil {
		return err
	}
	if !d.json() {
		turn.AddClaims(d.ctx, d.w, progress)
		printProgress(progress, d.Streams)
		return nil
	}
	type recipient struct {
		Agent schema.AgentName `json:"agent"`
		Stage track.Stage      `json:"stage"`
		*track.Noticed
	}
	by := make([]recipient, len(progress))
	for i, p := range progress {
		by[i] = recipient{Agent: p.Agent, Stage: p.Stage}
		if len(p.Noticed) > 0 {
			by[i].Noticed = &p.Noticed[0]
		}
	}
	return command.WriteJSONLine(d.Out, map[string]any{"noticed": m.ID, "by": by})
}

// printArrival prints the message that ended the wait, and says what it is. Unless it is an answer,
// the exit status is that of a timeout.
func (d *delivery) printArrival(sent *schema.Message, arrived watch.Arrival) (err error) {
	if !arrived.Answers {
		err = &failure.StatusError{Status: failure.ExitInVain}
	}
	if d.json() {
		key := "reply"
		if !arrived.Answers {
			key = "mail"
		}
		return cmp.Or(command.WriteJSONLine(d.Out, map[string]any{key: arrived.Message, "path": arrived.Path}), err)
	}
	pending := arrived.Box == mailbox.Inbox
	if copied, findErr := d.w.Pending(d.ctx, string(arrived.Message.ID), sent.From); !pending && findErr == nil {
		pending, arrived.Entry = true, copied
	}
	d.printf("\n")
	printMessage(d.Streams, arrived.Entry, places(d.w, []mailbox.Entry{arrived.Entry}))
	if flushErr := d.Out.Flush(); flushErr != nil {
		return flushErr
	}
	if !arrived.Answers {
		d.Note(fmt.Sprintf("that is other mail, not an answer; oacp status %s says how far your message is", sent.ID.Short()))
	}
	if pending {
		d.Note("it stays in the inbox of " + string(sent.From) + " until oacp ack " + arrived.Message.ID.Short())
	}
	return err
}
