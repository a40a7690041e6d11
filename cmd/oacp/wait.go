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
	"github.com/oacp-go/oacp/internal/spelling"
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

// timeoutFlag returns --timeout for commands that wait for messages. The limit is the default.
func timeoutFlag(limit *time.Duration) cli.Flag {
	return &cli.GenericFlag{Name: "timeout", Usage: "wait at most `TIME`, 0: no limit", DefaultText: shortDuration(*limit), Value: command.Parsed(limit, schema.ParseDuration).Needed()}
}

// shortDuration writes 8m0s as 8m, and 2h0m0s as 2h.
func shortDuration(d time.Duration) string {
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.String())
}

// timeoutError returns the error of a wait that timed out, which has its own exit status. It returns other
// errors as they are.
func timeoutError(err error, text, hint string) error {
	if !errors.Is(err, watch.ErrTimeout) {
		return err
	}
	return &failure.Error{Code: "timeout", Exit: failure.ExitTimeout, Err: errors.New(text), Hint: hint}
}

// A waitFor is the flag --wait, whose values are the goals.
type waitFor track.Goal

var goals = []track.Goal{track.GoalNoticed, track.GoalAcknowledged, track.GoalReply}

func (w *waitFor) String() string { return string(*w) }

// Accepts reports whether the word after --wait is its value rather than an argument of the command.
func (w *waitFor) Accepts(word string) bool { return slices.Contains(goals, track.Goal(word)) }

const waitChoices = "--wait (until it is acknowledged), --wait=noticed (a session has it) or --wait=reply (answered)"

// Set sets the value, which is "true" for --wait alone.
func (w *waitFor) Set(text string) error {
	*w = waitFor(text)
	if text == "true" {
		*w = waitFor(track.GoalAcknowledged)
	}
	if !slices.Contains(goals, track.Goal(*w)) {
		return failure.Usagef("cannot wait for %s", visible.Quote(text)).WithHint(waitChoices)
	}
	return nil
}

// await waits until a sent message is noticed, acknowledged or answered, and prints the result.
func (d *delivery) await(r *mailbox.Receipt) (err error) {
	ctx, m := d.ctx, r.Message
	if d.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d.limit, watch.ErrTimeout)
		defer cancel()
	}
	if !d.quiet && !d.asJSON {
		d.announceWait(m)
	}
	// Urgent mail to the sender ends the wait for an answer.
	arrived, err := track.Await(ctx, d.w, m, d.wait, func(m *schema.Message) bool { return m.Priority == schema.P0 })
	switch {
	case err != nil:
		return d.stillSent(m, err)
	case d.wait == track.GoalNoticed:
		return d.printNoticed(m)
	case d.wait == track.GoalReply:
		return d.printArrival(m, arrived)
	case d.asJSON:
		return command.WriteJSONLine(d.Out, map[string]any{"acknowledged": m.ID})
	case !d.quiet:
		d.Confirm("acknowledged: %s\n", m.ID)
	}
	return nil
}

// announceWait prints what the command waits for, what is known of the recipients, and which have
// neither a session nor a runner nor a command that waits.
func (d *delivery) announceWait(m *schema.Message) {
	limit := "without a limit"
	if d.limit > 0 {
		limit = "for at most " + shortDuration(d.limit)
	}
	what := map[track.Goal]string{
		track.GoalNoticed:      "waiting until it is noticed by " + spelling.Join(m.To),
		track.GoalAcknowledged: "waiting until it is acknowledged by " + spelling.Join(m.To),
		track.GoalReply:        "waiting for an answer from " + spelling.Join(m.To) + " or a P0 message to " + string(m.From),
	}[d.wait]
	statuses, _ := track.Status(d.ctx, d.w, m.To...) // without it, nothing is known
	var idle []schema.AgentName
	for _, to := range statuses {
		if to.Unreadable != "" {
			continue
		}
		facts, isThere := live.Presence(d.w, &to, d.Now())
		if len(facts) > 0 {
			limit += fmt.Sprintf("; %s: %s", to.Agent, strings.Join(facts, "; "))
		}
		if !isThere && d.exchanger == nil { // else it may run on another machine
			idle = append(idle, to.Agent)
		}
	}
	if len(idle) > 0 {
		limit += "; no session, oacp run or oacp next waits for the mail of " + spelling.Join(idle)
	}
	d.Note(what + ", " + limit)
}

// stillSent adds to the error of a wait that the message is sent.
func (d *delivery) stillSent(m *schema.Message, err error) error {
	ask := "do not send it again; oacp status " + m.ID.Short() + " shows how far it got"
	what := map[track.Goal]string{
		track.GoalNoticed: "nobody noticed it", track.GoalAcknowledged: "there was no acknowledgement", track.GoalReply: "there was no answer",
	}[d.wait]
	text := fmt.Sprintf("message %s is sent, but %s within %s", m.ID, what, shortDuration(d.limit))
	if _, stopped := errors.AsType[*failure.SignalError](err); stopped {
		return failure.WithHint(fmt.Errorf("message %s is sent, but the wait was interrupted: %w", m.ID, err), ask)
	}
	return timeoutError(err, text, ask)
}

// printNoticed prints how far the message got with each recipient.
func (d *delivery) printNoticed(m *schema.Message) error {
	if d.quiet && !d.asJSON {
		return nil
	}
	progress, err := track.Track(d.ctx, d.w, string(m.ID))
	if err != nil {
		return err
	}
	if !d.asJSON {
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

// showArrived is show for the message that ended the wait, also if somebody else of the agent has handled it meanwhile.
func (d *delivery) showArrived(agent schema.AgentName, arrived track.Arrival, print func() error) error {
	err := d.show(agent, []mailbox.Entry{arrived.Entry}, print)
	if !errors.Is(err, errMoved) {
		return err
	}
	handled, findErr := mailbox.Copies(d.ctx, d.w, arrived.Message.ID, agent, mailbox.Archive)
	if findErr != nil || len(handled) == 0 {
		return cmp.Or(findErr, err)
	}
	return cmp.Or(print(), d.Out.Flush())
}

// printArrival prints the message that ended the wait. Unless that is an answer, the exit status is that of
// a timeout.
func (d *delivery) printArrival(sent *schema.Message, arrived track.Arrival) error {
	files := []mailbox.Entry{arrived.Entry}
	err := d.showArrived(sent.From, arrived, func() error {
		if !d.asJSON {
			d.Printf("\n")
			return d.printAll(withReplies(d.ctx, d.w, sent.From, files), false)
		}
		line := struct {
			Mail  *schema.Message `json:"mail,omitempty"`
			Path  string          `json:"path"`
			Reply *schema.Message `json:"reply,omitempty"`
		}{Path: arrived.Path}
		if arrived.Answers {
			line.Reply = arrived.Message
		} else {
			line.Mail = arrived.Message
		}
		return command.WriteJSONLine(d.Out, line)
	})
	if err != nil {
		return err
	}
	if arrived.Answers {
		acts, err := d.as(sent.From)
		if err == nil {
			err = acts.Awaited(arrived.Message)
		}
		return err
	}
	if !d.asJSON {
		d.Note(fmt.Sprintf("this is other mail, not an answer; oacp status %s shows how far your message got", sent.ID.Short()))
	}
	return &failure.StatusError{Status: failure.ExitTimeout}
}
