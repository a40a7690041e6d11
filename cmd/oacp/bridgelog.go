package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
)

// runsVariable names the folder of runs where --runs-dir does not.
const runsVariable = "OACP_RUNS"

// logOptions say which bridge log a command means.
type logOptions struct {
	file       string
	runID      int
	repository string
	runsDir    string
	// create is for commands that write into the log.
	create bool
}

func (o *logOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "bridge", Usage: "the log is `FILE`", Destination: &o.file},
		&cli.IntFlag{Name: "run-id", Usage: "the log is that of the run `NUMBER`", Destination: &o.runID, DefaultText: "the latest"},
		&cli.StringFlag{Name: "repo", Usage: "runs are those of the repository `DIR` (default: the one around the current folder)", Destination: &o.repository},
		&cli.StringFlag{Name: "runs-dir", Usage: "runs are below `DIR` (default $OACP_RUNS, then ~/.agentpair/runs)", Destination: &o.runsDir},
	}
}

// writingFlags are the flags of a command that writes into the log.
func (o *logOptions) writingFlags() []cli.Flag {
	return append(o.flags(), &cli.BoolFlag{Name: "create", Usage: "make the run --run-id if it does not exist", Destination: &o.create})
}

// check refuses what the flags cannot mean together.
func (o logOptions) check(c *cli.Context) error {
	switch {
	case c.IsSet("run-id") && o.runID < 1:
		return usageErrorf("--run-id: runs are numbered from 1")
	case o.file != "" && (c.IsSet("run-id") || o.repository != "" || o.create):
		return usageErrorf("--bridge names the log, so --run-id, --repo and --create cannot")
	case o.create && !c.IsSet("run-id"):
		return usageErrorf("--create goes with --run-id")
	}
	return nil
}

// given reports whether the command line names a log.
func (o logOptions) given() bool {
	return o.file != "" || o.runID != 0 || o.repository != "" || o.runsDir != ""
}

// runs returns the folder of all runs and the repository that is meant.
func (o logOptions) runs(s *streams) (root, repository string, err error) {
	if root = o.runsDir; root == "" {
		root = s.getenv(runsVariable)
	}
	if root == "" {
		if root, err = bridge.DefaultRoot(); err != nil {
			return "", "", err
		}
	}
	if o.repository != "" {
		return root, o.repository, nil
	}
	repository, err = bridge.FindRepository(root, s.dir)
	return root, repository, err
}

// run returns the run that is meant; a command that writes makes the first
// one.
func (o logOptions) run(writes bool, s *streams) (bridge.Run, error) {
	root, repository, err := o.runs(s)
	if err != nil {
		return bridge.Run{}, err
	}
	repositoryID, err := bridge.RepositoryID(repository)
	if err != nil {
		return bridge.Run{}, err
	}
	var run bridge.Run
	switch {
	case o.create:
		run, err = bridge.MakeRun(root, repository, o.runID, s.now())
	case o.runID != 0:
		run, err = bridge.FindRun(root, repositoryID, o.runID)
	default:
		run, err = bridge.LatestRun(root, repositoryID)
		if errors.Is(err, bridge.ErrNoRun) && writes {
			run, err = bridge.MakeRun(root, repository, 1, s.now())
		}
	}
	if errors.Is(err, bridge.ErrNoRun) {
		err = &noRunError{err: err, repository: repository, writes: writes}
	}
	return run, err
}

// with opens the log to write into it.
func (o logOptions) with(s *streams, options bridge.Options, use func(*bridge.Log) error) error {
	if o.file != "" {
		options.RunID = bridge.RunNumber(o.file)
		return useLog(o.file, options, s, use)
	}
	run, err := o.run(true, s)
	if err != nil {
		return err
	}
	options.RunID = run.ID
	return useLog(run.BridgePath(), options, s, use)
}

// reading opens the log to read it. A file that is named must be there; the
// log of a run begins with its first record.
func (o logOptions) reading(s *streams, use func(*bridge.Log) error) error {
	path := o.file
	if path != "" {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("bridge log: %w", err)
		}
	} else {
		run, err := o.run(false, s)
		if err != nil {
			return err
		}
		path = run.BridgePath()
	}
	return useLog(path, bridge.Options{}, s, use)
}

func useLog(path string, options bridge.Options, s *streams, use func(*bridge.Log) error) (err error) {
	options.Warn = func(err error) { warn(s, err.Error()) }
	options.Now = s.now
	log, err := bridge.Open(path, &options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return use(log)
}

// A noRunError says that a repository lacks a run.
type noRunError struct {
	err        error
	repository string
	writes     bool
}

func (e *noRunError) Error() string { return e.repository + ": " + e.err.Error() }
func (e *noRunError) Unwrap() error { return e.err }

func (e *noRunError) hint() string {
	if e.writes {
		return "oacp bridge lists the runs; --create makes this one, --bridge names a log elsewhere"
	}
	return "oacp bridge lists the runs; --repo names another repository, --bridge a log elsewhere"
}
