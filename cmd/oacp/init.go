package main

import (
	"cmp"
	"context"
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

// defaultAgents are the agents of a new workspace if --agents is missing.
const defaultAgents = "claude,codex,cursor"

func newInitCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "init",
		Category:  command.CategoryWorkspace,
		Usage:     "create a workspace",
		ArgsUsage: "[PROJECT] [--agents A,B]",
		Description: `init creates a workspace in the current folder, or for a PROJECT below
$OACP_HOME/projects. init keeps existing files, so you can run it again, for example to
add agents. In a git repository it says how to commit the workspace.

With --git the workspace is the folder .oacp of the git repository around the current
folder, unless you name another one. It has a git repository of its own, synced with a
branch of a remote. If the branch exists, you join it; oacp sync exchanges mail.

EXAMPLES:
   oacp init --agents claude,codex
   oacp init --git
   oacp init my-project`,
		Flags: flagsWith(
			&cli.StringFlag{Name: "agents", Usage: "create mailboxes for `A,B,…`; \"\" for none", DefaultText: defaultAgents + " in a new workspace", Value: defaultAgents},
			&cli.BoolFlag{Name: "git", Usage: "exchange mail with other machines through git"},
			&cli.StringFlag{Name: "remote", Usage: "sync with `REMOTE`, a URL or a remote of the repository (default: that of the branch, then origin)"},
			&cli.StringFlag{Name: "branch", Usage: "sync with the branch `NAME` of the remote (default oacp)"},
			&cli.BoolFlag{Name: "all", Category: command.Rare, Usage: "take all mail of the branch; by default, what is pending and the last week"},
			&cli.BoolFlag{Name: "pending", Category: command.Rare, Usage: "take only pending mail, as for a CI job"},
			&cli.StringFlag{Name: "ref", Category: command.Rare, Usage: "sync with `REF` of the remote, such as refs/oacp/mail, instead of a branch"}),
		Action: ofProject(s, runInit),
	}
}

// checkInit returns an error if the flags contradict each other.
func checkInit(c *call) error {
	for _, name := range []string{"remote", "branch", "ref", "all", "pending"} {
		switch {
		case c.isSet(name) && !c.isOn("git"):
			return failure.Usagef("--%s needs --git", name)
		case c.isSet(name) && fmt.Sprint(c.flags.Value(name)) == "":
			return failure.Usagef("--%s is empty", name)
		}
	}
	switch {
	case c.place.Dir != "" && c.place.Project != "":
		return failure.Usagef("a project and --dir are mutually exclusive")
	case c.isOn("all") && c.isOn("pending"):
		return failure.Usagef("--all and --pending are mutually exclusive")
	case c.text("branch") != "" && c.text("ref") != "":
		return failure.Usagef("--branch and --ref are mutually exclusive")
	}
	return nil
}

func runInit(c *call) error {
	if err := checkInit(c); err != nil {
		return err
	}
	options, err := initOptions(c)
	if err != nil {
		return err
	}
	dir, err := initFolder(c)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return err
	}
	warnings, err := checkPlace(c, dir)
	if err != nil {
		return err
	}
	var joining *gitInitialized
	if c.isOn("git") {
		defer c.catchSignals()()
		if joining, err = initGit(c, dir, &options); err != nil {
			return cmp.Or(context.Cause(c.ctx), err)
		}
	}
	made, err := project.Init(dir, options)
	if err == nil && joining != nil && joining.Joined {
		err = command.Workspace{Dir: dir}.With(c.Streams, nil, func(w *mailbox.Workspace) error { return joining.sync(c, w) })
	}
	if err == nil {
		err = printMade(c, dir, made, joining, warnings, nextSteps(c, dir, made)...)
	}
	return err
}

// initOptions returns what the flags say about the workspace, except its folder.
func initOptions(c *call) (options project.InitOptions, err error) {
	options = project.InitOptions{Project: c.place.Project, AgentsIfNew: !c.isSet("agents"), Now: c.Now()}
	for name := range strings.SplitSeq(c.text("agents"), ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		agent, err := schema.ParseAgentName(name)
		if err != nil {
			return options, err
		}
		options.Agents = append(options.Agents, agent)
	}
	return options, nil
}

// initFolder returns the folder for the workspace.
func initFolder(c *call) (string, error) {
	switch {
	case c.place.Dir != "":
		return c.place.Place(c.Streams).Find()
	case c.place.Project != "":
		return c.place.Place(c.Streams).ProjectDir()
	case c.isOn("git"):
		return gitFolder(c.Dir)
	}
	return c.Dir, nil
}

// checkPlace returns an error if the workspace cannot be in the folder, and warnings if commands in the
// working folder use another one.
func checkPlace(c *call, dir string) (warnings []string, err error) {
	if c.place.Project != "" {
		return nil, nil // the folder is below a home
	}
	if err := project.CheckFree(dir); err != nil || c.place.Dir != "" {
		return nil, err
	}
	if named := c.Getenv("OACP_WORKSPACE"); named != "" && !sameFolder(named, dir) {
		warnings = append(warnings, "commands use the workspace that OACP_WORKSPACE names, "+named)
	}
	found, err := project.Around(c.Dir)
	switch {
	case err != nil || sameFolder(found, dir):
		return warnings, nil // there is none, or this one
	case !c.isOn("git"):
		return nil, fmt.Errorf("cannot create a workspace in %s: %w, %s", dir, project.ErrNested, found)
	}
	return append(warnings, fmt.Sprintf("the workspace %s stays as it is, with its mail; %s gives that one a repository", found,
		visible.ShellCommand("oacp", "init", "--git", "--dir", found))), nil
}

// nextSteps says what the user can do about git with a new workspace in a repository.
func nextSteps(c *call, dir string, made []string) []string {
	top, err := git.Top(dir)
	if err != nil || top == "" || c.isOn("git") || !slices.Contains(made, filepath.Join(dir, schema.MarkerName)) {
		return nil
	}
	commit := []string{"oacp", "commit"}
	if c.place.Dir != "" {
		commit = append(commit, "--dir", c.place.Dir)
	}
	return []string{visible.ShellCommand(commit...) + " commits it with the code, and later its new messages"}
}

// printMade prints what init or add-agent made, and what the user can do next.
func printMade(c *call, workspace string, made []string, joined *gitInitialized, warnings []string, next ...string) error {
	if joined != nil {
		warnings = append(warnings, joined.warnings...)
	}
	for _, warning := range warnings {
		c.Warn(warning)
	}
	return c.answer(struct {
		Workspace string          `json:"workspace"`
		Made      []string        `json:"made"`
		Git       *gitInitialized `json:"git,omitempty"`
		Warnings  []string        `json:"warnings,omitempty"`
		Next      []string        `json:"next,omitempty"`
	}{workspace, append([]string{}, made...), joined, warnings, next}, func() {
		c.printf("OK: %s\n", visible.Line(workspace))
		for _, path := range made {
			if below, err := filepath.Rel(workspace, path); err == nil {
				path = below
			}
			c.printf("  made: %s\n", visible.Line(path))
		}
		if joined != nil {
			joined.print(c)
		} else if len(made) == 0 {
			c.printf("  everything was there\n")
		}
		for _, text := range next {
			c.printf("  next: %s\n", visible.Line(text))
		}
	})
}
