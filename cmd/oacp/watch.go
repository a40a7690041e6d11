package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

type watchOptions struct {
	dir         string
	home        string
	projects    cli.StringSlice
	allProjects bool
	agent       string
	since       string
	stateID     string
	archived    bool
	once        bool
	json        bool
}

func newWatchCommand(s *command.Streams) *cli.Command {
	var o watchOptions
	return &cli.Command{
		Name:      "watch",
		Category:  command.CategoryTurns,
		Usage:     "print a line for each message, as it arrives",
		ArgsUsage: "[PROJECT…] [--agent AGENT]",
		Description: `What was printed is written down, below state/watch of the workspace, so that a
message is printed once however often watch is started; --state-id keeps
another such record, for another reader. The first time, messages that were
there before --since count as printed. A file that is no message is an error,
told once.

Without --once, watch goes on until it is told to stop, which is no failure.
With --once it fails if anything could not be watched or read; what could be is
printed all the same.

--json prints an object a line, with the event new_message, message_archived,
error or warning. Errors and warnings are on standard error, too.

EXAMPLES:
   oacp watch --agent codex
   oacp watch --agent codex --once --since epoch --json
   oacp watch --agent codex --all-projects --state-id notifier`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "watch the inbox of `AGENT` (default: see oacp help)", Destination: &o.agent},
			&cli.BoolFlag{Name: "once", Usage: "print what is new, and end", Destination: &o.once},
			&cli.StringFlag{Name: "since", Usage: "the first time, begin at `TIME`: now, epoch, an age such as 5m, or YYYY-MM-DDTHH:MM:SSZ", Value: "now", Destination: &o.since},
			&cli.StringFlag{Name: "state-id", Usage: "keep what was printed under `NAME`", Destination: &o.stateID},
			&cli.BoolFlag{Name: "show-archived", Usage: "print what leaves the inbox, too", Destination: &o.archived},
			&cli.StringSliceFlag{Name: "project", Usage: "watch the project `PROJECT`; may be repeated", Destination: &o.projects},
			&cli.BoolFlag{Name: "all-projects", Usage: "watch every project that has the agent", Destination: &o.allProjects},
			&cli.StringFlag{Name: "dir", Usage: "the workspace is `DIR`", Destination: &o.dir},
			&cli.StringFlag{Name: "oacp-dir", Usage: "projects are below `DIR` (default $OACP_HOME, then ~/oacp)", Destination: &o.home},
			command.JSONFlag(&o.json),
		},
		Action: func(c *cli.Context) error {
			return runWatch(c.Context, o, append(o.projects.Value(), command.Positionals(c)...), s)
		},
	}
}

func runWatch(ctx context.Context, o watchOptions, projects []string, s *command.Streams) (err error) {
	switch {
	case o.allProjects && len(projects) > 0:
		return failure.Usagef("--all-projects and a project exclude each other")
	case o.dir != "" && (o.allProjects || len(projects) > 0):
		return failure.Usagef("--dir names one workspace, and a project another")
	}
	since, err := parseSince(o.since, s.Now())
	if err != nil {
		return failure.Usagef("--since: %w", err)
	}
	found, err := o.open(projects, s)
	defer func() { err = errors.Join(err, found.close()) }()
	if err != nil {
		return err
	}
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	watcher, err := watch.New(found.targets, &watch.Options{
		Cursor: true, StateID: o.stateID, Since: since, Archived: o.archived,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, watcher.Close()) }()
	for _, event := range found.failed {
		if err := o.printEvent(event, s); err != nil {
			return err
		}
	}
	return o.print(ctx, watcher, len(found.failed) > 0, s)
}

// print prints events until the watch ends. Each is out before the next one
// is asked for, which is what moves the record.
func (o watchOptions) print(ctx context.Context, watcher *watch.Watcher, failed bool, s *command.Streams) error {
	events := watcher.Events(ctx)
	if o.once {
		events = watcher.Scan(ctx)
	}
	for event, err := range events {
		if err != nil {
			return err
		}
		failed = failed || event.Kind == watch.EventError
		if err := o.printEvent(event, s); err != nil {
			return err
		}
	}
	if failed && o.once {
		return failure.ErrReported
	}
	return nil
}

