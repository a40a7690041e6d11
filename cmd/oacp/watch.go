package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

type watchOptions struct {
	dir, home, agent, since, stateID    string
	projects                            cli.StringSlice
	allProjects, archived, follow, json bool
	// once has no effect: without follow, watch ends by itself.
	once bool
	sync command.Sync
}

func newWatchCommand(s *command.Streams) *cli.Command {
	var o watchOptions
	return &cli.Command{
		Name:      "watch",
		Category:  command.CategoryFiles,
		Usage:     "report new messages",
		ArgsUsage: "[PROJECT…] [--agent AGENT]",
		Description: `watch prints the messages that arrived since its last run and exits. The first run
prints all pending messages. With --follow, watch prints each message as it arrives,
until it is stopped. A line has the short id and the sender, and ends with the subject.

watch records what it printed in state/watch of the workspace, so it prints each
message once. A second reader of the same inbox needs its own record: --state-id. A
file that is not a message is an error, reported once.

The exit status is 1 if anything could not be watched or read; watch prints everything
else. Stopping --follow is not an error.

--json prints one object per line, with the event new_message, message_archived,
error or warning. Errors and warnings also go to standard error.

EXAMPLES:
   oacp watch --agent codex --follow
   oacp watch --agent codex --json
   oacp watch --agent codex --all-projects --state-id notifier`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "watch the inbox of `AGENT` (default: $OACP_AGENT)", Destination: &o.agent},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep running and print messages as they arrive", Destination: &o.follow},
			o.sync.Flag(""),
			&cli.BoolFlag{Name: "once", Usage: "accepted for compatibility", Destination: &o.once, Hidden: true},
			&cli.StringFlag{Name: "since", Category: command.Rare, Usage: "on the first run, skip messages before `TIME`: now, epoch, an age such as 5m, or YYYY-MM-DDTHH:MM:SSZ", Value: "epoch", Destination: &o.since},
			&cli.StringFlag{Name: "state-id", Category: command.Rare, Usage: "use the record `NAME`, for a second reader of the inbox", Destination: &o.stateID},
			&cli.BoolFlag{Name: "show-archived", Category: command.Rare, Usage: "also report messages that leave the inbox", Destination: &o.archived},
			&cli.StringSliceFlag{Name: "project", Usage: "watch the project `PROJECT`; may be repeated", Destination: &o.projects},
			&cli.BoolFlag{Name: "all-projects", Usage: "watch every project that has the agent", Destination: &o.allProjects},
			&cli.StringFlag{Name: "dir", Category: command.OfWorkspace, Usage: "use the workspace `DIR`", Destination: &o.dir},
			&cli.StringFlag{Name: "oacp-dir", Category: command.OfWorkspace, Usage: "projects are below `DIR` (default $OACP_HOME, then ~/oacp)", Destination: &o.home},
			command.JSONFlag(&o.json),
		},
		Action: func(c *cli.Context) error {
			if c.IsSet("state-id") && !schema.IsNamePart(o.stateID) {
				return failure.Usagef("--state-id: %s: want 1 to 64 letters, digits, dots, underscores or hyphens", visible.Quote(o.stateID))
			}
			return runWatch(c.Context, o, append(o.projects.Value(), command.Positionals(c)...), s)
		},
	}
}

