package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
	"github.com/oacp-go/oacp/turn/track"
)

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

// waitedInVain returns the error of a wait whose time is over, with its own exit status, and err if
// that says something else.
func waitedInVain(err error, text, hint string) error {
	if !errors.Is(err, watch.ErrTimeout) {
		return err
	}
	return &failure.Error{Code: "timeout", Exit: failure.ExitInVain, Err: errors.New(text), Hint: hint}
}

// What --wait waits for.
const (
	waitForNoticed = "noticed"
	waitForAck     = "ack"
	waitForReply   = "reply"
	waitForAny     = "any"
)

var waits = []string{waitForNoticed, waitForAck, waitForReply, waitForAny}

// waitOptions are the flags of send and reply for what happens after the delivery.
type waitOptions struct {
	// what is empty if the command does not wait.
	what  string
	limit time.Duration
}

func (o *waitOptions) flag() cli.Flag {
	return &cli.GenericFlag{Name: "wait", Usage: "wait until acknowledged, or `WHAT`: noticed, reply, any", Value: o}
}

func (o *waitOptions) String() string { return o.what }

// IsBoolFlag allows --wait without a value.
func (o *waitOptions) IsBoolFlag() bool { return true }

// Accepts reports whether the word after --wait is its value, not an argument of the command.
func (o *waitOptions) Accepts(word string) bool {
	return slices.Contains(waits, word)
}

// Set takes the value, which is "true" if --wait has none. check checks it.
func (o *waitOptions) Set(text string) error {
	if o.what = text; text == "true" {
		o.what = waitForAck
	}
	return nil
}

// check checks both flags.
func (o *waitOptions) check(c *cli.Context) (err error) {
	const choices = "--wait (until it is acknowledged), --wait=noticed (a session has it), --wait=reply (answered) " +
		"or --wait=any (answered, or other mail comes)"
	switch {
	case c.IsSet("wait") && !o.Accepts(o.what):
		return failure.Usagef("--wait: cannot wait for %s", visible.Quote(o.what)).WithHint(choices)
	case c.IsSet("timeout") && o.what == "":
		return failure.Usagef("--timeout requires --wait").WithHint(choices)
	}
	o.limit, err = timeLimit(c)
	return err
}

// before returns what the sender's inbox holds before the message is sent.
func (o *waitOptions) before(w *mailbox.Workspace, sender schema.AgentName) (map[string]bool, error) {
	if o.what != waitForReply && o.what != waitForAny {
		return nil, nil
	}
	return watch.Names(w, sender)
}

// endsWait reports whether other mail to the sender ends the wait for an answer.
func (o *waitOptions) endsWait(m *schema.Message) bool {
	return o.what == waitForAny || m.Priority == schema.P0
}

// await waits until a sent message is noticed, acknowledged or answered, and prints what ended the wait.
func (o deliverOptions) await(ctx context.Context, w *mailbox.Workspace, r *mailbox.Receipt, before map[string]bool, s *command.Streams) error {
	if o.wait.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.wait.limit, watch.ErrTimeout)
		defer cancel()
	}
	if !o.quiet && !o.json {
		if err := o.announceWait(w, r.Message, s); err != nil {
			return err
		}
	}
	if o.wait.what == waitForNoticed {
		if err := track.AwaitNoticed(ctx, w, r); err != nil {
			return o.stillSent(r.Message, err)
		}
		return o.printNoticed(ctx, w, r.Message, s)
	}
	if o.wait.what != waitForAck {
		arrived, err := watch.AwaitReply(ctx, w, r, watch.ReplyOptions{Before: before, Other: o.wait.endsWait})
		if err != nil {
			return o.stillSent(r.Message, err)
		}
		return o.printArrival(ctx, w, r.Message, arrived, s)
	}
	if err := watch.AwaitAcknowledged(ctx, w, r, nil); err != nil {
		return o.stillSent(r.Message, err)
	}
	if o.json {
		return command.WriteJSONLine(s.Out, map[string]any{"acknowledged": r.Message.ID})
	}
	if !o.quiet {
		fmt.Fprintf(s.Out, "acknowledged: %s\n", r.Message.ID)
	}
	return nil
}

