package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/sibling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/live/setup"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// A setupCall is a call of setup.
type setupCall struct {
	*call
	user, commit, dryRun, remove bool
	program                      live.Program
}

func newSetupCommand(s *command.Streams) *cli.Command {
	c := &setupCall{call: newCall(s)}
	return &cli.Command{
		Name:      "setup",
		Category:  command.CategoryTurns,
		Usage:     "connect claude or codex",
		ArgsUsage: "claude|codex",
		Description: `setup brings mail into the sessions of claude or codex that you work in. It adds to
their settings hooks that report new mail and the MCP server oacp mcp, with the
permission to use its tools, and writes a few lines into CLAUDE.md or AGENTS.md. This
is for sessions in this project, or with --user for all of your sessions. The files
keep everything else. If one of them cannot be read or written, setup changes nothing.
Git ignores the files that setup makes in a repository, unless you want to --commit
them. If you run setup again with other options, it replaces what it wrote.

EXAMPLES:
   oacp setup claude
   oacp setup codex --agent reviewer --dry-run`,
		Flags: []cli.Flag{
			c.agentFlag("sessions act for `AGENT` (default: the name of the program)"),
			&cli.BoolFlag{Name: "user", Usage: "set up all of your sessions, wherever they find a workspace", Destination: &c.user},
			c.sessionSync(),
			&cli.BoolFlag{Name: "commit", Usage: "let git see the files that setup makes, to commit them with the code", Destination: &c.commit},
			&cli.BoolFlag{Name: "dry-run", Usage: "name the changes and write nothing", Destination: &c.dryRun},
			&cli.BoolFlag{Name: "remove", Usage: "remove what setup wrote", Destination: &c.remove},
			c.jsonFlag(),
		},
		Action: c.action(1, c.run),
	}
}

// run opens the workspace of the project. The setup for all sessions of the user needs none.
func (c *setupCall) run() error {
	name, err := c.only(failure.Usagef("needs the program: claude or codex"))
	c.program = live.Program(name)
	switch {
	case err != nil:
		return err
	case !slices.Contains(live.Programs(), c.program):
		return failure.Usagef("%s has no setup", visible.Quote(name)).WithHint("the programs are claude and codex")
	case c.remove && (c.agent != "" || c.sync.IsSet() || c.commit):
		return failure.Usagef("--remove removes everything, so --agent, --commit and --sync have no effect")
	case c.user && c.commit:
		return failure.Usagef("--user changes no repository, so --commit has no effect")
	}
	if c.user {
		return c.setUp(nil)
	}
	err = c.with(nil, c.setUp)
	if c.remove && errors.Is(err, mailbox.ErrNoWorkspace) { // the workspace was removed before its setup
		return c.setUp(nil)
	}
	return err
}

// options returns what to set up, and whether the oacp on the PATH is this program.
func (c *setupCall) options(w *mailbox.Workspace) (options setup.Options, onPath bool, err error) {
	options = setup.Options{Program: c.program, Scope: setup.User, Sync: c.sync.String(), Commit: c.commit, Workspace: w, Getenv: c.Getenv}
	if options.Agent, err = schema.ParseAgentName(cmp.Or(string(c.agent), string(c.program))); err != nil {
		return options, false, err
	}
	if !c.user {
		options.Scope = setup.Project
		if options.Dir, err = setup.ProjectDir(c.program, c.Dir); err == nil && !c.remove {
			err = w.CheckAgent(options.Agent)
		}
		if err != nil {
			return options, false, err
		}
	}
	options.Command, onPath, err = ownCommand()
	return options, onPath, err
}

func (c *setupCall) setUp(w *mailbox.Workspace) error {
	options, onPath, err := c.options(w)
	if err != nil {
		return err
	}
	prepare := setup.Prepare
	if c.remove {
		prepare = setup.PrepareRemoval
	}
	plan, err := prepare(options)
	if err == nil && !c.dryRun {
		err = plan.Apply()
	}
	if err != nil {
		return err
	}
	a := setupAnswer{
		Program: c.program, Scope: options.Scope, Project: options.Dir, DryRun: c.dryRun, Files: plan.Changes, removed: c.remove,
	}
	if a.removed {
		a.addRemoval(plan, options)
	} else {
		a.addSetup(plan, options, c.Dir, onPath)
	}
	return c.answer(a, func() { a.print(c.Streams) })
}

