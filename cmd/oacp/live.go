package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/processgroup"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/live/setup"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A liveCall is a call of live.
type liveCall struct {
	*call
	follow string
}

func newLiveCommand(s *command.Streams) *cli.Command {
	c := &liveCall{call: newCall(s)}
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
		Flags: c.flagsWith(
			c.agentFlag("list sessions of `AGENT` (default: of all agents)"),
			&cli.StringFlag{Name: "follow", Category: command.Rare, Usage: "wake `SESSION` of codex when mail comes, until it ends; hooks start this", Destination: &c.follow},
			c.sync.Flag(command.Rare)),
		Action: c.inProject(c.run),
	}
}

func (c *liveCall) run(w *mailbox.Workspace) error {
	var agents []schema.AgentName
	if c.agent != "" {
		agent, err := schema.ParseAgentName(string(c.agent))
		if err != nil {
			return failure.Usagef("--agent: %w", err)
		}
		agents = append(agents, agent)
	}
	switch {
	case c.follow != "" && len(agents) == 0:
		return failure.Usagef("--follow needs --agent")
	case c.follow != "":
		return c.followSession(w)
	case c.sync.IsSet():
		return failure.Usagef("--sync needs --follow")
	case len(agents) > 0:
		if err := w.CheckAgent(agents[0]); err != nil {
			return err
		}
	}
	sessions, err := live.Sessions(w, agents...)
	_, err = warnUnreadable(err, c.Streams)
	if err != nil {
		return err
	}
	entries := make([]sessionEntry, len(sessions))
	for i := range sessions {
		entries[i] = entryOf(&sessions[i])
	}
	return c.answer(struct {
		envelope
		Sessions []sessionEntry `json:"sessions"`
	}{envelopeOf(w), entries}, func() { printSessions(entries, c.Streams) })
}

// A sessionEntry is a session, as JSON.
type sessionEntry struct {
	Agent   schema.AgentName `json:"agent"`
	Program live.Program     `json:"program"`
	ID      string           `json:"session"`
	// Process is absent if the terminal of the session is unknown.
	Process int       `json:"process,omitempty"`
	Dir     string    `json:"dir"`
	Since   time.Time `json:"since"`
	State   string    `json:"state"`
	// Shown and Noticed are messages in the inbox.
	Shown   []schema.ID `json:"shown"`
	Noticed []schema.ID `json:"noticed"`
}

func entryOf(session *live.Session) sessionEntry {
	e := sessionEntry{
		Agent: session.Agent, Program: session.Program, ID: session.ID, Process: session.Process.PID, Dir: session.Dir,
		Since: session.Began.UTC().Truncate(time.Second), State: session.State(), Shown: []schema.ID{}, Noticed: []schema.ID{},
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
		s.Printf("no live sessions; oacp setup claude or oacp setup codex connects them\n")
		return
	}
	t := newTable(s, row{"Agent", "Program", "Session", "Process", "Since", "State", "Shown", "Noticed"})
	for _, e := range sessions {
		process := "unknown"
		if e.Process != 0 {
			process = fmt.Sprint(e.Process)
		}
		t.add(e.Agent, e.Program, shortSession(e.ID), process, spelling.Age(e.Since, s.Now()), e.State, len(e.Shown), len(e.Noticed))
	}
	t.print()
}

// An errorLog records each line that is written to it as an error of a live session.
type errorLog struct {
	workspace *mailbox.Workspace
	now       func() time.Time
}

// Write records lines.
func (l *errorLog) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		if err := live.NoteError(l.workspace, l.now(), errors.New(strings.TrimSpace(line))); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

// followSession runs in the process that a hook starts for a session. Nobody sees its output, so errors go
// to the log of live sessions.
func (c *liveCall) followSession(w *mailbox.Workspace) error {
	logged := *c.Streams
	logged.Err = &errorLog{w, c.Now}
	c.Streams = &logged
	synchronizer, err := c.synchronizer(w)
	if err != nil {
		c.Warn("sync: " + failure.Of(err).Message())
	}
	defer c.catchSignals()()
	ctx, end := context.WithCancel(c.ctx)
	defer end()
	err = synchronizer.Around(ctx, false, func() error {
		defer end() // this limits the time of the last sync
		return live.Follow(ctx, w, c.agent, c.follow, c.Now)
	})
	if _, stopped := errors.AsType[*failure.SignalError](err); err != nil && !stopped {
		c.Warn(failure.Of(err).Message())
	}
	return err
}

// hookLimit bounds the work of a hook: the session waits for it.
const hookLimit = 10 * time.Second

// A hookCall is a call of hook.
type hookCall struct {
	*call
	plugin bool
}

