package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/processgroup"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/live/setup"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

func newLiveCommand(s *command.Streams) *cli.Command {
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
		Flags: flagsWith(
			&cli.StringFlag{Name: "agent", Usage: "list sessions of `AGENT` (default: of all agents)"},
			&cli.StringFlag{Name: "follow", Category: command.Rare, Usage: "wake `SESSION` of codex when mail comes, until it ends; hooks start this"},
			new(command.Sync).Flag(command.Rare)),
		Action: inProject(s, runLive),
	}
}

func runLive(c *call, w *mailbox.Workspace) error {
	var agents []schema.AgentName
	if c.isSet("agent") {
		agent, err := schema.ParseAgentName(c.text("agent"))
		if err != nil {
			return failure.Usagef("--agent: %w", err)
		}
		agents = append(agents, agent)
	}
	switch {
	case c.isSet("follow") && len(agents) == 0:
		return failure.Usagef("--follow needs --agent")
	case c.isSet("follow"):
		return followSession(c, w, agents[0])
	case c.isSet("sync"):
		return failure.Usagef("--sync needs --follow")
	case len(agents) > 0:
		if err := w.CheckAgent(agents[0]); err != nil {
			return err
		}
	}
	sessions, err := live.Sessions(w, agents...)
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
		process := "unknown"
		if e.Process != 0 {
			process = fmt.Sprint(e.Process)
		}
		t.add(e.Agent, e.Program, shortSession(e.ID), process, spelling.Age(e.Since, s.Now()), e.State, len(e.Shown), len(e.Noticed))
	}
	t.print()
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
func followSession(c *call, w *mailbox.Workspace, agent schema.AgentName) error {
	unseen := *c.Streams
	unseen.Err = &errorLog{w, c.Now}
	c.Streams = &unseen
	synchronizer, err := c.synchronizer(w)
	if err != nil {
		c.Warn("sync: " + failure.Of(err).Message())
	}
	defer c.catchSignals()()
	ctx, end := context.WithCancel(c.ctx)
	defer end()
	err = synchronizer.Around(ctx, false, func() error {
		defer end() // which bounds the last sync
		return live.Follow(ctx, w, agent, c.text("follow"), c.Now)
	})
	if _, stopped := errors.AsType[*failure.SignalError](err); err != nil && !stopped {
		c.Warn(failure.Of(err).Message())
	}
	return err
}

// hookLimit bounds the work of a hook: the session waits for it.
const hookLimit = 10 * time.Second

func newHookCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "hook",
		Hidden:    true,
		Usage:     "answer a hook of claude or codex",
		ArgsUsage: "claude|codex",
		Description: `The hooks that oacp setup writes call this command. It reads the event of a hook from
standard input and prints the mail that is new to the session, in the form that the
program reads. It prints nothing if there is no workspace, no agent, or no
news. An error does not disturb the session: the exit status is 0 all the same, and a
line in state/live/errors.log says what is wrong. To wake an idle claude it is 2.`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "the session acts for `AGENT` unless $OACP_AGENT names another (default: the one named like the program)"},
			sessionSync(),
		}, new(command.Workspace).Flags()...),
		Action: action(s, anyNumber, func(c *call) error {
			if len(c.words) != 1 || !slices.Contains(live.Programs(), live.Program(c.words[0])) {
				return failure.Usagef("name the program whose hook this is: claude or codex")
			}
			if c.InTerminal {
				return failure.Usagef("this command is for hooks, which pass an event on standard input").WithHint("oacp setup " + c.words[0] + " writes the hooks")
			}
			if err := c.syncFlag().Check(); err != nil {
				return err
			}
			return runHook(c, live.Program(c.words[0]))
		}),
	}
}

// sessionSync returns the flag --sync of commands for sessions.
func sessionSync() cli.Flag {
	return &cli.GenericFlag{Name: "sync", Value: new(command.Sync), Usage: "while the session is open, exchange mail with the git remote, every `TIME` (5s)"}
}

// notPanic makes a panic an error: the programs take the exit status of a crash for an answer.
func notPanic(err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("%v\n%s", cause, debug.Stack())
	}
}

// hookPace is the Pace of hooks. Tests shorten it.
var hookPace time.Duration