func (o watchOptions) printEvent(e watch.Event, s *command.Streams) error {
	problem := e.Kind == watch.EventError || e.Kind == watch.EventWarning
	if problem {
		// Nobody is left to tell when this fails; the event is on its way.
		_, _ = fmt.Fprintf(s.Err, "oacp: watch: %s\n", visible.Line(problemText(e)))
	}
	switch {
	case o.json:
		if err := command.WriteJSONLine(s.Out, newWatchJSON(e)); err != nil {
			return err
		}
	case !problem:
		fmt.Fprintf(s.Out, "%s project=%s agent=%s file=%s type=%s priority=%s %s\n",
			strings.ToUpper(string(e.Kind)), visible.Line(e.Project), e.Agent, visible.Line(e.Name),
			visible.Line(string(e.Message.Type)), visible.Line(string(e.Message.Priority)), visible.Line(e.Message.Subject))
	}
	return s.Out.Flush()
}

func problemText(e watch.Event) string {
	text := e.Err.Error()
	if e.Path != "" {
		text = e.Path + ": " + text
	}
	if e.Kind == watch.EventWarning {
		text = "warning: " + text
	}
	return text
}

// watchJSON is the reference implementation's event, keys sorted, with more
// keys.
type watchJSON struct {
	Agent          schema.AgentName      `json:"agent"`
	ConversationID schema.ConversationID `json:"conversation_id,omitempty"`
	CreatedAt      schema.Timestamp      `json:"created_at_utc,omitempty"`
	Error          string                `json:"error,omitempty"`
	Event          watch.EventKind       `json:"event"`
	ExpiresAt      schema.Timestamp      `json:"expires_at,omitempty"`
	File           string                `json:"file,omitempty"`
	From           schema.AgentName      `json:"from,omitempty"`
	ID             schema.ID             `json:"id,omitempty"`
	Path           string                `json:"path,omitempty"`
	Priority       schema.Priority       `json:"priority,omitempty"`
	Project        *string               `json:"project"`
	Subject        string                `json:"subject,omitempty"`
	Type           schema.Type           `json:"type,omitempty"`
}

func newWatchJSON(e watch.Event) watchJSON {
	j := watchJSON{Agent: e.Agent, Event: e.Kind, File: e.Name, Path: e.Path}
	if e.Project != "" {
		j.Project = &e.Project
	}
	if e.Err != nil {
		j.Error = e.Err.Error()
	}
	if m := e.Message; m != nil {
		j.ID, j.From, j.Type, j.Priority, j.Subject = m.ID, m.From, m.Type, m.Priority, m.Subject
		j.ConversationID, j.CreatedAt, j.ExpiresAt = m.ConversationID, m.CreatedAt, m.ExpiresAt
	}
	return j
}

// watchFound is what there is to be watched.
type watchFound struct {
	targets []watch.Target
	// failed are the projects that cannot be watched.
	failed []watch.Event
}

func (f watchFound) close() error {
	var err error
	for _, t := range f.targets {
		err = errors.Join(err, t.Workspace.Close())
	}
	return err
}

// open opens the workspaces. Where one of several cannot be, the others are
// watched; where none can, that is the error. What was found is to be closed,
// also when there is an error.
func (o watchOptions) open(projects []string, s *command.Streams) (found watchFound, err error) {
	place := project.Place{Dir: o.dir, Home: o.home, WorkingDir: s.Dir, Getenv: s.Getenv}
	if o.allProjects {
		if projects, err = place.Projects(); err != nil {
			return found, err
		}
	}
	if len(projects) == 0 && !o.allProjects {
		projects = []string{""}
	}
	var failed []error
	for _, name := range projects {
		place.Project = name
		target, err := o.openTarget(place, s)
		switch {
		case errors.Is(err, project.ErrNoSender):
			return found, err
		case err != nil:
			failed = append(failed, err)
			entry := mailbox.Entry{Agent: schema.AgentName(o.agent), Err: err}
			found.failed = append(found.failed, watch.Event{Kind: watch.EventError, Project: name, Entry: entry})
		case o.allProjects && !target.Workspace.Knows(target.Agent):
			if err := target.Workspace.Close(); err != nil {
				return found, err
			}
		default:
			found.targets = append(found.targets, target)
		}
	}
	if len(found.targets) == 0 {
		if len(failed) == 0 {
			failed = append(failed, errors.New("no project has the agent"))
		}
		return found, errors.Join(failed...)
	}
	return found, nil
}

func (o watchOptions) openTarget(place project.Place, s *command.Streams) (watch.Target, error) {
	dir, err := place.Find()
	if err != nil {
		return watch.Target{}, err
	}
	w, err := mailbox.Open(dir, nil)
	if err != nil {
		return watch.Target{}, err
	}
	agent, err := command.AgentOf(w, o.agent, s)
	if err != nil {
		return watch.Target{}, errors.Join(err, w.Close())
	}
	return watch.Target{Workspace: w, Agent: agent}, nil
}
