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
	dir, home, agent, since, stateID  string
	projects                          cli.StringSlice
	allProjects, archived, once, json bool
}

func newWatchCommand(s *command.Streams) *cli.Command {
	var o watchOptions
	return &cli.Command{
		Name:      "watch",
		Category:  command.CategoryTurns,
		Usage:     "print a line for each message, as it arrives",
		ArgsUsage: "[PROJECT…] [--agent AGENT]",
		Description: `watch remembers what it printed, in state/watch of the workspace, so each message
is printed once, however often watch is started. A second reader needs a record
of its own: --state-id. The first time, messages from before --since count as
printed. A file that is not a message is an error, printed once.

Without --once, watch runs until it is stopped, which is not an error. With
--once it fails if anything could not be watched or read, and prints the rest.

--json prints an object per line, with the event new_message, message_archived,
error or warning. Errors and warnings also go to standard error.

EXAMPLES:
   oacp watch --agent codex
   oacp watch --agent codex --once --since epoch --json
   oacp watch --agent codex --all-projects --state-id notifier`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "watch the inbox of `AGENT` (default: see oacp help)", Destination: &o.agent},
			&cli.BoolFlag{Name: "once", Usage: "print what is new, then exit", Destination: &o.once},
			&cli.StringFlag{Name: "since", Usage: "on the first run, start at `TIME`: now, epoch, an age such as 5m, or YYYY-MM-DDTHH:MM:SSZ", Value: "now", Destination: &o.since},
			&cli.StringFlag{Name: "state-id", Usage: "use the record `NAME`, for a second reader", Destination: &o.stateID},
			&cli.BoolFlag{Name: "show-archived", Usage: "also print what leaves the inbox", Destination: &o.archived},
			&cli.StringSliceFlag{Name: "project", Usage: "watch the project `PROJECT`; may be repeated", Destination: &o.projects},
			&cli.BoolFlag{Name: "all-projects", Usage: "watch every project that has the agent", Destination: &o.allProjects},
			&cli.StringFlag{Name: "dir", Usage: "use the workspace `DIR`", Destination: &o.dir},
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
		return failure.Usagef("--dir and a project exclude each other")
	}
	since, err := parseSince(o.since, s.Now())
	if err != nil {
		return failure.Usagef("--since: %w", err)
	}
	targets, failed, err := o.open(projects, s)
	defer func() {
		for _, target := range targets {
			err = errors.Join(err, target.Workspace.Close())
		}
	}()
	if err != nil {
		return err
	}
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	watcher, err := watch.New(targets, &watch.Options{Cursor: true, StateID: o.stateID, Since: since, Archived: o.archived})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, watcher.Close()) }()
	for _, event := range failed {
		if err := o.printEvent(event, s); err != nil {
			return err
		}
	}
	events := watcher.Events(ctx)
	if o.once {
		events = watcher.Scan(ctx)
	}
	ok := len(failed) == 0
	for event, err := range events {
		if err != nil {
			return err
		}
		// The event counts as printed when the loop asks for the next one.
		if err := o.printEvent(event, s); err != nil {
			return err
		}
		ok = ok && event.Kind != watch.EventError
	}
	if o.once && !ok {
		return failure.ErrReported
	}
	return nil
}

// open opens the workspaces to watch. If one of several cannot be opened, an event says so; if none
// can be, open returns the error. The caller closes the workspaces, even after an error.
func (o watchOptions) open(projects []string, s *command.Streams) (targets []watch.Target, failed []watch.Event, err error) {
	place := command.Workspace{Dir: o.dir, Home: o.home}.Place(s)
	if o.allProjects {
		if projects, err = place.Projects(); err != nil {
			return nil, nil, err
		}
	} else if len(projects) == 0 {
		projects = []string{""}
	}
	for _, place.Project = range projects {
		target, openErr := o.openTarget(place, s)
		switch {
		case errors.Is(openErr, project.ErrNoSender):
			return targets, nil, openErr
		case openErr != nil:
			entry := mailbox.Entry{Agent: schema.AgentName(o.agent), Err: openErr}
			failed = append(failed, watch.Event{Kind: watch.EventError, Project: place.Project, Entry: entry})
			err = errors.Join(err, openErr)
		case o.allProjects && !target.Workspace.Knows(target.Agent):
			if err := target.Workspace.Close(); err != nil {
				return targets, nil, err
			}
		default:
			targets = append(targets, target)
		}
	}
	switch {
	case len(targets) > 0:
		err = nil
	case err == nil:
		err = errors.New("no project has the agent")
	}
	return targets, failed, err
}

func (o watchOptions) openTarget(place project.Place, s *command.Streams) (target watch.Target, err error) {
	if target.Workspace, err = command.Open(place, nil); err != nil {
		return target, err
	}
	if target.Agent, err = command.AgentOf(target.Workspace, o.agent, s); err != nil {
		err = errors.Join(err, target.Workspace.Close())
	}
	return target, err
}

func (o watchOptions) printEvent(e watch.Event, s *command.Streams) error {
	if e.Err != nil {
		text := e.Err.Error()
		if e.Path != "" {
			text = e.Path + ": " + text
		}
		if e.Kind == watch.EventWarning {
			text = "warning: " + text
		}
		// If this fails there is no one left to tell; the event itself goes to standard output.
		_, _ = fmt.Fprintf(s.Err, "oacp: watch: %s\n", visible.Line(text))
	}
	switch {
	case o.json:
		if err := command.WriteJSONLine(s.Out, newWatchJSON(e)); err != nil {
			return err
		}
	case e.Message != nil:
		fmt.Fprintf(s.Out, "%s project=%s agent=%s file=%s type=%s priority=%s %s\n",
			strings.ToUpper(string(e.Kind)), visible.Line(e.Project), e.Agent, visible.Line(e.Name),
			visible.Line(string(e.Message.Type)), visible.Line(string(e.Message.Priority)), visible.Line(e.Message.Subject))
	}
	return s.Out.Flush()
}

// watchJSON is the reference implementation's event, with its keys sorted and more keys.
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
	m := e.Message
	if m == nil {
		m = &schema.Message{}
	}
	j := watchJSON{
		Agent: e.Agent, Event: e.Kind, File: e.Name, Path: e.Path, ID: m.ID, From: m.From, Type: m.Type,
		Priority: m.Priority, Subject: m.Subject, ConversationID: m.ConversationID, CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt,
	}
	if e.Project != "" {
		j.Project = &e.Project
	}
	if e.Err != nil {
		j.Error = e.Err.Error()
	}
	return j
}
