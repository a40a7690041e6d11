package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/pair"
)

// runsFlags are the flags that select runs, --json and more.
func runsFlags(c *call, log *command.BridgeLog, more ...cli.Flag) []cli.Flag {
	return slices.Concat(log.RunsFlags(), []cli.Flag{c.jsonFlag()}, more)
}

// A pairRunsCall is a call of pair list or pair remove.
type pairRunsCall struct {
	*call
	log  command.BridgeLog
	what pair.Removal
}

func newPairListCommand(s *command.Streams) *cli.Command {
	c := &pairRunsCall{call: newCall(s)}
	return &cli.Command{
		Name:  "list",
		Usage: "list the runs of a repository, newest first",
		Description: `STATE is running if a process drives the run, and stopped if oacp pair --run-id NUMBER
can continue it. A run in state log has no agents: a mirror or oacp bridge created it.
VERDICT is the last verdict of the reviewers.`,
		Flags:  runsFlags(c.call, &c.log),
		Action: c.action(0, c.list),
	}
}

// pairRun is a run, as JSON.
type pairRun struct {
	ID            int           `json:"id"`
	Repository    string        `json:"repository"`
	Folder        string        `json:"folder"`
	Files         string        `json:"run_path"`
	Prompt        string        `json:"prompt"`
	State         pair.State    `json:"state"`
	Running       bool          `json:"running"`
	Resumable     bool          `json:"resumable"`
	Iteration     int           `json:"iteration"`
	MaxIterations int           `json:"max_iterations"`
	Spent         pair.Spent    `json:"spent"`
	Verdict       *pair.Verdict `json:"verdict,omitempty"`
	Created       time.Time     `json:"created_at,omitzero"`
	Updated       time.Time     `json:"updated_at,omitzero"`
	Error         string        `json:"error,omitempty"`

	// isLog reports that the run has no agents, and isUnreadable that its manifest cannot be read.
	isLog, isUnreadable bool
}

func newPairRun(o pair.Overview) pairRun {
	m := &o.Manifest
	run := pairRun{
		ID: o.Run.ID, Repository: m.RepoPath, Folder: m.Dir(), Files: o.Run.Folder, Prompt: m.Prompt, State: m.State,
		Running: o.Driven, Resumable: o.Resumable(), Iteration: m.CurrentIteration, MaxIterations: m.MaxIterations,
		Spent: m.Spent, Verdict: m.Verdict, Created: m.CreatedAt.UTC().Truncate(time.Second), Updated: m.UpdatedAt.UTC().Truncate(time.Second), Error: m.Error,
		isLog: errors.Is(o.Err, pair.ErrLogRun),
	}
	if o.Err != nil && !run.isLog {
		run.Error, run.isUnreadable = o.Err.Error(), !errors.Is(o.Err, pair.ErrForeignRun)
	}
	return run
}

// state returns the state for people.
func (r pairRun) state() string {
	switch {
	case r.Running:
		return "running"
	case r.Resumable:
		return "stopped"
	case r.isLog:
		return "log"
	case r.State.Known():
		return string(r.State)
	}
	return "unreadable"
}

func (c *pairRunsCall) list() error {
	root, repository, ids, err := c.log.RepositoryIDs(c.Streams, false)
	if err != nil {
		return err
	}
	overviews, err := pair.List(root, ids...)
	if err != nil {
		return err
	}
	runs := []pairRun{}
	for _, overview := range overviews {
		run := newPairRun(overview)
		if run.isUnreadable {
			c.Warn(fmt.Sprintf("run %d: %s", run.ID, run.Error))
		}
		runs = append(runs, run)
	}
	return c.answer(map[string]any{"runs_dir": root, "runs": runs}, func() {
		if len(runs) == 0 {
			c.Printf("no runs of %s in %s\n", visible.Line(repository), visible.Line(root))
		} else {
			printRuns(runs, c.Streams)
		}
	})
}

func printRuns(runs []pairRun, s *command.Streams) {
	table := newTable(s, row{"RUN", "STATE", "ITERATION", "TURNS", "VERDICT", "STARTED", "FOLDER", "TASK"})
	for _, r := range runs {
		task, _, _ := strings.Cut(strings.TrimSpace(r.Prompt), "\n")
		iteration, started, verdict := "-", "-", "-"
		if r.Verdict != nil {
			verdict = string(r.Verdict.Agent) + " " + cmp.Or(string(r.Verdict.Signal), "unclear")
		}
		if r.MaxIterations > 0 {
			iteration = fmt.Sprintf("%d/%d", r.Iteration, r.MaxIterations)
		}
		if !r.Created.IsZero() {
			started = s.Time(r.Created)
		}
		table.add(r.ID, r.state(), iteration, r.Spent.Turns, visible.Line(verdict),
			started, visible.Line(cmp.Or(r.Folder, r.Files)), visible.Line(cmp.Or(task, "-")))
	}
	table.print()
}

