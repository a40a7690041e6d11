package command

import (
	"cmp"
	"errors"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/failure"
)

// RunsVariable names the folder of runs if --runs-dir does not.
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
		&cli.StringFlag{Name: "bridge", Usage: "use the log `FILE`", Destination: &o.File},
		&cli.IntFlag{Name: "run-id", Usage: "use the log of the run `NUMBER`", Destination: &o.RunID, DefaultText: "the latest"},
		&cli.StringFlag{Name: "repo", Category: Rare, Usage: "use the runs of the repository `DIR` (default: the one around the current folder)", Destination: &o.Repository},
		&cli.StringFlag{Name: "runs-dir", Category: Rare, Usage: "runs are below `DIR` (default $OACP_RUNS, then ~/.agentpair/runs)", Destination: &o.RunsDir},
	}
}

// WritingFlags are the flags of a command that writes into the log.
func (o *BridgeLog) WritingFlags() []cli.Flag {
	return append(o.Flags(), &cli.BoolFlag{Name: "create", Usage: "create the run --run-id if it does not exist", Destination: &o.Create})
}

// Check refuses what the flags cannot mean together.
func (o BridgeLog) Check(c *cli.Context) error {
	switch {
	case c.IsSet("run-id") && o.RunID < 1:
		return failure.Usagef("--run-id: runs are numbered from 1")
	case o.File != "" && (c.IsSet("run-id") || o.Repository != "" || o.Create):
		return failure.Usagef("--bridge names the log, so --run-id, --repo and --create cannot")
	case o.Create && !c.IsSet("run-id"):
		return failure.Usagef("--create requires --run-id")
	}
	return nil
}

// Given reports whether the command line names a log.
func (o BridgeLog) Given() bool {
	return o.File != "" || o.RunID != 0 || o.Repository != "" || o.RunsDir != ""
}

// selector returns what the flags and the environment say.
func (o BridgeLog) selector(s *Streams) bridge.Selector {
	return bridge.Selector{
		File: o.File, Root: cmp.Or(o.RunsDir, s.Getenv(RunsVariable)),
		Repository: o.Repository, Dir: s.Dir, RunID: o.RunID, MayMake: o.Create,
	}
}

// Runs returns the folder of all runs and the repository that is meant.
func (o BridgeLog) Runs(s *Streams) (root, repository string, err error) {
	return o.selector(s).Folders()
}

// RepositoryIDs returns the folder of all runs, what to call the repository that is meant, and its id. With all, it means every
// repository.
func (o BridgeLog) RepositoryIDs(s *Streams, all bool) (root, name string, ids []string, err error) {
	root, name, err = o.Runs(s)
	if err != nil {
		return "", "", nil, err
	}
	if all {
		ids, err = bridge.Repositories(root)
		return root, "all repositories", ids, err
	}
	id, err := bridge.RepositoryID(name)
	return root, name, []string{id}, err
}

// Select returns the log that is meant. Its run may be missing.
func (o BridgeLog) Select(s *Streams) (bridge.Location, error) { return o.selector(s).Select() }

// existing returns the log that is meant, and an error if its run is missing.
func (o BridgeLog) existing(s *Streams) (bridge.Location, error) {
	log, err := o.Select(s)
	if err == nil {
		err = log.Err()
	}
	return log, err
}

// Run returns the run that is meant.
func (o BridgeLog) Run(s *Streams) (bridge.Run, error) {
	log, err := o.existing(s)
	return log.Run, err
}

// With opens the log to write into it. If the repository has no run, With makes the first one.
func (o BridgeLog) With(s *Streams, options bridge.Options, use func(*bridge.Log) error) error {
	log, err := o.Select(s)
	if err == nil {
		err = log.Make(s.Now())
	}
	if errors.Is(err, bridge.ErrNoRun) {
		return failure.WithHint(err, "oacp bridge lists the runs; --create makes this one, --bridge names another log")
	}
	if err != nil {
		return err
	}
	options.RunID = log.Run.ID
	return UseLog(log.Path, options, s, use)
}

// Reading opens the log to read it. A file that is named must exist; the log of a run begins with
// its first record.
func (o BridgeLog) Reading(s *Streams, use func(*bridge.Log) error) error {
	log, err := o.existing(s)
	if err == nil && o.File != "" {
		_, err = os.Stat(o.File)
	}
	if err != nil {
		return err
	}
	return UseLog(log.Path, bridge.Options{}, s, use)
}

// UseLog opens a log, and closes it after use.
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
