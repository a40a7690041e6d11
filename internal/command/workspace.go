package command

import (
	"cmp"
	"errors"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// A Workspace says which workspace a command uses.
type Workspace struct {
	Dir     string
	Home    string
	Project string
}

// Flags returns the flags that fill in the fields.
func (o *Workspace) Flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "dir", Category: OfWorkspace, Usage: "use the workspace `DIR`", Destination: &o.Dir},
		&cli.StringFlag{Name: "project", Category: OfWorkspace, Usage: "use the workspace of the project `PROJECT`", Destination: &o.Project},
		&cli.StringFlag{Name: "oacp-dir", Category: OfWorkspace, Usage: "projects are below `DIR` (default $OACP_HOME, then ~/oacp)", Destination: &o.Home},
	}
}

// TakeProject accepts the name of a project as the only argument.
func (o *Workspace) TakeProject(args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case len(args) > 1 || args[0] == "":
		return failure.Usagef("unexpected argument %s", visible.Quote(args[min(1, len(args)-1)]))
	case o.Project != "" && o.Project != args[0]:
		return failure.Usagef("two projects are named, %s and %s", visible.Quote(o.Project), visible.Quote(args[0]))
	}
	o.Project = args[0]
	return nil
}

// Place returns where to look for the workspace.
func (o Workspace) Place(s *Streams) project.Place {
	return project.Place{Dir: o.Dir, Project: o.Project, Home: o.Home, WorkingDir: s.Dir, Getenv: s.Getenv}
}

// With opens the workspace, calls use and closes it.
func (o Workspace) With(s *Streams, options *mailbox.Options, use func(*mailbox.Workspace) error) (err error) {
	w, err := client.OpenWorkspace(o.Place(s), options, s.IsPerson())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return use(w)
}

// InAgent reports whether a session or a turn of an agent runs this process. A terminal within one is no person.
func (s *Streams) InAgent() bool {
	runtime := project.CurrentRuntime(s.Getenv)
	return runtime != "" && runtime != project.Human || s.inTurn()
}

func (s *Streams) inTurn() bool { return s.Getenv(orphans.Variable) != "" }

// IsPerson reports whether a person acts: at a terminal outside sessions and turns of agents, or with --as-person.
func (s *Streams) IsPerson() bool { return s.AsPerson || s.InTerminal && !s.InAgent() }

// Caller is the process that the streams belong to, for a client.
func (s *Streams) Caller() client.Caller {
	return client.Caller{Getenv: s.Getenv, Dir: s.Dir, IsPerson: s.IsPerson()}
}

// Preview returns what a list shows of a message file that is not valid. A field that could not be read is a question
// mark, as in the reference implementation; an unknown time is that of the file.
func Preview(e *mailbox.Entry) *schema.Message {
	m := schema.Message{Subject: "(unreadable)"}
	_, isInvalid := errors.AsType[*validate.InvalidError](e.Err)
	switch {
	case e.Message != nil:
		m = *e.Message
	case e.IsHeld():
		m.Subject = "(held: unverified under enforce)"
	case isInvalid:
		m.Subject = "(invalid YAML)"
	}
	m.Subject = cmp.Or(m.Subject, "(no subject)")
	m.From = cmp.Or(m.From, "?")
	m.Type = cmp.Or(m.Type, "?")
	m.Priority = cmp.Or(m.Priority, "?")
	if m.CreatedAt.Time().IsZero() {
		m.CreatedAt = schema.NewTimestamp(e.Modified)
	}
	return &m
}

// RunsVariable names the folder of runs if --runs-dir does not.
const RunsVariable = "OACP_RUNS"

// A BridgeLog says which bridge log a command uses.
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
	return append([]cli.Flag{
		&cli.StringFlag{Name: "bridge", Usage: "use the log `FILE`", Destination: &o.File},
		&cli.GenericFlag{Name: "run-id", Usage: "use the log of the run `NUMBER`", Value: Parsed(&o.RunID, ParseRunID), DefaultText: "the latest"},
	}, o.RunsFlags()...)
}

// RunsFlags returns the flags that say where runs are.
func (o *BridgeLog) RunsFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "repo", Category: Rare, Usage: "use the runs of the repository `DIR` (default: the one around the current folder)", Destination: &o.Repository},
		&cli.StringFlag{Name: "runs-dir", Category: Rare, Usage: "runs are below `DIR` (default $OACP_RUNS, then ~/.agentpair/runs)", Destination: &o.RunsDir},
	}
}

// WritingFlags are the flags of a command that writes into the log.
func (o *BridgeLog) WritingFlags() []cli.Flag {
	return append(o.Flags(), &cli.BoolFlag{Name: "create", Usage: "create the run --run-id if it does not exist", Destination: &o.Create})
}

// Check rejects flags that contradict each other.
func (o BridgeLog) Check() error {
	switch {
	case o.File != "" && (o.RunID != 0 || o.Repository != "" || o.Create):
		return failure.Usagef("--bridge names the log, so --run-id, --repo and --create cannot")
	case o.Create && o.RunID == 0:
		return failure.Usagef("--create requires --run-id")
	}
	return nil
}

// ParseRunID returns the number of a run.
func ParseRunID(text string) (int, error) {
	n, err := ParseNumber(text)
	if err == nil && n < 1 {
		err = errors.New("runs are numbered from 1")
	}
	return n, err
}

// Given reports whether the command line names a log.
func (o BridgeLog) Given() bool {
	return o.File != "" || o.RunID != 0 || o.Repository != "" || o.RunsDir != ""
}

// selector returns the selector that the flags and the environment describe.
func (o BridgeLog) selector(s *Streams) bridge.Selector {
	return bridge.Selector{
		File: o.File, Root: cmp.Or(o.RunsDir, s.Getenv(RunsVariable)),
		Repository: o.Repository, Dir: s.Dir, RunID: o.RunID, MayMake: o.Create,
	}
}

// RepositoryIDs returns the folder of all runs, what to call the selected repository, and its id. With all, the ids are
// those of all repositories.
func (o BridgeLog) RepositoryIDs(s *Streams, all bool) (root, name string, ids []string, err error) {
	root, name, err = o.selector(s).Folders()
	if err == nil && all {
		ids, err = bridge.Repositories(root)
		return root, "all repositories", ids, err
	}
	id, idErr := bridge.RepositoryID(name)
	return root, name, []string{id}, cmp.Or(err, idErr)
}

// Select returns the selected log. Its run may be missing.
func (o BridgeLog) Select(s *Streams) (bridge.Location, error) { return o.selector(s).Select() }

// Run returns the selected run.
func (o BridgeLog) Run(s *Streams) (bridge.Run, error) {
	log, err := o.Select(s)
	if err == nil {
		err = log.Err()
	}
	return log.Run, err
}

// With opens the log for writing. If the repository has no run, With makes the first one.
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

// Reading opens the log for reading. A named file must exist; the log of a run may not exist yet.
func (o BridgeLog) Reading(s *Streams, use func(*bridge.Log) error) error {
	log, err := o.Select(s)
	if err == nil {
		err = log.Err()
	}
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
