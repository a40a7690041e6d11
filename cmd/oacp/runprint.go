package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

// A runPrinter prints the events of a runner.
type runPrinter struct {
	*runCall
	liveOutput
	// printed is set once there was an event to print.
	printed bool
}

func (p *runPrinter) print(e turn.Event) {
	if e.Kind == turn.EventOutput && !p.showOutput || e.Kind == turn.EventAcknowledged && !p.asJSON {
		return
	}
	p.printed = true
	var err error
	switch {
	case p.asJSON:
		err = command.WriteJSONLine(p.Out, e)
	case e.Kind == turn.EventOutput:
		printIndented(p.Streams, e.Output.Text)
	default:
		err = p.Printf("%s\n", p.line(e))
	}
	p.flush(p.Streams, err)
}

// eventWords are the words for events, and their colors.
var eventWords = map[turn.EventKind]struct {
	word   string
	colors colors
}{
	turn.EventStarted:          {word: "turn"},
	turn.EventSucceeded:        {"done", green},
	turn.EventFailed:           {"failed", red},
	turn.EventInterrupted:      {"stopped", yellow},
	turn.EventAnswered:         {word: "answered"},
	turn.EventDuplicate:        {word: "duplicate"},
	turn.EventDeadLetter:       {"dead letter", red},
	turn.EventBounced:          {word: "bounced"},
	turn.EventUnsendable:       {"not sent", red},
	turn.EventHeld:             {"held", yellow},
	turn.EventExpired:          {"expired", yellow},
	turn.EventClaimedElsewhere: {"elsewhere", yellow},
	turn.EventBound:            {"bound", yellow},
	turn.EventUnavailable:      {"unavailable", red},
	turn.EventWarning:          {"warning", yellow},
	turn.EventProblem:          {"problem", red},
}

// id returns an id for a line: the short one on a terminal, where lines are narrow, and the complete
// one in a log, which may have several messages with the same short id.
func (p *runPrinter) id(id schema.ID) string {
	if p.OutTerminal {
		return id.Short()
	}
	return string(id)
}

func (p *runPrinter) line(e turn.Event) string {
	words := eventWords[e.Kind]
	if e.Kind == turn.EventSucceeded && (e.End == turn.EndDeclined || e.End == turn.EndAsked) {
		words.word, words.colors = string(e.End), yellow
	}
	line := p.Clock(e.At) + "  " + paint(p.Streams, words.colors, fmt.Sprintf("%-12s", words.word))
	before := "  " // the text before the reason
	for _, part := range []string{cmp.Or(p.id(e.ID), e.File), string(e.From), string(e.Type), e.Subject} {
		if part != "" {
			line, before = line+"  "+visible.Line(part), ": "
		}
	}
	var details []string
	if e.Usage.Turns > 0 {
		details = append(details, spelling.Plural(int(e.Usage.Turns), "model turn"))
	}
	details = append(details, usageDetails(e.Usage)...)
	if e.Kind == turn.EventStarted && e.Attempt > 1 {
		details = append(details, fmt.Sprintf("turn %d", e.Attempt))
	}
	if !e.RetryAt.IsZero() {
		details = append(details, "again at "+p.Clock(e.RetryAt))
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

// usageDetails returns the tokens and the cost of turns, as far as they are known.
func usageDetails(used agent.Usage) (details []string) {
	if tokens := command.Count(used.InputTokens + used.OutputTokens); tokens != "" {
		details = append(details, tokens+" tokens")
	}
	if cost := command.Cost(used.CostUSD); cost != "" {
		details = append(details, cost)
	}
	return details
}

// refusedText names the refused action, and the permission that allows it if that is known.
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
