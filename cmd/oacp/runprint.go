package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/fatih/color"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

// A runPrinter prints the events of a runner. If it cannot, the turns go on, and err is returned in
// the end.
type runPrinter struct {
	o   runOptions
	s   *command.Streams
	err error
	// printed reports that there was an event to print.
	printed bool
	// gone is called if nobody reads the output.
	gone func()
}

func (p *runPrinter) print(e turn.Event) {
	if e.Kind == turn.EventOutput && !p.o.output {
		return
	}
	p.printed = true
	var err error
	switch {
	case p.o.json:
		err = command.WriteJSONLine(p.s.Out, e)
	case e.Kind == turn.EventOutput:
		printIndented(p.s, e.Output.Text)
	default:
		_, err = fmt.Fprintln(p.s.Out, p.line(e))
	}
	if err = errors.Join(err, p.s.Out.Flush()); err != nil && p.err == nil {
		if p.err = command.OutputError(err); errors.Is(p.err, failure.ErrOutputClosed) {
			p.gone()
		}
	}
}

// eventWords are the words for events, and their colors.
var eventWords = map[turn.EventKind]struct {
	word   string
	colors colors
}{
	turn.EventStarted:      {word: "turn"},
	turn.EventSucceeded:    {"done", colors{color.FgGreen}},
	turn.EventFailed:       {"failed", colors{color.FgRed}},
	turn.EventInterrupted:  {"stopped", colors{color.FgYellow}},
	turn.EventAnswered:     {word: "answered"},
	turn.EventAcknowledged: {word: "acknowledged"},
	turn.EventDuplicate:    {word: "duplicate"},
	turn.EventDeadLetter:   {"dead letter", colors{color.FgRed}},
	turn.EventBounced:      {word: "bounced"},
	turn.EventUnsendable:   {"not sent", colors{color.FgRed}},
	turn.EventHeld:         {"held", colors{color.FgYellow}},
	turn.EventExpired:      {"expired", colors{color.FgYellow}},
	turn.EventBound:        {"bound", colors{color.FgYellow}},
	turn.EventUnavailable:  {"unavailable", colors{color.FgRed}},
	turn.EventWarning:      {"warning", colors{color.FgYellow}},
	turn.EventProblem:      {"problem", colors{color.FgRed}},
}

// id returns an id for a line: a short one on a terminal, where lines are narrow, and the complete
// one in a log, in which others may begin in the same way.
func (p *runPrinter) id(id schema.ID) string {
	if p.s.OutTerminal {
		return id.Short()
	}
	return string(id)
}

func (p *runPrinter) line(e turn.Event) string {
	words := eventWords[e.Kind]
	line := p.s.Clock(e.At) + "  " + paint(p.s, words.colors, fmt.Sprintf("%-12s", words.word))
	before := "  " // what the reason follows
	for _, part := range []string{cmp.Or(p.id(e.ID), e.File), string(e.From), string(e.Type), e.Subject} {
		if part != "" {
			line, before = line+"  "+visible.Line(part), ": "
		}
	}
	details := usageDetails(e.Usage)
	if e.Kind == turn.EventStarted && e.Attempt > 1 {
		details = append(details, fmt.Sprintf("turn %d", e.Attempt))
	}
	if !e.RetryAt.IsZero() {
		details = append(details, "again at "+p.s.Clock(e.RetryAt))
	}
	if len(details) > 0 {
		line += "  (" + strings.Join(details, ", ") + ")"
	}
	if e.Sent != "" {
		line += "  with " + p.id(e.Sent)
	}
	if len(e.Refused) > 0 {
		line += "; refused " + refusedText(e.Refused)
	}
	if e.Kind == turn.EventInterrupted && errors.Is(e.Err, agent.ErrUnavailable) {
		e.Reason = "the agent is unavailable" // the next line says why
	}
	if e.Reason != "" {
		line += before + visible.Line(e.Reason)
	}
	return line
}

// usageDetails returns what a turn used up, as far as it is known.
func usageDetails(used agent.Usage) []string {
	var details []string
	if used.Turns > 0 {
		details = append(details, spelling.Count(int(used.Turns), "model turn"))
	}
	if tokens := command.Count(used.InputTokens + used.OutputTokens); tokens != "" {
		details = append(details, tokens+" tokens")
	}
	if cost := command.Cost(used.CostUSD); cost != "" {
		details = append(details, cost)
	}
	return details
}

// refusedText names what was refused, and the permission that allows it if that is known.
func refusedText(refused []agent.Refusal) string {
	const most = 3
	var texts []string
	for _, r := range refused[:min(most, len(refused))] {
		text := visible.Line(r.Tool)
		if r.What != "" {
			text += " " + visible.Quote(r.What)
		}
		if r.Count > 1 {
			text += fmt.Sprintf(" %d times", r.Count)
		}
		if r.Allow != "" {
			text += " (needs --allow " + string(r.Allow) + ")"
		}
		texts = append(texts, text)
	}
	if more := len(refused) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}