func runWatch(ctx context.Context, o watchOptions, projects []string, s *command.Streams) (err error) {
	switch {
	case o.allProjects && len(projects) > 0:
		return failure.Usagef("--all-projects and a project are mutually exclusive")
	case o.dir != "" && (o.allProjects || len(projects) > 0):
		return failure.Usagef("--dir and a project are mutually exclusive")
	case slices.Contains(projects, ""):
		return failure.Usagef("the project name is empty")
	case o.follow && o.once:
		return failure.Usagef("--follow and --once are mutually exclusive")
	}
	if err := o.sync.Check(); err != nil {
		return err
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
	for _, event := range failed {
		if err := o.printEvent(event, s); err != nil {
			return err
		}
	}
	if len(targets) == 0 {
		return failure.ErrReported
	}
	ok, err := o.watch(ctx, targets, since, s)
	if err != nil {
		return err
	}
	if s.OutTerminal && !o.follow && !o.json {
		_, _ = fmt.Fprintln(s.Err, "hint: with --follow, watch goes on") // nothing is lost without it
	}
	if !o.follow && (!ok || len(failed) > 0) {
		return failure.ErrReported
	}
	return nil
}

// watch prints the events of the targets. It reports whether there was no error among them.
func (o watchOptions) watch(ctx context.Context, targets []watch.Target, since time.Time, s *command.Streams) (ok bool, err error) {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	workspaces := make([]*mailbox.Workspace, len(targets))
	for i, target := range targets {
		workspaces[i] = target.Workspace
	}
	synchronizer, err := o.sync.Open(ctx, s, workspaces...)
	if err != nil {
		return false, err
	}
	var begun *command.Beginning
	if o.follow {
		defer synchronizer.Start(ctx, false)()
	} else {
		begun = synchronizer.Begin(ctx, 0)
		defer begun.Stop()
	}
	watcher, err := watch.New(targets, &watch.Options{Cursor: true, StateID: o.stateID, Since: since, Archived: o.archived})
	if err != nil { // no target can be watched
		return false, cmp.Or(o.printEvent(newFailure(targets, err), s), failure.ErrReported)
	}
	defer func() { err = errors.Join(err, watcher.Close()) }()
	if o.follow {
		return o.printEvents(watcher.Events(ctx), s)
	}
	ok, err = o.printEvents(watcher.Scan(ctx), s)
	if err == nil && begun.Await(ctx) {
		late, err := o.printEvents(watcher.Scan(ctx), s)
		return ok && late, err
	}
	return ok, cmp.Or(err, context.Cause(ctx))
}

// printEvents reports whether there was no error among the events.
func (o watchOptions) printEvents(events iter.Seq2[watch.Event, error], s *command.Streams) (ok bool, err error) {
	ok = true
	for event, err := range events {
		if err != nil {
			return false, err
		}
		// The event counts as printed when the loop asks for the next one.
		if err := o.printEvent(event, s); err != nil {
			return false, err
		}
		ok = ok && (event.Kind != watch.EventError || isMail(event))
	}
	return ok, nil
}

// newFailure returns the event of an error that concerns all targets.
func newFailure(targets []watch.Target, err error) watch.Event {
	event := watch.Event{Kind: watch.EventError, Entry: mailbox.Entry{Agent: targets[0].Agent, Err: err}}
	if first := targets[0].Workspace; len(targets) == 1 {
		event.Project, event.Path = project.Name(first), first.BoxPath(event.Agent, mailbox.Inbox)
	}
	return event
}

// open opens the workspaces to watch. An event says what cannot be watched. The caller closes the
// workspaces, even after an error.
func (o watchOptions) open(projects []string, s *command.Streams) (targets []watch.Target, failed []watch.Event, err error) {
	place := command.Workspace{Dir: o.dir, Home: o.home}.Place(s)
	if o.allProjects {
		if projects, err = place.Projects(); err != nil {
			return nil, nil, err
		}
	} else if len(projects) == 0 {
		projects = []string{""}
	}
	fail := func(path string, err error) {
		entry := mailbox.Entry{Agent: schema.AgentName(o.agent), Path: path, Err: err}
		failed = append(failed, watch.Event{Kind: watch.EventError, Project: place.Project, Entry: entry})
	}
	for _, place.Project = range projects {
		w, err := command.Open(place, nil)
		if err != nil {
			path, _ := place.ProjectDir() // it is empty if the name is no project's
			fail(path, err)
			continue
		}
		agent, err := command.AgentOf(w, o.agent, s)
		if err == nil && w.Knows(agent) {
			targets = append(targets, watch.Target{Workspace: w, Agent: agent})
			continue
		}
		switch {
		case errors.Is(err, project.ErrNoSender):
			return targets, nil, errors.Join(err, w.Close())
		case err != nil:
			fail("", err)
		case !o.allProjects:
			fail(filepath.Dir(w.BoxPath(agent, mailbox.Inbox)), w.CheckAgent(agent))
		}
		if err := w.Close(); err != nil {
			return targets, nil, err
		}
	}
	if len(targets)+len(failed) == 0 {
		place.Project = ""
		fail("", errors.New("no project has the agent"))
	}
	return targets, failed, nil
}

func (o watchOptions) printEvent(e watch.Event, s *command.Streams) error {
	if e.Err != nil && !(o.json && isMail(e)) { // the event itself says what is wrong with the message
		text := failure.OneLine(e.Err.Error())
		if e.Path != "" {
			text = e.Path + ": " + text
		}
		kind := e.Kind
		if isMail(e) {
			kind = watch.EventWarning
		}
		text = strings.ToUpper(string(kind)) + ": " + visible.Line(text) + "\n"
		if hint := failure.Of(e.Err).Hint; hint != "" {
			text += "hint: " + visible.Line(hint) + "\n"
		}
		// If this fails there is no one left to tell; the event itself goes to standard output.
		_, _ = fmt.Fprint(s.Err, text)
	}
	if isMail(e) {
		e.Kind, e.Message = watch.EventArrived, command.Preview(&e.Entry)
	}
	switch {
	case o.json:
		if err := command.WriteJSONLine(s.Out, newWatchJSON(e)); err != nil {
			return err
		}
	case e.Message != nil:
		m := e.Message
		fmt.Fprintf(s.Out, "%s project=%s agent=%s file=%s type=%s priority=%s id=%s from=%s %s\n",
			strings.ToUpper(string(e.Kind)), visible.Line(e.Project), e.Agent, visible.Line(e.Name), visible.Line(string(m.Type)),
			visible.Line(string(m.Priority)), visible.Line(cmp.Or(m.ID.Short(), "?")), visible.Line(string(m.From)), visible.Line(m.Subject))
	}
	return s.Out.Flush()
}

// isMail reports whether an error is about a message that is not valid. It is printed as far as it
// can be read, as other messages are.
func isMail(e watch.Event) bool {
	return e.Kind == watch.EventError && (e.Message != nil || e.IsHeld())
}

// watchJSON is the reference implementation's event, with its keys sorted and more keys.
type watchJSON struct {
	Agent          schema.AgentName      `json:"agent"`
	Auth           signing.Status        `json:"auth,omitempty"`
	Code           string                `json:"code,omitempty"`
	ConversationID schema.ConversationID `json:"conversation_id,omitempty"`
	CreatedAt      schema.Timestamp      `json:"created_at_utc,omitempty"`
	Error          string                `json:"error,omitempty"`
	Event          watch.EventKind       `json:"event"`
	ExpiresAt      schema.Timestamp      `json:"expires_at,omitempty"`
	File           string                `json:"file,omitempty"`
	From           schema.AgentName      `json:"from,omitempty"`
	Held           string                `json:"held,omitempty"`
	Hint           string                `json:"hint,omitempty"`
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
	if held, ok := errors.AsType[*mailbox.HeldError](e.Err); ok {
		j.Auth, j.Held = held.Status, held.Error()
	} else if e.Err != nil {
		j.Error = failure.OneLine(e.Err.Error())
		if f := failure.Of(e.Err); e.Name == "" { // the error concerns no single file
			j.Code, j.Hint = f.Code, f.Hint
		}
	}
	return j
}
