package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/pair"
)

// pairRunsFlags say which runs a command is about.
func pairRunsFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "repo", Usage: "use the runs of the repository `DIR` (default: the one around the current folder)"},
		&cli.StringFlag{Name: "runs-dir", Category: command.Rare, Usage: "runs are below `DIR` (default $OACP_RUNS, then ~/.agentpair/runs)"},
		jsonFlag(),
	}, more...)
}

func pairLog(c *call) command.BridgeLog {
	return command.BridgeLog{Repository: c.text("repo"), RunsDir: c.text("runs-dir")}
}

func newPairListCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "list the runs of a repository, newest first",
		Description: `STATE is running if a process drives the run, and stopped if oacp pair --run-id NUMBER
can continue it. A run in state log has no agents: a mirror or oacp bridge created it.
VERDICT is the last verdict of the reviewers.`,
		Flags:  pairRunsFlags(&cli.BoolFlag{Name: "all", Usage: "list the runs of every repository"}),
		Action: action(s, 0, listPairRuns),
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

	// isLog reports that the run has no agents.
	isLog bool
}

func newPairRun(o pair.Overview) pairRun {
	m := &o.Manifest
	run := pairRun{
		ID: o.Run.ID, Repository: m.RepoPath, Folder: m.Dir(), Files: o.Run.Folder, Prompt: m.Prompt, State: m.State,
		Running: o.Driven, Resumable: o.Resumable(), Iteration: m.CurrentIteration, MaxIterations: m.MaxIterations,
		Spent: m.Spent, Verdict: m.Verdict, Created: m.CreatedAt.UTC().Truncate(time.Second), Updated: m.UpdatedAt.UTC().Truncate(time.Second), Error: m.Error,
		isLog: errors.Is(o.Err, pair.ErrForeignRun) && m.IsLog(),
	}
	if o.Err != nil {
		run.Error = o.Err.Error()
	}
	return run
}

// state is the state as people read it.
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

func (r pairRun) verdict() string {
	if r.Verdict == nil {
		return "-"
	}
	return string(r.Verdict.Agent) + " " + cmp.Or(string(r.Verdict.Signal), "unclear")
}

func listPairRuns(c *call) error {
	if c.isOn("all") && c.text("repo") != "" {
		return failure.Usagef("--all means every repository, so --repo cannot name one")
	}
	root, repository, ids, err := pairLog(c).RepositoryIDs(c.Streams, c.isOn("all"))
	if err != nil {
		return err
	}
	overviews, err := pair.List(root, ids...)
	if err != nil {
		return err
	}
	runs := []pairRun{}
	for _, overview := range overviews {
		runs = append(runs, newPairRun(overview))
	}
	return c.answer(map[string]any{"runs_dir": root, "runs": runs}, func() {
		if len(runs) == 0 {
			c.printf("no runs of %s in %s\n", visible.Line(repository), visible.Line(root))
		} else {
			printRuns(runs, c.Streams)
		}
	})
}

func printRuns(runs []pairRun, s *command.Streams) {
	table := newTable(s, row{"RUN", "STATE", "ITERATION", "TURNS", "VERDICT", "STARTED", "FOLDER", "TASK"}, 7, 8)
	for _, r := range runs {
		task, _, _ := strings.Cut(strings.TrimSpace(cmp.Or(r.Prompt, r.Error)), "\n")
		iteration, started := "-", "-"
		if r.MaxIterations > 0 {
			iteration = fmt.Sprintf("%d/%d", r.Iteration, r.MaxIterations)
		}
		if !r.Created.IsZero() {
			started = s.Time(r.Created)
		}
		table.add(r.ID, r.state(), iteration, r.Spent.Turns, visible.Line(r.verdict()),
			started, visible.Line(cmp.Or(r.Folder, r.Files)), visible.Line(task))
	}
	table.print()
}

func newPairRemoveCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "remove",
		Usage:     "remove finished runs",
		ArgsUsage: "ID...",
		Description: `remove deletes the folders of runs, with their logs and transcripts. It never removes a
run that a process drives.`,
		Flags: pairRunsFlags(
			&cli.BoolFlag{Name: "worktree", Usage: "also remove a worktree and branch that have changes"},
			&cli.BoolFlag{Name: "unfinished", Usage: "also remove runs that could be continued"},
			&cli.BoolFlag{Name: "dry-run", Usage: "show what would be removed and change nothing"}),
		Action: action(s, anyNumber, func(c *call) error {
			var ids []int
			for _, text := range c.words {
				id, err := strconv.Atoi(text)
				if err != nil || id < 1 {
					return failure.Usagef("%s is not the number of a run", visible.Quote(text)).WithHint("oacp pair list lists the runs")
				}
				ids = append(ids, id)
			}
			if len(ids) == 0 {
				return failure.Usagef("no run is named").WithHint("oacp pair list lists the runs")
			}
			var failed []error
			for _, id := range ids { // one that cannot be removed does not keep the others
				failed = append(failed, removePairRun(c, id))
			}
			return errors.Join(failed...)
		}),
	}
}

// removePairRun removes a run and says what is gone.
func removePairRun(c *call, id int) error {
	log, what := pairLog(c), pair.Removal{Worktree: c.isOn("worktree"), Unfinished: c.isOn("unfinished"), Check: c.isOn("dry-run")}
	log.RunID = id
	run, err := log.Run(c.Streams)
	if err != nil {
		return failure.WithHint(err, "oacp pair list lists the runs")
	}
	removed, err := pair.Remove(c.ctx, run, what)
	switch {
	case errors.Is(err, pair.ErrNeverBegun):
		return failure.WithHint(err, fmt.Sprintf("oacp pair remove --unfinished %d removes it", id))
	case errors.Is(err, pair.ErrUnfinished):
		return failure.WithHint(err, fmt.Sprintf("oacp pair --run-id %d continues it; --unfinished removes it", id))
	case errors.Is(err, pair.ErrKeepsChanges):
		return failure.WithHint(err, "--worktree also removes them; --dry-run --worktree shows them")
	case err != nil:
		return err
	case c.json():
		return command.WriteJSONLine(c.Out, map[string]any{"id": id, "dry_run": what.Check, "removed": removed})
	}
	verb := "removed"
	if what.Check {
		verb = "would remove"
	}
	c.printf("%s run %d: %s\n", verb, id, visible.Line(removed.Folder))
	w := removed.Worktree
	if w != nil && !w.Gone {
		c.printf("%s the worktree %s\n", verb, visible.Line(w.Path))
	}
	if w != nil && w.Tip != "" {
		c.printf("%s the branch %s, which was at %s\n", verb, visible.Line(w.Branch), w.Tip)
	}
	return nil
}
