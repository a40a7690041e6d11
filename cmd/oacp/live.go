package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

type liveOptions struct {
	workspace command.Workspace
	agent     string
	follow    string
	sync      command.Sync
	json      bool
}

func newLiveCommand(s *command.Streams) *cli.Command {
	var o liveOptions
	return &cli.Command{
		Name:      "live",
		Category:  command.CategoryTurns,
		Usage:     "list live sessions",
		ArgsUsage: "[PROJECT]",
		Description: `live lists the open sessions of claude and codex that get the mail of an agent. Shown
counts the messages in the inbox that a hook has added to the session but that its model
may not have seen yet. Noticed counts those that the model has seen. oacp setup connects
sessions.

EXAMPLES:
   oacp live
   oacp live --agent codex --json`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "list sessions of `AGENT` (default: of all agents)", Destination: &o.agent},
			&cli.StringFlag{Name: "follow", Category: command.Rare, Usage: "wake `SESSION` of codex when mail comes, until it ends; hooks start this", Destination: &o.follow},
			o.sync.Flag(command.Rare),
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			if err := errors.Join(o.sync.Check(), o.workspace.TakeProject(command.Positionals(c))); err != nil {
				return err
			}
			var agent schema.AgentName
			if c.IsSet("agent") {
				var err error
				if agent, err = schema.ParseAgentName(o.agent); err != nil {
					return failure.Usagef("--agent: %w", err)
				}
			}
			switch {
			case !c.IsSet("follow") && o.sync.IsSet():
				return failure.Usagef("--sync needs --follow")
			case !c.IsSet("follow"):
				return listSessions(o, agent, s)
			case agent == "":
				return failure.Usagef("--follow needs --agent")
			}
			return followSession(c.Context, o, agent, s)
		},
	}
}

// A sessionEntry is what --json prints of a session.
type sessionEntry struct {
	Agent   schema.AgentName `json:"agent"`
	Program live.Program     `json:"program"`
	ID      string           `json:"session"`
	// Process is absent if it is not known in which terminal the session is.
	Process int       `json:"process,omitempty"`
	Dir     string    `json:"dir"`
	Since   time.Time `json:"since"`
	State   string    `json:"state"`
	// Shown and Noticed are messages in the inbox.
	Shown   []schema.ID `json:"shown"`
	Noticed []schema.ID `json:"noticed"`
}

func listSessions(o liveOptions, agent schema.AgentName, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		var agents []schema.AgentName
		if agent != "" {
			if err := w.CheckAgent(agent); err != nil {
				return err
			}
			agents = append(agents, agent)
		}
		sessions, err := live.Sessions(w, agents...)
		if err != nil {
			return err
		}
		entries := make([]sessionEntry, 0, len(sessions))
		for _, session := range sessions {
			entries = append(entries, entryOf(&session))
		}
		return s.Answer(o.json, struct {
			Project   string         `json:"project"`
			Workspace string         `json:"workspace"`
			Sessions  []sessionEntry `json:"sessions"`
		}{project.Name(w), w.Dir(), entries}, func() { printSessions(entries, s) })
	})
}

func entryOf(session *live.Session) sessionEntry {
	e := sessionEntry{
		Agent: session.Agent, Program: session.Program, ID: session.ID, Process: session.Process.PID, Dir: session.Dir,
		Since: session.Began.UTC().Truncate(time.Second), State: "idle", Shown: []schema.ID{}, Noticed: []schema.ID{},
	}
	switch {
	case session.Working && session.Interrupted():
		e.State = "interrupted"
	case session.Working:
		e.State = "working"
	}
	for _, shown := range session.Shown {
		switch {
		case shown.Key.ID == "": // a file that is not a message
		case shown.Noticed():
			e.Noticed = append(e.Noticed, shown.Key.ID)
		default:
			e.Shown = append(e.Shown, shown.Key.ID)
		}
	}
	return e
}

func printSessions(sessions []sessionEntry, s *command.Streams) {
	if len(sessions) == 0 {
		fmt.Fprintln(s.Out, "no live sessions; oacp setup claude or oacp setup codex connects them")
		return
	}
	t := newTable(s, row{"Agent", "Program", "Session", "Process", "Since", "State", "Shown", "Noticed"})
	for _, e := range sessions {
		t.add(row{e.Agent, e.Program, shortSession(e.ID), processText(e.Process), spelling.Age(e.Since, s.Now()), e.State, len(e.Shown), len(e.Noticed)})
	}
	t.print(s)
}

// processText names the process of a session.
func processText(pid int) string {
	if pid == 0 {
		return "unknown"
	}
	return fmt.Sprint(pid)
}

// An errorLog notes each line that is written to it as an error of a live session.
type errorLog struct {
	workspace *mailbox.Workspace
	now       func() time.Time
}

// Write notes lines.
func (l *errorLog) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		if err := live.NoteError(l.workspace, l.now(), errors.New(strings.TrimSpace(line))); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

// followSession is the process that a hook starts for a session. Nobody sees what it prints.
func followSession(ctx context.Context, o liveOptions, agent schema.AgentName, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		unseen := *s
		unseen.Err = &errorLog{w, s.Now}
		synchronizer, err := o.sync.Open(ctx, &unseen, w)
		if err != nil {
			unseen.Warn("sync: " + failure.Of(err).Message())
		}
		ctx, stop := command.UntilSignal(ctx)
		defer stop()
		ctx, end := context.WithCancel(ctx)
		defer end()
		err = synchronizer.Around(ctx, false, func() error {
			defer end() // which bounds the last sync
			return live.Follow(ctx, w, agent, o.follow, s.Now)
		})
		if _, stopped := errors.AsType[*failure.SignalError](err); err != nil && !stopped {
			unseen.Warn(failure.Of(err).Message())
		}
		return err
	})
}
