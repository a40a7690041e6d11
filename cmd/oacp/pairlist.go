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

// pairRuns says which runs a command is about.
type pairRuns struct {
	log  command.BridgeLog
	json bool
}

func (o *pairRuns) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "repo", Usage: "use the runs of the repository `DIR` (default: the one around the current folder)", Destination: &o.log.Repository},
		&cli.StringFlag{Name: "runs-dir", Category: command.Rare, Usage: "runs are below `DIR` (default $OACP_RUNS, then ~/.agentpair/runs)", Destination: &o.log.RunsDir},
		command.JSONFlag(&o.json),
	}
}

func newPairListCommand(s *command.Streams) *cli.Command {
	var o pairRuns
	var all bool
	return &cli.Command{
		Name:  "list",
		Usage: "list the runs of a repository, newest first",
		Description: `STATE is running if a process drives the run, and stopped if oacp pair --run-id NUMBER
can continue it. A run in state log has no agents: a mirror or oacp bridge created it.
VERDICT is the last verdict of the reviewers.`,
		Flags: append(o.flags(), &cli.BoolFlag{Name: "all", Usage: "list the runs of every repository", Destination: &all}),
		Action: func(c *cli.Context) error {
			if err := command.NoPositionals(c); err != nil {
				return err
			}
			if all && o.log.Repository != "" {
				return failure.Usagef("--all means every repository, so --repo cannot name one")
			}
			return o.list(all, s)
		},
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

func (o pairRuns) list(all bool, s *command.Streams) error {
	root, repository, ids, err := o.log.RepositoryIDs(s, all)
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
	return s.Answer(o.json, map[string]any{"runs_dir": root, "runs": runs}, func() {
		if len(runs) == 0 {
			fmt.Fprintf(s.Out, "no runs of %s in %s\n", visible.Line(repository), visible.Line(root))
		} else {
			printRuns(runs, s)
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
		table.add(row{
			r.ID, r.state(), iteration, r.Spent.Turns, visible.Line(r.verdict()),
			started, visible.Line(cmp.Or(r.Folder, r.Files)), visible.Line(task),
		})
	}
	table.print(s)
}

func newPairRemoveCommand(s *command.Streams) *cli.Command {
	var o pairRuns
	var what pair.Removal
	return &cli.Command{
		Name:      "remove",
		Usage:     "remove finished runs",
		ArgsUsage: "ID...",
		Description: `remove deletes the folders of runs, with their logs and transcripts. It never removes a
run that a process drives.`,
		Flags: append(o.flags(),
			&cli.BoolFlag{Name: "worktree", Usage: "also remove a worktree and branch that have changes", Destination: &what.Worktree},
			&cli.BoolFlag{Name: "unfinished", Usage: "also remove runs that could be continued", Destination: &what.Unfinished},
			&cli.BoolFlag{Name: "dry-run", Usage: "show what would be removed and change nothing", Destination: &what.Check}),
		Action: func(c *cli.Context) error {
			var ids []int
			for _, text := range command.Positionals(c) {
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
				failed = append(failed, o.remove(c, id, what, s))
			}
			return errors.Join(failed...)
		},
	}
}

// remove removes a run and says what is gone.
func (o pairRuns) remove(c *cli.Context, id int, what pair.Removal, s *command.Streams) error {
	o.log.RunID = id
	run, err := o.log.Run(s)
	if err != nil {
		return failure.WithHint(err, "oacp pair list lists the runs")
	}
	removed, err := pair.Remove(c.Context, run, what)
	switch {
	case errors.Is(err, pair.ErrNeverBegun):
		return failure.WithHint(err, fmt.Sprintf("oacp pair remove --unfinished %d removes it", id))
	case errors.Is(err, pair.ErrUnfinished):
		return failure.WithHint(err, fmt.Sprintf("oacp pair --run-id %d continues it; --unfinished removes it", id))
	case errors.Is(err, pair.ErrKeepsChanges):
		return failure.WithHint(err, "--worktree also removes them; --dry-run --worktree shows them")
	case err != nil:
		return err
	case o.json:
		return command.WriteJSONLine(s.Out, map[string]any{"id": id, "dry_run": what.Check, "removed": removed})
	}
	verb := "removed"
	if what.Check {
		verb = "would remove"
	}
	fmt.Fprintf(s.Out, "%s run %d: %s\n", verb, id, visible.Line(removed.Folder))
	w := removed.Worktree
	if w != nil && !w.Gone {
		fmt.Fprintf(s.Out, "%s the worktree %s\n", verb, visible.Line(w.Path))
	}
	if w != nil && w.Tip != "" {
		fmt.Fprintf(s.Out, "%s the branch %s, which was at %s\n", verb, visible.Line(w.Branch), w.Tip)
	}
	return nil
}