// ownCommand returns the word with which hooks call this program, and whether it is the oacp on the PATH.
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
	Files   []setup.Change   `json:"files"`
	// Confirm lists what the user has to confirm, and Next is the next step.
	Confirm []string `json:"confirm,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	Next    string   `json:"next,omitempty"`
	removed bool
}

// addRemoval adds what the user should know after a removal.
func (a *setupAnswer) addRemoval(plan *setup.Plan, options setup.Options) {
	if path := options.Plugin(); path != "" {
		a.Notes = []string{"the plugin is still enabled in " + path}
	}
	if !plan.IsEmpty() {
		a.Notes = append(a.Notes, "open sessions keep the hooks and tools until they end")
		return
	}
	if options.Scope == setup.Project {
		a.Next = fmt.Sprintf("oacp setup %s --user --remove removes the setup for all of your sessions", options.Program)
	}
}

// addSetup adds what the user should know after a setup.
func (a *setupAnswer) addSetup(plan *setup.Plan, options setup.Options, workingDir string, onPath bool) {
	note := func(format string, args ...any) { a.Notes = append(a.Notes, fmt.Sprintf(format, args...)) }
	a.Agent = options.Agent
	if !onPath {
		note("the hooks call %s, because that is not the oacp on the PATH", options.Command)
	}
	if sibling.Find("mcp") == "" {
		note("sessions have no tools until oacp-mcp is installed: it is neither next to oacp nor on the PATH")
	}
	if _, err := exec.LookPath(string(options.Program)); err != nil {
		note("%s is not on the PATH", options.Program)
	}
	if path := options.Plugin(); path != "" {
		note("the plugin is enabled in %s: it leaves these sessions to this setup", path)
	}
	for _, obstacle := range options.Obstacles() {
		note("%s", obstacle)
	}
	start := "start " + string(options.Program)
	if options.Scope == setup.Project {
		dir := options.Dir
		if !findsWorkspace(dir, options.Workspace) {
			dir = workingDir // the workspace is further down
		}
		if !findsWorkspace(dir, options.Workspace) {
			note("sessions find the workspace only if OACP_WORKSPACE is %s where they start", options.Workspace.Dir())
		}
		start += " in " + dir
	}
	a.Next = start + "; oacp doctor checks the setup"
	if plan.IsEmpty() {
		return
	}
	if options.Program == live.Claude {
		note("sessions of claude that are open have no tools until you restart them")
		return
	}
	if options.Scope == setup.Project {
		a.Confirm = append(a.Confirm, "codex asks whether you trust the folder, and reads its settings only if you do")
	}
	a.Confirm = append(a.Confirm, "codex asks you to review the hooks, when it starts or at the first prompt: answer 2, trust all; if the prompt was lost, type it again")
}

// findsWorkspace reports whether a session that starts in a folder finds the workspace.
func findsWorkspace(dir string, w *mailbox.Workspace) bool {
	found, err := project.Around(dir)
	return err == nil && project.SameFolder(found, w.Dir())
}

// print prints a line for each file.
func (a setupAnswer) print(s *command.Streams) {
	begin, would := "OK:", ""
	if a.DryRun {
		begin, would = "dry run, nothing is written:", "would be "
	}
	what, where := "acts for agent "+string(a.Agent), cmp.Or(a.Project, "all of your sessions")
	if a.removed {
		what = "is without oacp"
	}
	s.Printf("%s %s %s in %s\n", begin, a.Program, what, visible.Line(where))
	files := a.Files
	if a.removed { // an unchanged file has nothing of oacp
		files = slices.DeleteFunc(slices.Clone(files), func(f setup.Change) bool { return f.Action == setup.Unchanged })
	}
	for _, f := range files {
		s.Printf("  %s%s: %s (%s)\n", would, f.Action, visible.Line(f.Path), strings.Join(f.Parts, ", "))
	}
	if len(files) == 0 {
		s.Printf("  nothing to remove\n")
	}
	for _, text := range a.Notes {
		s.Note(text)
	}
	for _, text := range a.Confirm {
		s.Printf("  confirm: %s\n", visible.Line(text))
	}
	if a.Next != "" {
		s.Printf("  next: %s\n", visible.Line(a.Next))
	}
}