func newPairRemoveCommand(s *command.Streams) *cli.Command {
	c := &pairRunsCall{call: newCall(s)}
	return &cli.Command{
		Name:      "remove",
		Usage:     "remove finished runs",
		ArgsUsage: "NUMBER…",
		Description: `remove deletes the folders of runs, with their logs and transcripts. It never removes a
run that a process drives.`,
		Flags: runsFlags(c.call, &c.log,
			&cli.BoolFlag{Name: "worktree", Usage: "also remove a worktree and branch that have changes", Destination: &c.what.Worktree},
			&cli.BoolFlag{Name: "unfinished", Usage: "also remove runs that could be continued", Destination: &c.what.Unfinished}),
		Action: c.action(anyNumber, c.remove),
	}
}

func (c *pairRunsCall) remove() error {
	var ids []int
	for _, text := range c.words {
		id, err := command.ParseRunID(text)
		if err != nil {
			return failure.Usagef("%s is not the number of a run", visible.Quote(text)).WithHint("oacp pair list lists the runs")
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return failure.Usagef("no run is named").WithHint("oacp pair list lists the runs")
	}
	var failed []error
	for _, id := range ids { // one that cannot be removed does not stop the others
		failed = append(failed, c.removeRun(id))
	}
	return errors.Join(failed...)
}

// removeRun removes a run and prints what it removed.
func (c *pairRunsCall) removeRun(id int) error {
	c.log.RunID = id
	run, err := c.log.Run(c.Streams)
	if err != nil {
		return failure.WithHint(err, "oacp pair list lists the runs")
	}
	removed, err := pair.Remove(c.ctx, run, c.what)
	switch {
	case errors.Is(err, pair.ErrNeverBegun), errors.Is(err, pair.ErrLogRun):
		return failure.WithHint(err, fmt.Sprintf("oacp pair remove --unfinished %d removes it", id))
	case errors.Is(err, pair.ErrUnfinished):
		return failure.WithHint(err, fmt.Sprintf("oacp pair --run-id %d continues it; --unfinished removes it", id))
	case errors.Is(err, pair.ErrKeepsChanges):
		return failure.WithHint(err, fmt.Sprintf("oacp pair remove --worktree %d also removes them", id))
	case err != nil:
		return err
	case c.asJSON:
		return command.WriteJSONLine(c.Out, map[string]any{"id": id, "removed": removed})
	}
	c.Printf("removed run %d: %s\n", id, visible.Line(removed.Folder))
	w := removed.Worktree
	if w != nil && !w.Gone {
		c.Printf("removed the worktree %s\n", visible.Line(w.Path))
	}
	if w != nil && w.Tip != "" {
		c.Printf("removed the branch %s, which was at %s\n", visible.Line(w.Branch), w.Tip)
	}
	return nil
}

// A pairPrinter prints the entries of a run.
type pairPrinter struct {
	*pairing
	liveOutput
	// reason is the reason in the last entry.
	reason string
}

func (p *pairPrinter) print(e pair.Entry) {
	if e.Type.Detail() && !p.config.Verbose {
		return
	}
	var err error
	if p.asJSON {
		var line []byte
		if line, err = e.Line(); err == nil {
			_, err = p.Out.Write(line)
		}
	} else {
		err = p.Printf("%s", p.text(e))
	}
	p.flush(p.Streams, err)
}

// text returns the text for an entry: a line with the time, and indented lines below it. Either may be
// missing.
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

// detail returns what an agent says or does during its turn, with its name.
func (p *pairPrinter) detail(e pair.Entry) string {
	mark := string(e.Agent) + "  "
	if e.Type == pair.EntryTool {
		return mark + "> " + visible.Line(e.Content)
	}
	var text strings.Builder
	for line := range strings.Lines(e.Content) {
		text.WriteString(mark + line)
	}
	return text.String()
}

// pairWords returns the line about an entry, without its time, or "" if there is none.
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

// listedChanges is the number of changed files that the end of a run shows.
const listedChanges = 12

// summaryText returns the result of a run and the next steps.
func summaryText(summary *pair.Summary, run int) string {
	var text strings.Builder
	line := func(name, format string, values ...any) {
		fmt.Fprintf(&text, "%-8s %s\n", name, visible.Line(fmt.Sprintf(format, values...)))
	}
	line("folder", "%s", summary.Folder)
	listed := min(len(summary.Changes), listedChanges)
	name := "changed"
	for _, change := range summary.Changes[:listed] {
		if change.Untracked {
			line(name, "%s (untracked)", change.Path)
		} else {
			line(name, "%s +%d -%d", change.Path, change.Added, change.Deleted)
		}
		name = ""
	}
	if more := len(summary.Changes) - listed + summary.Unlisted; more > 0 {
		line("", "and %d more", more)
	}
	spent := summary.Spent
	used := append([]string{spelling.Plural(spent.Turns, "turn") + " in " + spent.Duration.Round(time.Second).String()}, usageDetails(spent.Usage)...)
	line("used", "%s", strings.Join(used, ", "))
	w := summary.Worktree
	if w == nil {
		return text.String()
	}
	// The next steps with the worktree.
	step := func(name string, words ...string) { line(name, "%s", visible.ShellCommand(words...)) }
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