func newHookCommand(s *command.Streams) *cli.Command {
	c := &hookCall{call: newCall(s)}
	return &cli.Command{
		Name:      "hook",
		Hidden:    true,
		Usage:     "answer a hook of claude or codex",
		ArgsUsage: "claude|codex",
		Description: `The hooks that oacp setup writes and those of the plugin call this command. It reads the event of a hook from
standard input and prints the mail that is new to the session, in the form that the
program reads. It prints nothing if there is no workspace, no agent, or no
news. An error does not disturb the session: the exit status is 0 all the same, and a
line in state/live/errors.log says what is wrong. The exit status is 2 to wake an idle
claude.`,
		Flags: append([]cli.Flag{
			c.agentFlag("the session acts for `AGENT` unless $OACP_AGENT names another (default: the name of the program)"),
			c.sessionSync(),
			&cli.BoolFlag{Name: "plugin", Usage: "the hook is the plugin's: leave the session to oacp setup", Destination: &c.plugin},
		}, c.place.Flags()...),
		Action: c.action(anyNumber, c.run),
	}
}

func (c *hookCall) run() error {
	if len(c.words) != 1 || !slices.Contains(live.Programs(), live.Program(c.words[0])) {
		return failure.Usagef("name the program whose hook this is: claude or codex")
	}
	if c.InTerminal {
		return failure.Usagef("this command is for hooks, which pass an event on standard input").WithHint("oacp setup " + c.words[0] + " writes the hooks")
	}
	return c.answerHook(live.Program(c.words[0]))
}

// sessionSync returns the flag --sync of commands for sessions.
func (c *call) sessionSync() cli.Flag {
	return &cli.GenericFlag{Name: "sync", Value: &c.sync, Usage: "while the session is open, exchange mail with the git remote every `TIME` (5s)"}
}

// notPanic turns a panic into an error, because claude and codex take the exit status of a crash for an answer.
func notPanic(err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("%v\n%s", cause, debug.Stack())
	}
}

// hookPace is the Pace of hooks. Tests shorten it.
var hookPace time.Duration

// answerHook answers the event on standard input.
func (c *hookCall) answerHook(program live.Program) (err error) {
	defer notPanic(&err)
	e, err := live.ReadEvent(c.In)
	if err != nil {
		return err
	}
	if c.Getenv(orphans.Variable) != "" || live.IsScripted(program, c.Getenv) {
		return nil // nobody works in the session, or its runner gives it the mail
	}
	if c.plugin && (setup.Options{Program: program, Getenv: c.Getenv}).IsSetUp(e.Dir) {
		return nil
	}
	place := c.place.Place(c.Streams)
	if e.Dir != "" {
		place.WorkingDir = e.Dir
	}
	w, err := client.OpenWorkspace(place, nil, false)
	if err != nil {
		return nil // the session has nothing to do with oacp, or there is no workspace for a log
	}
	defer func() { _ = w.Close() }() // nothing is written through it
	agent, known := live.AgentOf(w, c.Getenv, cmp.Or(c.agent, schema.AgentName(program)))
	if !known {
		return nil
	}
	w.ViewAs(agent)
	h := &live.Hook{Workspace: w, Agent: agent, Program: program, Getenv: c.Getenv, Follow: c.sync.IsSet(), Pace: hookPace, Now: c.Now}
	exit, err := c.handleEvent(h, e)
	if err != nil {
		if noteErr := live.NoteError(w, c.Now(), fmt.Errorf("%s of %s session %s: %w", e.Name, program, e.Session, err)); noteErr != nil {
			return err // which the program may show
		}
	}
	if exit != 0 {
		return &failure.StatusError{Status: exit}
	}
	return nil
}

// handleEvent prints the answer to an event and returns the exit status.
func (c *hookCall) handleEvent(h *live.Hook, e live.Event) (exit int, err error) {
	defer notPanic(&err)
	limit := hookLimit
	if e.Name == live.FileChanged {
		limit = live.WakeLimit
	}
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	follow := false
	err = h.Handle(ctx, e, func(a live.Answer) error {
		_, err := c.Out.Write(a.Stdout)
		if err = cmp.Or(err, c.Out.Flush()); err == nil {
			_, err = c.Err.Write(a.Stderr)
		}
		if err == nil {
			exit, follow = a.Exit, a.Follow
		}
		return err
	})
	if follow {
		err = errors.Join(err, c.startFollower(h.Workspace, h.Agent, e.Session))
	}
	return exit, err
}

// startFollower starts the process that follows a session. It outlives this one, and ends with the session.
func (c *hookCall) startFollower(w *mailbox.Workspace, agent schema.AgentName, session string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"live", "--dir", w.Dir(), "--agent", string(agent), "--follow", session}
	if c.sync.IsSet() {
		args = append(args, "--sync="+c.sync.String())
	}
	follower := exec.Command(self, args...)
	processgroup.LeadSession(follower)
	if err := follower.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", visible.Quote(self), err)
	}
	return follower.Process.Release()
}
