package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/live/setup"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

type setupOptions struct {
	agent                               string
	user, project, dryRun, remove, json bool
	sync                                command.Sync
}

func newSetupCommand(s *command.Streams) *cli.Command {
	var o setupOptions
	return &cli.Command{
		Name:      "setup",
		Category:  command.CategoryTurns,
		Usage:     "connect claude or codex",
		ArgsUsage: "claude|codex",
		Description: `Brings mail into the sessions of claude or codex that you work in. setup adds to
their settings hooks that report new mail, the MCP server oacp mcp with the
permission to use its tools, and a few lines in CLAUDE.md or AGENTS.md. This is for
sessions in this project, or with --user for all of your sessions. The files keep
everything else. If one cannot be read or written, setup changes nothing. A second
run changes only what its options change. --remove takes everything out again.

EXAMPLES:
   oacp setup claude
   oacp setup codex --agent reviewer --dry-run`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "sessions act for `AGENT` (default: the one named like the program)", Destination: &o.agent},
			&cli.BoolFlag{Name: "user", Usage: "for all of your sessions, wherever they find a workspace", Destination: &o.user},
			&cli.BoolFlag{Name: "project", Category: command.Rare, Usage: "for sessions in this project (default)", Destination: &o.project},
			sessionSync(&o.sync),
			&cli.BoolFlag{Name: "dry-run", Usage: "show the changes and write nothing", Destination: &o.dryRun},
			&cli.BoolFlag{Name: "remove", Usage: "remove what setup wrote", Destination: &o.remove},
			command.JSONFlag(&o.json),
		},
		Action: func(c *cli.Context) error {
			program, err := o.check(command.Positionals(c))
			if err != nil {
				return err
			}
			return runSetup(o, program, s)
		},
	}
}

// check checks the command line and returns the program.
func (o *setupOptions) check(args []string) (live.Program, error) {
	switch {
	case len(args) == 0:
		return "", failure.Usagef("needs the program: claude or codex")
	case len(args) > 1:
		return "", failure.Usagef("unexpected argument %s", visible.Quote(args[1]))
	case !slices.Contains(live.Programs(), live.Program(args[0])):
		return "", failure.Usagef("%s has no setup", visible.Quote(args[0])).WithHint("the programs are claude and codex")
	case o.user && o.project:
		return "", failure.Usagef("--user and --project exclude each other")
	case o.remove && (o.agent != "" || o.sync.IsSet()):
		return "", failure.Usagef("--remove takes out everything: --agent and --sync are of no use with it")
	}
	return live.Program(args[0]), o.sync.Check()
}

func runSetup(o setupOptions, program live.Program, s *command.Streams) (err error) {
	agent, err := schema.ParseAgentName(cmp.Or(o.agent, string(program)))
	if err != nil {
		return err
	}
	options := setup.Options{Program: program, Scope: setup.User, Agent: agent, Sync: o.sync.String(), Getenv: s.Getenv}
	if !o.user {
		options.Scope = setup.Project
		w, err := command.Open(command.Workspace{}.Place(s), nil)
		switch {
		case o.remove && errors.Is(err, mailbox.ErrNoWorkspace): // it went before its setup
		case err != nil:
			return err
		default:
			defer func() { err = errors.Join(err, w.Close()) }()
			options.Workspace = w
		}
		if !o.remove {
			if err := w.CheckAgent(agent); err != nil {
				return err
			}
		}
		if options.Dir, err = setup.ProjectDir(program, s.Dir); err != nil {
			return err
		}
	}
	onPath := true
	if options.Command, onPath, err = ownCommand(s); err != nil {
		return err
	}
	prepare := setup.Prepare
	if o.remove {
		prepare = setup.PrepareRemoval
	}
	plan, err := prepare(options)
	if err != nil {
		return err
	}
	if !o.dryRun {
		if err := plan.Apply(); err != nil {
			return err
		}
	}
	answer := o.answer(plan, options, s.Dir, onPath)
	if o.json {
		return command.WriteJSON(s.Out, answer)
	}
	answer.print(s)
	if o.dryRun {
		printDiff(s.Out, plan)
	}
	return nil
}