// runHook answers an event.
func runHook(c *call, program live.Program) (err error) {
	defer notPanic(&err)
	e, err := live.ReadEvent(c.In)
	if err != nil {
		return err
	}
	if c.Getenv(orphans.Variable) != "" || live.IsScripted(program, c.Getenv) {
		return nil // nobody sits in the session, or its runner gives it the mail
	}
	place := c.place.Place(c.Streams)
	if e.Dir != "" {
		place.WorkingDir = e.Dir
	}
	w, err := command.Open(place, nil)
	if err != nil {
		return nil // the session has nothing to do with oacp, or there is no workspace for a log
	}
	defer func() { _ = w.Close() }() // nothing is written through it
	agent, known := hookAgent(c, w, program)
	if !known {
		return nil
	}
	w.ViewAs(agent)
	h := &live.Hook{Workspace: w, Agent: agent, Program: program, Getenv: c.Getenv, Follow: c.isSet("sync"), Pace: hookPace, Now: c.Now}
	h.Tools = func() bool { return command.FindSeparate("mcp") != "" } // setup registers it with the hooks
	exit, err := handleEvent(c, h, e)
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
func handleEvent(c *call, h *live.Hook, e live.Event) (exit int, err error) {
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
		err = errors.Join(err, startFollower(c, h.Workspace, h.Agent, e.Session))
	}
	return exit, err
}

// hookAgent returns the agent of the workspace for which a session acts.
func hookAgent(c *call, w *mailbox.Workspace, program live.Program) (agent schema.AgentName, known bool) {
	if agent, err := project.AgentFromEnvironment(c.Getenv); err == nil && w.Knows(agent) {
		return agent, true
	}
	agent = cmp.Or(c.agent(), schema.AgentName(program))
	return agent, agent.Valid() && w.Knows(agent)
}

// startFollower starts the process that follows a session. It outlives this one, and ends with the session.
func startFollower(c *call, w *mailbox.Workspace, agent schema.AgentName, session string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"live", "--dir", w.Dir(), "--agent", string(agent), "--follow", session}
	if c.isSet("sync") {
		args = append(args, "--sync="+c.syncFlag().String())
	}
	follower := exec.Command(self, args...)
	processgroup.LeadSession(follower)
	if err := follower.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", visible.Quote(self), err)
	}
	return follower.Process.Release()
}

func newSetupCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "setup",
		Category:  command.CategoryTurns,
		Usage:     "connect claude or codex",
		ArgsUsage: "claude|codex",
		Description: `Brings mail into the sessions of claude or codex that you work in. setup adds to
their settings hooks that report new mail, the MCP server oacp mcp with the
permission to use its tools, and a few lines in CLAUDE.md or AGENTS.md. This is for
sessions in this project, or with --user for all of your sessions. The files keep
everything else. If one cannot be read or written, setup changes nothing. Run again
with other options, it replaces what it wrote. --remove removes it.

EXAMPLES:
   oacp setup claude
   oacp setup codex --agent reviewer --dry-run`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "sessions act for `AGENT` (default: the one named like the program)"},
			&cli.BoolFlag{Name: "user", Usage: "for all of your sessions, wherever they find a workspace"},
			&cli.BoolFlag{Name: "project", Category: command.Rare, Usage: "for sessions in this project (default)"},
			sessionSync(),
			&cli.BoolFlag{Name: "dry-run", Usage: "show the changes and write nothing"},
			&cli.BoolFlag{Name: "remove", Usage: "remove what setup wrote"},
			jsonFlag(),
		},
		Action: action(s, 1, runSetup),
	}
}

// runSetup opens the workspace of the project. The setup for all sessions of the user needs none.
func runSetup(c *call) error {
	name, err := c.only(failure.Usagef("needs the program: claude or codex"))
	program := live.Program(name)
	switch {
	case err != nil:
		return err
	case !slices.Contains(live.Programs(), program):
		return failure.Usagef("%s has no setup", visible.Quote(name)).WithHint("the programs are claude and codex")
	case c.isOn("user") && c.isOn("project"):
		return failure.Usagef("--user and --project are mutually exclusive")
	case c.isOn("remove") && (c.agent() != "" || c.isSet("sync")):
		return failure.Usagef("--remove takes out everything: --agent and --sync are of no use with it")
	}
	if err := c.syncFlag().Check(); err != nil {
		return err
	}
	if c.isOn("user") {
		return setUp(c, program, nil)
	}
	c.place = command.Workspace{} // --project is another flag here
	err = c.open(func(c *call, w *mailbox.Workspace) error { return setUp(c, program, w) })
	if c.isOn("remove") && errors.Is(err, mailbox.ErrNoWorkspace) { // it went before its setup
		return setUp(c, program, nil)
	}
	return err
}

