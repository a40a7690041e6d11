package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
)

type bridgeStatusOptions struct {
	log  command.BridgeLog
	all  bool
	json bool
}

func newBridgeStatusCommand(s *command.Streams) *cli.Command {
	var o bridgeStatusOptions
	return &cli.Command{
		Name:  "status",
		Usage: "count the records in the logs",
		Description: `Without --bridge and --run-id, status shows every run of the repository around the
current folder, or with --all the runs of every repository. It reports lines that are
not records on standard error, with their numbers.

EXAMPLES:
   oacp bridge --run-id 1
   oacp bridge status --bridge bridge.jsonl --json`,
		Flags: append(o.log.Flags(),
			&cli.BoolFlag{Name: "all", Usage: "show the runs of every repository", Destination: &o.all},
			command.JSONFlag(&o.json)),
		Action: func(c *cli.Context) error {
			if err := errors.Join(command.NoPositionals(c), o.log.Check(c)); err != nil {
				return err
			}
			switch {
			case o.all && (o.log.File != "" || o.log.RunID != 0 || o.log.Repository != ""):
				return failure.Usagef("--all means every run of every repository, so no log can be named")
			case o.log.File != "" || o.log.RunID != 0:
				return o.log.Reading(s, func(log *bridge.Log) error { return o.showLog(c.Context, log, s) })
			}
			return o.showRuns(c.Context, s)
		},
	}
}

// showLog shows the one log that is named.
func (o bridgeStatusOptions) showLog(ctx context.Context, log *bridge.Log, s *command.Streams) error {
	answer, err := newStatusAnswer(ctx, log, s)
	if err != nil {
		return err
	}
	return s.Answer(o.json, answer, func() { answer.print(s) })
}

// showRuns shows the runs of the repository that is meant, or of all.
func (o bridgeStatusOptions) showRuns(ctx context.Context, s *command.Streams) error {
	root, repository, ids, err := o.log.RepositoryIDs(s, o.all)
	if err != nil {
		return err
	}
	runs, err := bridge.Runs(root, ids...)
	if err != nil {
		return err
	}
	answers := []statusAnswer{}
	var failed []error
	for _, run := range runs {
		// A run that cannot be read hides no other.
		failed = append(failed, command.UseLog(run.BridgePath(), bridge.Options{}, s, func(log *bridge.Log) error {
			answer, err := newStatusAnswer(ctx, log, s)
			if err != nil {
				return err
			}
			answer.RepositoryID = run.RepositoryID
			answer.Repository, err = run.Repository()
			answers = append(answers, answer)
			return err
		}))
	}
	if len(runs) == 0 && !o.json {
		fmt.Fprintf(s.Out, "%s: no runs in %s\n", visible.Line(repository), visible.Line(root))
	}
	err = s.Answer(o.json, map[string]any{"runs_dir": root, "runs": answers}, func() { o.print(answers, s) })
	return errors.Join(append(failed, err)...)
}

// print shows the runs one below the other, with --all below their repositories.
func (o bridgeStatusOptions) print(answers []statusAnswer, s *command.Streams) {
	for i, answer := range answers {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		if o.all && (i == 0 || answer.RepositoryID != answers[i-1].RepositoryID) {
			name := cmp.Or(answer.Repository, "unknown")
			fmt.Fprintf(s.Out, "Repository %s (%s)\n\n", visible.Line(name), answer.RepositoryID)
		}
		answer.print(s)
	}
}

// statusAnswer is the status of a log, as JSON.
type statusAnswer struct {
	RunID        int    `json:"run_id,omitempty"`
	RepositoryID string `json:"repository_id,omitempty"`
	Repository   string `json:"repository,omitempty"`
	Bridge       string `json:"bridge_path"`
	bridge.Status
	Skipped []map[string]any `json:"skipped"`
}

// newStatusAnswer counts what the log holds, and warns of the lines that do not count.
func newStatusAnswer(ctx context.Context, log *bridge.Log, s *command.Streams) (statusAnswer, error) {
	answer := statusAnswer{RunID: bridge.RunNumber(log.Path()), Bridge: log.Path(), Skipped: []map[string]any{}}
	var err error
	if answer.Status, err = log.Status(ctx); err != nil {
		return answer, err
	}
	lines, err := log.Skipped(ctx)
	for _, line := range lines {
		s.Warn("skipped " + line.Error())
		answer.Skipped = append(answer.Skipped, map[string]any{"line": line.Line, "reason": line.Err.Error()})
	}
	if answer.TornBytes > 0 {
		s.Warn(fmt.Sprintf("%s: the last line has no newline (%d bytes): it is being written, or a crash cut it off", log.Path(), answer.TornBytes))
	}
	return answer, err
}

// print shows the status in AgentPair's layout.
func (a statusAnswer) print(s *command.Streams) {
	name := a.Bridge
	if a.RunID != 0 {
		name = fmt.Sprintf("Run #%d", a.RunID)
	}
	fmt.Fprintf(s.Out, "%s Bridge Status:\n  Total Messages: %d\n  Done Signal: %t\n  Pass Count: %d\n  Fail Count: %d\n  By Agent:\n",
		visible.Line(name), a.TotalMessages, a.HasDoneSignal, a.PassCount, a.FailCount)
	for _, agent := range slices.Sorted(maps.Keys(a.ByAgent)) {
		fmt.Fprintf(s.Out, "    %s: %d\n", visible.Line(agent), a.ByAgent[agent])
	}
}