// ownCommand returns how hooks call this program.
func ownCommand(s *command.Streams) (word string, onPath bool, err error) {
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

func (o setupOptions) answer(plan *setup.Plan, options setup.Options, workingDir string, onPath bool) setupAnswer {
	a := setupAnswer{
		Program: options.Program, Scope: options.Scope, Agent: options.Agent, Project: options.Dir, DryRun: o.dryRun, Files: []setupFile{}, removed: o.remove,
	}
	for _, c := range plan.Changes {
		a.Files = append(a.Files, setupFile{c.Path, c.Action, c.Parts, c.Backup})
	}
	if o.remove {
		if a.Agent = ""; !plan.IsEmpty() {
			a.Confirm = []string{"open sessions keep the hooks and tools until they end"}
		}
		return a
	}
	if !onPath {
		a.Notes = append(a.Notes, "the PATH does not lead to this program, so the hooks have its path: "+options.Command)
	}
	if command.FindSeparate("mcp") == "" {
		a.Notes = append(a.Notes, "the program oacp-mcp is neither beside oacp nor on the PATH, so sessions have no tools until it is installed")
	}
	if _, err := exec.LookPath(string(options.Program)); err != nil {
		a.Notes = append(a.Notes, string(options.Program)+" is not on the PATH")
	}
	where := "start " + string(options.Program)
	if options.Scope == setup.Project {
		start := options.Dir
		if !findsWorkspace(start, options.Workspace) {
			start = workingDir // it is further down
		}
		if !findsWorkspace(start, options.Workspace) {
			a.Notes = append(a.Notes, "sessions find the workspace only if OACP_WORKSPACE is "+options.Workspace.Dir()+" where they start")
		}
		where += " in " + start
	}
	a.Next = where + "; oacp doctor checks the setup"
	if plan.IsEmpty() {
		return a
	}
	if options.Program == live.Codex {
		if options.Scope == setup.Project {
			a.Confirm = append(a.Confirm, "codex reads settings of a project only if you trust its folder, for which it asks when it starts there")
		}
		a.Confirm = append(a.Confirm, "codex asks you to review the hooks, when it starts or at the first prompt: answer 2, trust all, and type a prompt again that was lost")
	} else {
		a.Confirm = append(a.Confirm, "restart open sessions: they do not have the tools")
	}
	return a
}

// findsWorkspace reports whether a session that starts in a folder finds the workspace.
func findsWorkspace(dir string, w *mailbox.Workspace) bool {
	found, err := project.Place{WorkingDir: dir, Getenv: func(string) string { return "" }}.Find()
	return err == nil && sameFolder(found, w.Dir())
}

// print says what was done, a line for each file.
func (a setupAnswer) print(s *command.Streams) {
	what := fmt.Sprintf("%s acts for agent %s", a.Program, a.Agent)
	if a.removed {
		what = fmt.Sprintf("%s is without oacp", a.Program)
	}
	where := "in all of your sessions"
	if a.Scope == setup.Project {
		where = "in " + a.Project
	}
	begin := "OK: "
	if a.DryRun {
		begin = "would be: "
	}
	fmt.Fprintf(s.Out, "%s%s %s\n", begin, what, visible.Line(where))
	for _, f := range a.Files {
		if a.removed && f.Action == setup.Unchanged {
			continue // nothing of oacp is in it
		}
		fmt.Fprintf(s.Out, "  %s: %s (%s)\n", f.Action, visible.Line(f.Path), strings.Join(f.Parts, ", "))
		if f.Backup != "" && f.Action != setup.Unchanged {
			fmt.Fprintf(s.Out, "    as it was: %s\n", visible.Line(f.Backup))
		}
	}
	if a.removed && len(a.Confirm) == 0 {
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

// printDiff shows what a plan changes.
func printDiff(out io.Writer, plan *setup.Plan) {
	for _, c := range plan.Changes {
		text := diff.Diff(c.Path, c.Before, c.Path, c.After)
		_, shown, _ := strings.Cut(string(text), "\n")
		fmt.Fprint(out, visible.Lines(shown))
	}
}
