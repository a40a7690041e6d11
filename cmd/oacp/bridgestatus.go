package main

import (
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

const bridgeStatusHelp = `Without --bridge and --run-id, the status of every run of the repository around
the current folder is shown, or with --all of every repository. A line of a log
that is no record is named on standard error, with its number.

EXAMPLES:
   oacp bridge
   oacp bridge --run-id 1
   oacp bridge status --bridge bridge.jsonl --json`

func (o *bridgeStatusOptions) flags() []cli.Flag {
	return append(o.log.Flags(),
		&cli.BoolFlag{Name: "all", Usage: "show the runs of every repository", Destination: &o.all},
		command.JSONFlag(&o.json))
}

func newBridgeStatusCommand(s *command.Streams) *cli.Command {
	var o bridgeStatusOptions
	return &cli.Command{
		Name:        "status",
		Usage:       "show what the logs hold, in numbers",
		Description: bridgeStatusHelp,
		Flags:       o.flags(),
		Action: func(c *cli.Context) error {
			if err := command.NoPositionals(c); err != nil {
				return err
			}
			return o.act(c, s)
		},
	}
}

func (o bridgeStatusOptions) act(c *cli.Context, s *command.Streams) error {
	if err := o.log.Check(c); err != nil {
		return err
	}
	if o.all && (o.log.File != "" || o.log.RunID != 0 || o.log.Repository != "") {
		return failure.Usagef("--all means every run of every repository, so no log can be named")
	}
	return runBridgeStatus(c.Context, o, s)
}

func runBridgeStatus(ctx context.Context, o bridgeStatusOptions, s *command.Streams) error {
	if o.log.File == "" && o.log.RunID == 0 {
		return o.showRuns(ctx, s)
	}
	return o.log.Reading(s, func(log *bridge.Log) error {
		answer, err := newStatusAnswer(ctx, log, s)
		switch {
		case err != nil:
			return err
		case o.json:
			return command.WriteJSON(s.Out, answer)
		}
		answer.print(s)
		return nil
	})
}

// showRuns shows the runs of the repository that is meant, or of all.
func (o bridgeStatusOptions) showRuns(ctx context.Context, s *command.Streams) error {
	root, repository, err := o.log.Runs(s)
	if err != nil {
		return err
	}
	runs, err := o.runs(root, repository)
	if err != nil {
		return err
	}
	answers := []statusAnswer{}
	var failed []error
	for _, run := range runs {
		// A run that cannot be read hides no other.
		err := command.UseLog(run.BridgePath(), bridge.Options{}, s, func(log *bridge.Log) error {
			answer, err := newStatusAnswer(ctx, log, s)
			if err != nil {
				return err
			}
			answer.RepositoryID = run.RepositoryID
			answer.Repository, err = run.Repository()
			answers = append(answers, answer)
			return err
		})
		failed = append(failed, err)
	}
	if o.json {
		failed = append(failed, command.WriteJSON(s.Out, map[string]any{"runs_dir": root, "runs": answers}))
		return errors.Join(failed...)
	}
	if len(runs) == 0 {
		fmt.Fprintf(s.Out, "%s: no runs in %s\n", visible.Line(o.subject(repository)), visible.Line(root))
	}
	o.print(answers, s)
	return errors.Join(failed...)
}

// runs lists the runs of one or all repositories.
func (o bridgeStatusOptions) runs(root, repository string) ([]bridge.Run, error) {
	repositoryID, err := bridge.RepositoryID(repository)
	if err != nil {
		return nil, err
	}
	repositories := []string{repositoryID}
	if o.all {
		if repositories, err = bridge.Repositories(root); err != nil {
			return nil, err
		}
	}
	var all []bridge.Run
	for _, id := range repositories {
		runs, err := bridge.Runs(root, id)
		if err != nil {
			return nil, err
		}
		all = append(all, runs...)
	}
	return all, nil
}

func (o bridgeStatusOptions) subject(repository string) string {
	if o.all {
		return "all repositories"
	}
	return repository
}

// print shows the runs one below the other, with --all below their
// repositories.
func (o bridgeStatusOptions) print(answers []statusAnswer, s *command.Streams) {
	for i, answer := range answers {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		if o.all && (i == 0 || answer.RepositoryID != answers[i-1].RepositoryID) {
			name := answer.Repository
			if name == "" {
				name = "unknown"
			}
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
	Skipped []skippedLine `json:"skipped"`
}

type skippedLine struct {
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

// newStatusAnswer counts what the log holds, and names the lines that do not
// count.
func newStatusAnswer(ctx context.Context, log *bridge.Log, s *command.Streams) (statusAnswer, error) {
	answer := statusAnswer{RunID: bridge.RunNumber(log.Path()), Bridge: log.Path(), Skipped: []skippedLine{}}
	var err error
	if answer.Status, err = log.Status(ctx); err != nil {
		return answer, err
	}
	answer.Skipped, err = warnOfSkipped(ctx, log, s)
	if answer.TornBytes > 0 {
		s.Warn(fmt.Sprintf("%s: the last line has no newline (%d bytes): it is being written, or a crash cut it off", log.Path(), answer.TornBytes))
	}
	return answer, err
}

// warnOfSkipped names the lines that are not records.
func warnOfSkipped(ctx context.Context, log *bridge.Log, s *command.Streams) ([]skippedLine, error) {
	lines, err := log.Skipped(ctx)
	skipped := []skippedLine{}
	for _, line := range lines {
		s.Warn("skipped " + line.Error())
		skipped = append(skipped, skippedLine{line.Line, line.Err.Error()})
	}
	return skipped, err
}

// print shows the status in AgentPair's layout.
func (a statusAnswer) print(s *command.Streams) {
	name := fmt.Sprintf("Run #%d", a.RunID)
	if a.RunID == 0 {
		name = a.Bridge
	}
	fmt.Fprintf(s.Out, "%s Bridge Status:\n", visible.Line(name))
	fmt.Fprintf(s.Out, "  Total Messages: %d\n", a.TotalMessages)
	fmt.Fprintf(s.Out, "  Done Signal: %t\n", a.HasDoneSignal)
	fmt.Fprintf(s.Out, "  Pass Count: %d\n", a.PassCount)
	fmt.Fprintf(s.Out, "  Fail Count: %d\n", a.FailCount)
	fmt.Fprintln(s.Out, "  By Agent:")
	for _, agent := range slices.Sorted(maps.Keys(a.ByAgent)) {
		fmt.Fprintf(s.Out, "    %s: %d\n", visible.Line(agent), a.ByAgent[agent])
	}
}
