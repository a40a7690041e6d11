package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

type initOptions struct {
	workspace          command.Workspace
	agents, repository string
	agentsGiven        bool
	links              cli.StringSlice
	git                gitOptions
	json               bool
}

// defaultAgents are those of a workspace whose maker names none.
const defaultAgents = "claude,codex,cursor"

func newInitCommand(s *command.Streams) *cli.Command {
	var o initOptions
	return &cli.Command{
		Name:      "init",
		Category:  command.CategoryWorkspace,
		Usage:     "create a workspace",
		ArgsUsage: "[PROJECT] [--agents A,B]",
		Description: `init creates a workspace in the current folder, or for a PROJECT below
$OACP_HOME/projects. A project also gets the folders that other tools expect: memory,
packets, checkpoints, artifacts, and a config.yaml for each agent. init keeps existing
files, so you can run it again, for example to add agents. In a git repository it says
how to commit the workspace, and how to keep it out of git.

With --git the workspace is the folder .oacp of the git repository around the current
folder, unless another one is named, and has a git repository of its own, in step with
a branch of a remote. Where others have begun, you join them; oacp sync exchanges mail.

EXAMPLES:
   oacp init --agents claude,codex
   oacp init --git
   oacp init my-project --repo ~/src/my-project`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agents", Usage: "create mailboxes for `A,B,…`; \"\" for none", DefaultText: defaultAgents + " in a new workspace", Value: defaultAgents, Destination: &o.agents},
			&cli.BoolFlag{Name: "git", Usage: "exchange the mail with other machines, with git", Destination: &o.git.on},
			&cli.StringFlag{Name: "remote", Usage: "through `REMOTE`, a URL or a remote of the repository (default: that of the branch, then origin)", Destination: &o.git.remote},
			&cli.StringFlag{Name: "branch", Usage: "through the branch `NAME` of the remote (default oacp)", Destination: &o.git.branch},
			&cli.BoolFlag{Name: "all", Category: command.Rare, Usage: "take all mail of the branch; by default, what is pending and the last week", Destination: &o.git.all},
			&cli.BoolFlag{Name: "pending", Category: command.Rare, Usage: "take only pending mail, as for a CI job", Destination: &o.git.pending},
			&cli.StringFlag{Name: "ref", Category: command.Rare, Usage: "through `REF` of the remote, such as refs/oacp/mail, not a branch", Destination: &o.git.ref},
			&cli.StringFlag{Name: "repo", Category: command.Rare, Usage: "record `PATH` as the repository in workspace.json", Destination: &o.repository},
			&cli.StringSliceFlag{Name: "link", Category: command.Rare, Usage: "`SOURCE:NAME` links artifacts/NAME to SOURCE in the repository; requires --repo", Destination: &o.links},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: o.workspace.OfProject(func(c *cli.Context) error {
			if o.workspace.Dir != "" && o.workspace.Project != "" {
				return failure.Usagef("a project and --dir are mutually exclusive")
			}
			if err := o.git.check(c); err != nil {
				return err
			}
			o.agentsGiven = c.IsSet("agents")
			return runInit(c.Context, o, s)
		}),
	}
}

func runInit(ctx context.Context, o initOptions, s *command.Streams) error {
	options, err := o.project(s)
	if err != nil {
		return err
	}
	dir, err := o.folder(s)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return err
	}
	warnings, err := o.checkPlace(s, dir)
	if err != nil {
		return err
	}
	var joining *gitInitialized
	if o.git.on {
		var stop func()
		ctx, stop = command.UntilSignal(ctx)
		defer stop()
		if joining, err = o.initGit(ctx, s, dir, &options); err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
	}
	made, err := project.Init(dir, options)
	made.Warnings = append(made.Warnings, warnings...)
	if err == nil && joining != nil && joining.Joined {
		err = command.Workspace{Dir: dir}.With(s, nil, func(w *mailbox.Workspace) error { return joining.sync(ctx, w, s) })
	}
	if err == nil {
		err = printMade(s, o.json, dir, made, joining, o.next(s, dir, made)...)
	}
	if err == nil && options.Repository != "" && !o.json {
		fmt.Fprintf(s.Out, "  with a link, commands in the repository find the workspace: %s\n", visible.Shell(
			"ln", "-sf", filepath.Join(dir, schema.MarkerName), filepath.Join(options.Repository, ".oacp")))
	}
	return err
}

// project returns what the flags say about the workspace, except its folder.
func (o *initOptions) project(s *command.Streams) (options project.InitOptions, err error) {
	options = project.InitOptions{
		Project: o.workspace.Project, ProjectFolders: o.workspace.Project != "", AgentsIfNew: !o.agentsGiven, Now: s.Now(),
	}
	if options.Agents, err = parseAgents(o.agents); err != nil {
		return options, err
	}
	for _, text := range o.links.Value() {
		link, err := project.ParseLink(text)
		if err != nil {
			return options, failure.Usagef("--link: %w", err)
		}
		options.Links = append(options.Links, link)
	}
	if o.repository != "" {
		if options.Repository, err = o.repositoryPath(); err != nil {
			return options, err
		}
	} else if len(options.Links) > 0 {
		return options, failure.WithHint(errors.New("--link requires --repo"), "a link leads from artifacts to a file or folder of the repository")
	}
	return options, nil
}