// announceWait says what the command waits for, which recipients have open sessions, and which have neither
// a session nor a runner.
func (o deliverOptions) announceWait(w *mailbox.Workspace, m *schema.Message, s *command.Streams) error {
	limit := "without a limit"
	if o.wait.limit > 0 {
		limit = "for at most " + shortDuration(o.wait.limit)
	}
	what := map[string]string{
		waitForNoticed: "waiting until it is noticed by " + joinNames(m.To),
		waitForAck:     "waiting until it is acknowledged by " + joinNames(m.To),
		waitForReply:   "waiting for an answer from " + joinNames(m.To) + " or a P0 message to " + string(m.From),
		waitForAny:     "waiting for an answer from " + joinNames(m.To) + " or any message to " + string(m.From),
	}[o.wait.what]
	var open, idle []schema.AgentName
	for _, to := range m.To {
		sessions, err := live.Sessions(w, to)
		if err != nil {
			return err
		}
		if len(sessions) > 0 {
			open = append(open, to)
			continue
		}
		if o.sync.IsSet() {
			continue // it may run on another machine
		}
		running, err := track.IsRunning(w, to)
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
	case len(idle) > 0 && o.wait.what == waitForNoticed:
		limit += "; neither an open session nor oacp run gets the mail of " + joinNames(idle)
	case len(idle) > 0:
		limit += "; no oacp run works the inbox of " + joinNames(idle)
	}
	s.Note(what + ", " + limit)
	return nil
}

// stillSent makes an error that ends the wait say that the message is sent.
func (o deliverOptions) stillSent(m *schema.Message, err error) error {
	ask := "do not send it again; oacp status " + m.ID.Short() + " says how far it is"
	what := "there was no answer"
	switch o.wait.what {
	case waitForAck:
		what = "there was no acknowledgement"
	case waitForNoticed:
		what = "nobody noticed it"
	}
	text := fmt.Sprintf("message %s is sent, but %s within %s", m.ID, what, shortDuration(o.wait.limit))
	if _, stopped := errors.AsType[*failure.SignalError](err); stopped {
		return failure.WithHint(fmt.Errorf("message %s is sent, but the wait was interrupted: %w", m.ID, err), ask)
	}
	return waitedInVain(err, text, ask)
}

// printNoticed prints how far the message got with each recipient.
func (o deliverOptions) printNoticed(ctx context.Context, w *mailbox.Workspace, m *schema.Message, s *command.Streams) error {
	if o.quiet && !o.json {
		return nil
	}
	progress, err := track.Track(ctx, w, string(m.ID))
	if err != nil {
		return err
	}
	if !o.json {
		turn.AddClaims(ctx, w, progress)
		printProgress(progress, s)
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
	return command.WriteJSONLine(s.Out, map[string]any{"noticed": m.ID, "by": by})
}

// printArrival prints the message that ended the wait, and says what it is. Unless it is an answer,
// the exit status is that of a wait in vain.
func (o deliverOptions) printArrival(ctx context.Context, w *mailbox.Workspace, sent *schema.Message, arrived watch.Arrival, s *command.Streams) (err error) {
	if !arrived.Answers {
		err = &failure.StatusError{Status: failure.ExitInVain}
	}
	if o.json {
		key := "reply"
		if !arrived.Answers {
			key = "mail"
		}
		return cmp.Or(command.WriteJSONLine(s.Out, map[string]any{key: arrived.Message, "path": arrived.Path}), err)
	}
	pending := arrived.Box == mailbox.Inbox
	if copied, findErr := w.Pending(ctx, string(arrived.Message.ID), sent.From); !pending && findErr == nil {
		pending, arrived.Entry = true, copied
	}
	fmt.Fprintln(s.Out)
	printMessage(s, arrived.Entry, places(w, []mailbox.Entry{arrived.Entry}))
	if flushErr := s.Out.Flush(); flushErr != nil {
		return flushErr
	}
	if !arrived.Answers {
		s.Note(fmt.Sprintf("that is other mail, not an answer; oacp status %s says how far your message is", sent.ID.Short()))
	}
	if pending {
		s.Note("it stays in the inbox of " + string(sent.From) + " until oacp ack " + arrived.Message.ID.Short())
	}
	return err
}
