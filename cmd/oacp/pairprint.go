package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fatih/color"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/pair"
)

// pairPrinter prints the entries of a run. An error of the output does not stop the agents.
type pairPrinter struct {
	o   pairOptions
	s   *command.Streams
	err error
	// gone, if not nil, is called when the reader of the output is gone.
	gone func()
}

func (p *pairPrinter) print(e pair.Entry) {
	if e.Type == pair.EntryEvent && !p.o.config.Verbose {
		return
	}
	var err error
	if p.o.json {
		var line []byte
		if line, err = e.Line(); err == nil {
			_, err = p.s.Out.Write(line)
		}
	} else if line := p.line(e); line != "" {
		_, err = fmt.Fprintln(p.s.Out, line)
	}
	if err = errors.Join(err, p.s.Out.Flush()); err != nil && p.err == nil {
		if p.err = command.OutputError(err); errors.Is(p.err, failure.ErrOutputClosed) && p.gone != nil {
			p.gone()
		}
	}
}

// line returns the entry as text, "" if there is nothing to print.
func (p *pairPrinter) line(e pair.Entry) string {
	words, colors := p.words(e)
	if words == "" {
		return ""
	}
	if e.Type == pair.EntryEvent || e.Type == pair.EntryState {
		return "    " + strings.ReplaceAll(visible.Lines(strings.TrimRight(words, "\n")), "\n", "\n    ")
	}
	return e.Timestamp.Local().Format(time.TimeOnly) + "  " + paint(p.s, colors, visible.Line(words))
}

func (p *pairPrinter) words(e pair.Entry) (string, colors) {
	switch e.Type {
	case pair.EntryStart:
		return fmt.Sprintf("run %d: %s", e.RunID, e.Content), nil
	case pair.EntryIteration:
		return fmt.Sprintf("iteration %d", e.Iteration), colors{color.Bold}
	case pair.EntryExecute:
		return fmt.Sprintf("%s %s", e.Agent, map[pair.State]string{pair.Working: "works", pair.Reviewing: "reviews"}[e.State]), nil
	case pair.EntryEvent, pair.EntryState:
		return e.Content, nil // of states only the last output of a failed run
	case pair.EntryResult:
		return fmt.Sprintf("%s has ended its turn after %v", e.Agent, e.Duration.Round(time.Second)), nil
	case pair.EntrySignal:
		return fmt.Sprintf("%s says %s", e.Agent, e.Signal), signalColors[e.Signal]
	case pair.EntryProof:
		if e.Error != "" {
			return e.Error, signalColors[bridge.SignalFail]
		}
		return "the proof has succeeded", signalColors[bridge.SignalPass]
	case pair.EntryRestart:
		return fmt.Sprintf("%s is started again: %s", e.Agent, e.Error), colors{color.FgYellow}
	case pair.EntryNotice:
		return e.Content, colors{color.FgYellow}
	case pair.EntryEnd:
		return fmt.Sprintf("run %d is %s in iteration %d", e.RunID, e.State, e.Iteration), nil
	}
	return "", nil // errors go to standard error
}

var signalColors = map[bridge.Signal]colors{
	bridge.SignalDone: {color.FgGreen},
	bridge.SignalPass: {color.FgGreen},
	bridge.SignalFail: {color.FgRed},
}