// parseAgents reads a list of names with commas between them.
func parseAgents(list string) (agents []schema.AgentName, err error) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		agent, err := schema.ParseAgentName(name)
		if err != nil {
			return nil, err
		}
		agents = append(agents, agent)
	}
	return agents, nil
}

// repositoryPath returns the absolute path of --repo without links.
func (o *initOptions) repositoryPath() (string, error) {
	path, err := project.ExpandHome(o.repository)
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	return path, nil
}

// folder returns where the workspace is to be.
func (o *initOptions) folder(s *command.Streams) (string, error) {
	switch {
	case o.workspace.Dir != "":
		return o.workspace.Place(s).Find()
	case o.workspace.Project != "":
		return o.workspace.Place(s).ProjectDir()
	case o.git.on:
		return gitFolder(s.Dir)
	}
	return s.Dir, nil
}

// checkPlace returns an error if the workspace cannot be in the folder, and warnings if commands in the
// working folder use another one.
func (o *initOptions) checkPlace(s *command.Streams, dir string) (warnings []string, err error) {
	if o.workspace.Project != "" {
		return nil, nil // the folder is below a home
	}
	if err := project.CheckFree(dir); err != nil || o.workspace.Dir != "" {
		return nil, err
	}
	if named := s.Getenv("OACP_WORKSPACE"); named != "" && !sameFolder(named, dir) {
		warnings = append(warnings, "commands use the workspace that OACP_WORKSPACE names, "+named)
	}
	found, err := workspaceAround(s.Dir)
	switch {
	case err != nil || sameFolder(found, dir):
		return warnings, nil // there is none, or this one
	case !o.git.on:
		return nil, fmt.Errorf("no workspace is made in %s: %w, %s", dir, project.ErrNested, found)
	}
	return append(warnings, fmt.Sprintf("the workspace %s stays as it is, with its mail; %s gives that one a repository", found,
		visible.Shell("oacp", "init", "--git", "--dir", found))), nil
}

// next says what the user can do about git with a new workspace in a repository.
func (o *initOptions) next(s *command.Streams, dir string, made project.Made) (next []string) {
	top, err := git.Top(dir)
	if err != nil || top == "" || o.git.on || !slices.Contains(made.Paths, filepath.Join(dir, schema.MarkerName)) {
		return nil
	}
	commit := []string{"oacp", "commit"}
	if o.workspace.Dir != "" {
		commit = append(commit, "--dir", o.workspace.Dir)
	}
	next = []string{visible.Shell(commit...) + " commits it with the code, and later its new messages"}
	below, err := filepath.Rel(top, dir)
	if around, aroundErr := git.Top(s.Dir); err != nil || aroundErr != nil || around != top {
		return next
	}
	patterns := []string{"/" + filepath.ToSlash(below) + "/"}
	if below == "." {
		patterns = []string{"/agents/"}
		for _, name := range []string{schema.MarkerName, ".gitattributes"} {
			if slices.Contains(made.Paths, filepath.Join(dir, name)) {
				patterns = append(patterns, "/"+name)
			}
		}
	}
	return append(next, visible.Shell(append([]string{"printf", `%s\n`}, patterns...)...)+
		` >> "$(git rev-parse --git-path info/exclude)" keeps it out of git`)
}

// printMade says what init and add-agent made, and what the user can do next.
func printMade(s *command.Streams, asJSON bool, workspace string, made project.Made, git *gitInitialized, next ...string) error {
	if git != nil {
		made.Warnings = append(made.Warnings, git.warnings...)
	}
	for _, warning := range made.Warnings {
		s.Warn(warning)
	}
	return s.Answer(asJSON, struct {
		Workspace string          `json:"workspace"`
		Made      []string        `json:"made"`
		Git       *gitInitialized `json:"git,omitempty"`
		Warnings  []string        `json:"warnings,omitempty"`
		Next      []string        `json:"next,omitempty"`
	}{workspace, append([]string{}, made.Paths...), git, made.Warnings, next}, func() {
		fmt.Fprintf(s.Out, "OK: %s\n", visible.Line(workspace))
		for _, path := range made.Paths {
			if below, err := filepath.Rel(workspace, path); err == nil {
				path = below
			}
			fmt.Fprintf(s.Out, "  made: %s\n", visible.Line(path))
		}
		if git != nil {
			git.print(s.Out)
		} else if len(made.Paths) == 0 {
			fmt.Fprintln(s.Out, "  everything was there")
		}
		for _, text := range next {
			fmt.Fprintf(s.Out, "  next: %s\n", visible.Line(text))
		}
	})
}
