package command

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/failure"
)

// RunsVariable names the folder of runs where --runs-dir does not.
const RunsVariable = "OACP_RUNS"

// A BridgeLog says which bridge log a command means.
type BridgeLog struct {
	File       string
	RunID      int
	Repository string
	RunsDir    string
	// Create is for commands that write into the log.
	Create bool
}

// Flags returns the flags that fill in the fields.
func (o *BridgeLog) Flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "bridge", Usage: "the log is `FILE`", Destination: &o.File},
		&cli.IntFlag{Name: "run-id", Usage: "the log is that of the run `NUMBER`", Destination: &o.RunID, DefaultText: "the latest"},
		&cli.StringFlag{Name: "repo", Usage: "runs are those of the repository `DIR` (default: the one around the current folder)", Destination: &o.Repository},
		&cli.StringFlag{Name: "runs-dir", Usage: "runs are below `DIR` (default $OACP_RUNS, then ~/.agentpair/runs)", Destination: &o.RunsDir},
	}
}

// WritingFlags are the flags of a command that writes into the log.
func (o *BridgeLog) WritingFlags() []cli.Flag {
	return append(o.Flags(), &cli.BoolFlag{Name: "create", Usage: "make the run --run-id if it does not exist", Destination: &o.Create})
}

// Check refuses what the flags cannot mean together.
func (o BridgeLog) Check(c *cli.Context) error {
	switch {
	case c.IsSet("run-id") && o.RunID < 1:
		return failure.Usagef("--run-id: runs are numbered from 1")
	case o.File != "" && (c.IsSet("run-id") || o.Repository != "" || o.Create):
		return failure.Usagef("--bridge names the log, so --run-id, --repo and --create cannot")
	case o.Create && !c.IsSet("run-id"):
		return failure.Usagef("--create goes with --run-id")
	}
	return nil
}

// Given reports whether the command line names a log.
func (o BridgeLog) Given() bool {
	return o.File != "" || o.RunID != 0 || o.Repository != "" || o.RunsDir != ""
}

// Runs returns the folder of all runs and the repository that is meant.
func (o BridgeLog) Runs(s *Streams) (root, repository string, err error) {
	if root = o.RunsDir; root == "" {
		root = s.Getenv(RunsVariable)
	}
	if root == "" {
		if root, err = bridge.DefaultRoot(); err != nil {
			return "", "", err
		}
	}
	if o.Repository != "" {
		return root, o.Repository, nil
	}
	repository, err = bridge.FindRepository(root, s.Dir)
	return root, repository, err
}

// Run returns the run that is meant; a command that writes makes the first
// one.
func (o BridgeLog) Run(writes bool, s *Streams) (bridge.Run, error) {
	root, repository, err := o.Runs(s)
	if err != nil {
		return bridge.Run{}, err
	}
	repositoryID, err := bridge.RepositoryID(repository)
	if err != nil {
		return bridge.Run{}, err
	}
	var run bridge.Run
	switch {
	case o.Create:
		run, err = bridge.MakeRun(root, repository, o.RunID, s.Now())
	case o.RunID != 0:
		run, err = bridge.FindRun(root, repositoryID, o.RunID)
	default:
		run, err = bridge.LatestRun(root, repositoryID)
		if errors.Is(err, bridge.ErrNoRun) && writes {
			run, err = bridge.MakeRun(root, repository, 1, s.Now())
		}
	}
	if errors.Is(err, bridge.ErrNoRun) {
		err = NoRun(repository, err)
		if writes {
			err = failure.WithHint(err, "oacp bridge lists the runs; --create makes this one, --bridge names another log")
		}
	}
	return run, err
}

// With opens the log to write into it.
func (o BridgeLog) With(s *Streams, options bridge.Options, use func(*bridge.Log) error) error {
	if o.File != "" {
		options.RunID = bridge.RunNumber(o.File)
		return UseLog(o.File, options, s, use)
	}
	run, err := o.Run(true, s)
	if err != nil {
		return err
	}
	options.RunID = run.ID
	return UseLog(run.BridgePath(), options, s, use)
}

// Reading opens the log to read it. A file that is named must be there; the
// log of a run begins with its first record.
func (o BridgeLog) Reading(s *Streams, use func(*bridge.Log) error) error {
	path := o.File
	if path != "" {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("bridge log: %w", err)
		}
	} else {
		run, err := o.Run(false, s)
		if err != nil {
			return err
		}
		path = run.BridgePath()
	}
	return UseLog(path, bridge.Options{}, s, use)
}

func UseLog(path string, options bridge.Options, s *Streams, use func(*bridge.Log) error) (err error) {
	options.Warn = func(err error) { s.Warn(err.Error()) }
	options.Now = s.Now
	log, err := bridge.Open(path, &options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return use(log)
}

// NoRun says which repository lacks a run.
func NoRun(repository string, err error) error { return fmt.Errorf("%s: %w", repository, err) }
