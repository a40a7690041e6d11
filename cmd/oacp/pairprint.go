package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/pair"
)

// pairPrinter prints the entries of a run. An error of the output does not stop the agents.
type pairPrinter struct {
	*pairing
	err error
	// reason is what the last entry gave as one.
	reason string
	// gone, if not nil, is called when the reader of the output is gone.
	gone func()
}

func (p *pairPrinter) print(e pair.Entry) {
	if e.Type.Detail() && !p.config.Verbose {
		return
	}
	var err error
	if p.json() {
		var line []byte
		if line, err = e.Line(); err == nil {
			_, err = p.Out.Write(line)
		}
	} else {
		_, err = fmt.Fprint(p.Out, p.text(e))
	}
	if err = errors.Join(err, p.Out.Flush()); err != nil && p.err == nil {
		if p.err = command.OutputError(err); errors.Is(p.err, failure.ErrOutputClosed) && p.gone != nil {
			p.gone()
		}
	}
}

// text returns what is printed of an entry: a line with the time, and below it a text that may have
// several lines. Either may be missing.
func (p *pairPrinter) text(e pair.Entry) string {
	words, colors := pairWords(e)
	var text strings.Builder
	if words != "" {
		text.WriteString(p.Clock(e.Timestamp) + "  " + paint(p.Streams, colors, visible.Line(words)) + "\n")
	}
	below := ""
	switch {
	case e.Summary != nil:
		below = summaryText(e.Summary, e.RunID)
	case e.Type == pair.EntryState && e.Content != p.reason+"\n":
		below = e.Content
	case e.Type.Detail():
		below = p.detail(e)
	default:
		below, p.reason = e.Reason, e.Reason
	}
	for line := range strings.Lines(strings.TrimRight(below, "\n")) {
		text.WriteString("    " + visible.Lines(strings.TrimRight(line, "\r\n")) + "\n")
	}
	return text.String()
}

// detail returns what an agent says or does during its turn, with its name unless only one agent is
// shown.
func (p *pairPrinter) detail(e pair.Entry) string {
	mark := ""
	if p.follow == "" {
		mark = string(e.Agent) + "  "
	}
	if e.Type == pair.EntryTool {
		return mark + "> " + visible.Line(e.Content)
	}
	var text strings.Builder
	for line := range strings.Lines(e.Content) {
		text.WriteString(mark + line)
	}
	return text.String()
}

// pairWords returns the line about an entry, without its time, "" if there is none.
func pairWords(e pair.Entry) (string, colors) {
	took := e.Duration.Round(time.Second)
	switch e.Type {
	case pair.EntryStart:
		return fmt.Sprintf("run %d: %s", e.RunID, e.Content), nil
	case pair.EntryResume:
		return fmt.Sprintf("goes on in iteration %d: %s", e.Iteration, e.Content), yellow
	case pair.EntryIteration:
		return fmt.Sprintf("iteration %d", e.Iteration), bold
	case pair.EntryExecute:
		return fmt.Sprintf("%s %s", e.Agent, map[pair.State]string{pair.Working: "works", pair.Reviewing: "reviews"}[e.State]), nil
	case pair.EntryResult:
		if len(e.Refused) > 0 {
			return fmt.Sprintf("%s has ended its turn after %v; refused %s", e.Agent, took, refusedText(e.Refused)), yellow
		}
		return fmt.Sprintf("%s has ended its turn after %v", e.Agent, took), nil
	case pair.EntrySignal:
		return fmt.Sprintf("%s says %s", e.Agent, e.Signal), signalColors[e.Signal]
	case pair.EntryProving:
		return "the proof runs: " + e.Content, nil
	case pair.EntryProof:
		if e.Error != "" {
			return e.Error, signalColors[bridge.SignalFail]
		}
		return fmt.Sprintf("the proof has succeeded after %v", took), signalColors[bridge.SignalPass]
	case pair.EntryRestart:
		return fmt.Sprintf("%s is started again: %s", e.Agent, e.Error), yellow
	case pair.EntryRetry:
		return fmt.Sprintf("%s: %s", e.Agent, e.Content), yellow
	case pair.EntryUnclear, pair.EntryNotice:
		return e.Content, yellow
	case pair.EntryEnd:
		switch e.State {
		case pair.Complete:
			return fmt.Sprintf("run %d is completed in iteration %d", e.RunID, e.Iteration), signalColors[bridge.SignalPass]
		case pair.Failed:
			return fmt.Sprintf("run %d has failed in iteration %d", e.RunID, e.Iteration), signalColors[bridge.SignalFail]
		}
		return fmt.Sprintf("run %d has stopped in iteration %d and can be continued", e.RunID, e.Iteration), yellow
	}
	return "", nil // errors go to standard error
}

// listedChanges is how many changed files the end of a run shows.
const listedChanges = 12

// summaryText shows what a run came to.
func summaryText(summary *pair.Summary, run int) string {
	var text strings.Builder
	row := func(name, format string, values ...any) {
		fmt.Fprintf(&text, "%-8s %s\n", name, visible.Line(fmt.Sprintf(format, values...)))
	}
	row("folder", "%s", summary.Folder)
	listed := min(len(summary.Changes), listedChanges)
	name := "changed"
	for _, change := range summary.Changes[:listed] {
		if change.Untracked {
			row(name, "%s (untracked)", change.Path)
		} else {
			row(name, "%s +%d -%d", change.Path, change.Added, change.Deleted)
		}
		name = ""
	}
	if more := len(summary.Changes) - listed + summary.Unlisted; more > 0 {
		row("", "and %d more", more)
	}
	spent := summary.Spent
	used := append([]string{spelling.Count(spent.Turns, "turn") + " in " + spent.Duration.Round(time.Second).String()}, usageDetails(spent.Usage)...)
	row("used", "%s", strings.Join(used, ", "))
	w := summary.Worktree
	if w == nil {
		return text.String()
	}
	// The next steps with the worktree.
	step := func(name string, words ...string) { row(name, "%s", visible.Shell(words...)) }
	if w.Uncommitted {
		step("commit", "git", "-C", w.Path, "add", "-A")
		step("", "git", "-C", w.Path, "commit")
	}
	step("look", "git", "-C", summary.Repository, "diff", fmt.Sprintf("%.12s", w.Base), w.Branch)
	step("merge", "git", "-C", summary.Repository, "merge", w.Branch)
	step("or drop", "oacp", "pair", "remove", "--worktree", fmt.Sprint(run))
	return text.String()
}

var signalColors = map[bridge.Signal]colors{
	bridge.SignalDone: green,
	bridge.SignalPass: green,
	bridge.SignalFail: red,
}
