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

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/turn/track"
)

// A watchCall is a call of watch.
type watchCall struct {
	*call
	follow, once, showArchived, allProjects bool
	since                                   time.Time
	stateID                                 string
	projects                                cli.StringSlice
}

func newWatchCommand(s *command.Streams) *cli.Command {
	c := &watchCall{call: newCall(s), since: time.Unix(0, 0).UTC()}
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

--json prints one object per line, with the event new_message, message_archived or
error. Errors also go to standard error.

For each message to a person, watch runs notify: [COMMAND, ARGUMENT…] of her
agents/NAME/config.yaml; see docs/people.md.

EXAMPLES:
   oacp watch --agent codex --follow
   oacp watch --agent codex --json
   oacp watch --agent codex --all-projects --state-id notifier`,
		Flags: []cli.Flag{
			c.agentFlag("watch the inbox of `AGENT` (default: $OACP_AGENT)"),
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep running and print messages as they arrive", Destination: &c.follow},
			c.sync.Flag(""),
			&cli.BoolFlag{Name: "once", Usage: "accepted for compatibility", Hidden: true, Destination: &c.once},
			&cli.GenericFlag{Name: "since", Category: command.Rare, Usage: "on the first run, skip messages before `TIME`: now, epoch, an age such as 5m, or YYYY-MM-DDTHH:MM:SSZ", DefaultText: "epoch", Value: command.Parsed(&c.since, c.parseTime).Needed()},
			&cli.StringFlag{Name: "state-id", Category: command.Rare, Usage: "use the record `NAME`, for a second reader of the inbox", Destination: &c.stateID},
			&cli.BoolFlag{Name: "show-archived", Category: command.Rare, Usage: "also report messages that leave the inbox", Destination: &c.showArchived},
			&cli.StringSliceFlag{Name: "project", Usage: "watch the project `PROJECT`; may be repeated", Destination: &c.projects},
			&cli.BoolFlag{Name: "all-projects", Usage: "watch every project that has the agent", Destination: &c.allProjects},
			&cli.StringFlag{Name: "dir", Category: command.OfWorkspace, Usage: "use the workspace `DIR`", Destination: &c.place.Dir},
			&cli.StringFlag{Name: "oacp-dir", Category: command.OfWorkspace, Usage: "projects are below `DIR` (default $OACP_HOME, then ~/oacp)", Destination: &c.place.Home},
			c.jsonFlag(),
		},
		Action: c.action(anyNumber, c.run),
	}
}

func (c *watchCall) run() (err error) {
	projects := append(c.projects.Value(), c.words...)
	switch {
	case c.given(&c.stateID) && !schema.IsNamePart(c.stateID):
		return failure.Usagef("--state-id: %s: want 1 to 64 letters, digits, dots, underscores or hyphens", visible.Quote(c.stateID))
	case c.allProjects && len(projects) > 0:
		return failure.Usagef("--all-projects and a project are mutually exclusive")
	case c.place.Dir != "" && (c.allProjects || len(projects) > 0):
		return failure.Usagef("--dir and a project are mutually exclusive")
	case slices.Contains(projects, ""):
		return failure.Usagef("the project name is empty")
	case c.follow && c.once:
		return failure.Usagef("--follow and --once are mutually exclusive")
	}
	targets, failed, err := c.targets(projects)
	defer func() {
		for _, target := range targets {
			err = errors.Join(err, target.Workspace.Close())
		}
	}()
	if err != nil {
		return err
	}
	for _, event := range failed {
		if err := c.printEvent(event); err != nil {
			return err
		}
	}
	if len(targets) == 0 {
		return failure.ErrReported
	}
	options := &watch.Options{Cursor: true, StateID: c.stateID, Since: c.since, Archived: c.showArchived}
	ok, err := c.report(targets, options)
	if err != nil {
		return err
	}
	if c.OutTerminal && !c.follow && !c.asJSON {
		_, _ = fmt.Fprintln(c.Err, "hint: with --follow, watch keeps running") // nothing is lost without it
	}
	if !c.follow && (!ok || len(failed) > 0) {
		return failure.ErrReported
	}
	return nil
}

// report prints the events of the targets, with --follow until a signal ends it. It reports whether
// none of them was an error.
func (c *watchCall) report(targets []watch.Target, options *watch.Options) (ok bool, err error) {
	defer c.catchSignals()()
	workspaces := make([]*mailbox.Workspace, len(targets))
	for i, target := range targets {
		workspaces[i] = target.Workspace
	}
	synchronizer, err := c.synchronizer(workspaces...)
	if err != nil {
		return false, err
	}
	defer c.notify(!c.follow, false, workspaces...)()
	if c.follow {
		defer synchronizer.Start(c.ctx)()
	} else {
		defer synchronizer.Begin(c.ctx, 0)()
	}
	watcher, err := watch.New(targets, options)
	if err != nil { // no target can be watched
		return false, cmp.Or(c.printEvent(newFailure(targets, err)), failure.ErrReported)
	}
	defer func() { err = errors.Join(err, watcher.Close()) }()
	if c.follow {
		return c.printEvents(watcher.Events(c.ctx))
	}
	ok, err = c.printEvents(watcher.Scan(c.ctx))
	return ok, cmp.Or(err, context.Cause(c.ctx))
}

// printEvents prints events and reports whether none of them was an error.
func (c *watchCall) printEvents(events iter.Seq2[watch.Event, error]) (ok bool, err error) {
	ok = true
	for event, err := range events {
		if err != nil {
			return false, err
		}
		// The event counts as printed when the loop asks for the next one.
		if err := c.printEvent(event); err != nil {
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

// targets opens the workspaces to watch. For each one that cannot be watched, it returns an event. The
// caller closes the workspaces, even after an error.
func (c *watchCall) targets(projects []string) (targets []watch.Target, failed []watch.Event, err error) {
	place := command.Workspace{Dir: c.place.Dir, Home: c.place.Home}.Place(c.Streams)
	if c.allProjects {
		if projects, err = place.Projects(); err != nil {
			return nil, nil, err
		}
	} else if len(projects) == 0 {
		projects = []string{""}
	}
	fail := func(path string, err error) {
		entry := mailbox.Entry{Agent: c.agent, Path: path, Err: err}
		failed = append(failed, watch.Event{Kind: watch.EventError, Project: place.Project, Entry: entry})
	}
	for _, place.Project = range projects {
		w, err := client.OpenWorkspace(place, nil, c.IsPerson())
		if err != nil {
			path, _ := place.ProjectDir() // empty if the name is not that of a project
			fail(path, err)
			continue
		}
		agent, err := client.Viewer(w, c.agent, c.Caller())
		if err == nil && w.Knows(agent) {
			if c.follow {
				track.NoteCommand(w, agent, "oacp watch", true, c.Now) // until the process ends
			}
			targets = append(targets, watch.Target{Workspace: w, Agent: agent})
			continue
		}
		switch {
		case errors.Is(err, project.ErrNoSender):
			return targets, nil, errors.Join(err, w.Close())
		case err != nil:
			fail("", err)
		case !c.allProjects:
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

func (c *watchCall) printEvent(e watch.Event) error {
	if e.Err != nil && !(c.asJSON && isMail(e)) { // the event itself says what is wrong with the message
		text := failure.OneLine(e.Err.Error())
		if e.Path != "" {
			text = e.Path + ": " + text
		}
		label := "ERROR: "
		if isMail(e) {
			label = "WARNING: "
		}
		text = label + visible.Line(text) + "\n"
		if hint := failure.Of(e.Err).Hint; hint != "" {
			text += "hint: " + visible.Line(hint) + "\n"
		}
		c.Tell("%s", text)
	}
	if isMail(e) {
		e.Kind, e.Message = watch.EventArrived, command.Preview(&e.Entry)
	}
	switch {
	case c.asJSON:
		if err := command.WriteJSONLine(c.Out, newWatchJSON(e)); err != nil {
			return err
		}
	case e.Message != nil:
		m := e.Message
		c.Printf("%s project=%s agent=%s file=%s type=%s priority=%s id=%s from=%s %s\n",
			strings.ToUpper(string(e.Kind)), visible.Line(e.Project), e.Agent, visible.Line(e.Name), visible.Line(string(m.Type)),
			visible.Line(string(m.Priority)), visible.Line(cmp.Or(m.ID.Short(), "?")), visible.Line(string(m.From)), visible.Line(m.Subject))
	}
	return c.Out.Flush()
}

// isMail reports whether an error is about an invalid or held message. Such a message is printed like others,
// as far as it can be read.
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