// setupOptions returns what to set up, and whether the PATH leads to this program.
func setupOptions(c *call, program live.Program, w *mailbox.Workspace) (options setup.Options, onPath bool, err error) {
	options = setup.Options{Program: program, Scope: setup.User, Sync: c.syncFlag().String(), Workspace: w, Getenv: c.Getenv}
	if options.Agent, err = schema.ParseAgentName(cmp.Or(c.text("agent"), string(program))); err != nil {
		return options, false, err
	}
	if !c.isOn("user") {
		options.Scope = setup.Project
		if options.Dir, err = setup.ProjectDir(program, c.Dir); err == nil && !c.isOn("remove") {
			err = w.CheckAgent(options.Agent)
		}
		if err != nil {
			return options, false, err
		}
	}
	options.Command, onPath, err = ownCommand()
	return options, onPath, err
}

func setUp(c *call, program live.Program, w *mailbox.Workspace) error {
	options, onPath, err := setupOptions(c, program, w)
	if err != nil {
		return err
	}
	prepare := setup.Prepare
	if c.isOn("remove") {
		prepare = setup.PrepareRemoval
	}
	plan, err := prepare(options)
	if err == nil && !c.isOn("dry-run") {
		err = plan.Apply()
	}
	if err != nil {
		return err
	}
	a := setupAnswer{
		Program: program, Scope: options.Scope, Project: options.Dir, DryRun: c.isOn("dry-run"), Files: []setupFile{}, removed: c.isOn("remove"),
	}
	for _, change := range plan.Changes {
		a.Files = append(a.Files, setupFile{change.Path, change.Action, change.Parts, change.Backup})
	}
	if a.removed {
		a.addRemoval(plan, options)
	} else {
		a.addSetup(c.ctx, plan, options, c.Dir, onPath)
	}
	return c.answer(a, func() {
		a.print(c.Streams)
		if a.DryRun {
			printDiff(c, plan)
		}
	})
}

// ownCommand returns how hooks call this program.
func ownCommand() (word string, onPath bool, err error) {
	own, err := os.Executable()
	if err != nil {
		return "", false, err
	}
	word, onPath = setup.Command(own)
	if !onPath && strings.Contains(filepath.ToSlash(own), "/go-build") {
		return "", false, failure.WithHint(fmt.Errorf("this program is %s, which go removes when it ends", own),
			"go install ./cmd/... puts it where hooks can find it")
	}
	return word, onPath, nil
}

// setupAnswer is what setup did, as JSON.
type setupAnswer struct {
	Program live.Program     `json:"program"`
	Scope   setup.Scope      `json:"scope"`
	Agent   schema.AgentName `json:"agent,omitempty"`
	Project string           `json:"project,omitempty"`
	DryRun  bool             `json:"dry_run"`
	Files   []setupFile      `json:"files"`
	// Confirm lists what the user has to confirm, and Next is the next step.
	Confirm []string `json:"confirm,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	Next    string   `json:"next,omitempty"`
	removed bool
}

type setupFile struct {
	Path   string       `json:"path"`
	Action setup.Action `json:"action"`
	Parts  []string     `json:"parts"`
	Backup string       `json:"backup,omitempty"`
}

// addRemoval adds what matters after a removal.
func (a *setupAnswer) addRemoval(plan *setup.Plan, options setup.Options) {
	if !plan.IsEmpty() {
		a.Notes = []string{"open sessions keep the hooks and tools until they end"}
		return
	}
	if options.Scope == setup.Project {
		a.Next = fmt.Sprintf("oacp setup %s --user --remove removes the setup for all of your sessions", options.Program)
	}
}

// addSetup adds what matters after a setup.
func (a *setupAnswer) addSetup(ctx context.Context, plan *setup.Plan, options setup.Options, workingDir string, onPath bool) {
	note := func(format string, args ...any) { a.Notes = append(a.Notes, fmt.Sprintf(format, args...)) }
	a.Agent = options.Agent
	if !onPath {
		note("the hooks call %s, because that is not the oacp on the PATH", options.Command)
	}
	if command.FindSeparate("mcp") == "" {
		note("sessions have no tools until oacp-mcp is installed: it is neither next to oacp nor on the PATH")
	}
	if _, err := exec.LookPath(string(options.Program)); err != nil {
		note("%s is not on the PATH", options.Program)
	}
	if options.Program == live.Claude {
		for _, obstacle := range options.Obstacles() {
			note("%s", obstacle)
		}
	}
	start := "start " + string(options.Program)
	if options.Scope == setup.Project {
		dir := options.Dir
		if !findsWorkspace(dir, options.Workspace) {
			dir = workingDir // it is further down
		}
		if !findsWorkspace(dir, options.Workspace) {
			note("sessions find the workspace only if OACP_WORKSPACE is %s where they start", options.Workspace.Dir())
		}
		start += " in " + dir
	}
	if a.Next = start + "; oacp doctor checks the setup"; plan.IsEmpty() {
		return
	}
	commits := options.Scope == setup.Project && wouldCommit(ctx, options.Dir, plan.Changes[0])
	if options.Program == live.Claude {
		note("sessions of claude that are open have no tools until you restart them")
		if commits {
			note("git does not ignore .claude/settings.local.json, which is for you alone: add it to .git/info/exclude")
		}
		return
	}
	if commits {
		note("git does not ignore .codex: add it to .git/info/exclude, unless everybody's codex is to act for agent %s", options.Agent)
	}
	if options.Scope == setup.Project {
		a.Confirm = append(a.Confirm, "codex asks whether you trust the folder, and reads its settings only if you do")
	}
	a.Confirm = append(a.Confirm, "codex asks you to review the hooks, when it starts or at the first prompt: answer 2, trust all; if the prompt was lost, type it again")
}

// wouldCommit reports whether git would commit a file that has changed.
func wouldCommit(ctx context.Context, dir string, c setup.Change) bool {
	if c.Action == setup.Unchanged {
		return false
	}
	_, err := (&git.Repository{Dir: dir}).Run(ctx, "check-ignore", "--quiet", c.Path)
	return git.Exit(err) == 1
}

// findsWorkspace reports whether a session that starts in a folder finds the workspace.
func findsWorkspace(dir string, w *mailbox.Workspace) bool {
	found, err := workspaceAround(dir)
	return err == nil && sameFolder(found, w.Dir())
}

// sessionsOf says where the sessions are that have a setup.
func sessionsOf(project string) string {
	if project == "" {
		return "in all of your sessions"
	}
	return "in " + project
}

// print says what was done, a line for each file.
func (a setupAnswer) print(s *command.Streams) {
	begin, would := "OK:", ""
	if a.DryRun {
		begin, would = "dry run, nothing is written:", "would be "
	}
	what := "acts for agent " + string(a.Agent)
	if a.removed {
		what = "is without oacp"
	}
	fmt.Fprintf(s.Out, "%s %s %s %s\n", begin, a.Program, what, visible.Line(sessionsOf(a.Project)))
	files := a.Files
	if a.removed { // in one that is unchanged, there is nothing of oacp
		files = slices.DeleteFunc(slices.Clone(files), func(f setupFile) bool { return f.Action == setup.Unchanged })
	}
	for _, f := range files {
		fmt.Fprintf(s.Out, "  %s%s: %s (%s)\n", would, f.Action, visible.Line(f.Path), strings.Join(f.Parts, ", "))
		if f.Backup != "" && f.Action != setup.Unchanged {
			fmt.Fprintf(s.Out, "    backup: %s\n", visible.Line(f.Backup))
		}
	}
	if len(files) == 0 {
		fmt.Fprintln(s.Out, "  nothing to remove")
	}
	for _, text := range a.Notes {
		s.Note(text)
	}
	for _, text := range a.Confirm {
		fmt.Fprintf(s.Out, "  confirm: %s\n", visible.Line(text))
	}
	if a.Next != "" {
		fmt.Fprintf(s.Out, "  next: %s\n", visible.Line(a.Next))
	}
}

// printDiff prints the lines that are only in the new or the old files of a plan. The others may hold keys.
func printDiff(c *call, plan *setup.Plan) {
	for _, change := range plan.Changes {
		before, after := linesOf(change.Path, change.Before), linesOf(change.Path, change.After)
		more := make(map[string]int) // how many more of a line there are in the new file
		for line := range strings.Lines(after) {
			more[line]++
		}
		for line := range strings.Lines(before) {
			if more[line]--; more[line] < 0 {
				c.printf("-%s", visible.Lines(line))
			}
		}
		for line := range strings.Lines(after) {
			if more[line] > 0 {
				more[line]--
				c.printf("+%s", visible.Lines(line))
			}
		}
	}
}

// linesOf returns a file with each value of JSON on a line of its own.
func linesOf(path string, data []byte) string {
	var indented bytes.Buffer
	if filepath.Ext(path) != ".json" || json.Indent(&indented, bytes.TrimPrefix(data, []byte("\ufeff")), "", "  ") != nil {
		return string(data)
	}
	return strings.ReplaceAll(strings.TrimSpace(indented.String())+"\n", ",\n", "\n")
}
