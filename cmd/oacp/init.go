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

// defaultAgents are the agents of a new workspace if --agents is missing.
const defaultAgents = "claude,codex,cursor"

// An initCall is a call of init.
type initCall struct {
	*call
	agents, remote, branch, ref     string
	git, commit, move, all, pending bool
}

func newInitCommand(s *command.Streams) *cli.Command {
	c := &initCall{call: newCall(s)}
	return &cli.Command{
		Name:      "init",
		Category:  command.CategoryWorkspace,
		Usage:     "create a workspace",
		ArgsUsage: "[PROJECT] [--agents A,B]",
		Description: `init creates a workspace in the current folder, or for a PROJECT below
$OACP_HOME/projects. init keeps existing files, so you can run it again, for example to
add agents.

In a git repository the workspace is the folder .oacp at its top, unless you name
another one. The repository of the code ignores it, and it has one of its own, so git
clean leaves the mail alone. --commit makes mailboxes at the top instead, which you
commit with the code.

--git also syncs the workspace with a branch of a remote. If the branch exists, you join
it; oacp sync exchanges mail. A workspace at the top moves into .oacp, with its mail.

EXAMPLES:
   oacp init --agents claude,codex
   oacp init --git
   oacp init --commit
   oacp init my-project`,
		Flags: c.flagsWith(
			&cli.StringFlag{Name: "agents", Usage: "create mailboxes for `A,B,…`; \"\" for none", DefaultText: defaultAgents + " in a new workspace", Value: defaultAgents, Destination: &c.agents},
			&cli.BoolFlag{Name: "git", Usage: "exchange mail with other machines through git", Destination: &c.git},
			&cli.BoolFlag{Name: "commit", Usage: "make mailboxes that are committed with the code", Destination: &c.commit},
			&cli.StringFlag{Name: "remote", Usage: "sync with `REMOTE`, a URL or a remote of the repository (default: that of the branch, then origin)", Destination: &c.remote},
			&cli.StringFlag{Name: "branch", Usage: "sync with the branch `NAME`-3 of the remote (default: oacp-3)", Destination: &c.branch},
			&cli.BoolFlag{Name: "move", Category: command.Rare, Usage: "move the workspace at the top of the repository into .oacp, and do not ask", Destination: &c.move},
			&cli.BoolFlag{Name: "all", Category: command.Rare, Usage: "take all mail of the branch; by default, what is pending and the last week", Destination: &c.all},
			&cli.BoolFlag{Name: "pending", Category: command.Rare, Usage: "take only pending mail, as for a CI job", Destination: &c.pending},
			&cli.StringFlag{Name: "ref", Category: command.Rare, Usage: "sync with `REF` of the remote, such as refs/oacp/mail, instead of a branch", Destination: &c.ref}),
		Action: c.ofProject(c.run),
	}
}

// check returns an error if the flags contradict each other.
func (c *initCall) check() error {
	for _, flag := range []any{&c.remote, &c.branch, &c.ref, &c.all, &c.pending, &c.move} {
		name := c.nameOf(flag)
		switch text, _ := flag.(*string); {
		case c.given(flag) && !c.git:
			return failure.Usagef("--%s needs --git", name)
		case c.given(flag) && text != nil && *text == "":
			return failure.Usagef("--%s is empty", name)
		}
	}
	switch {
	case c.place.Dir != "" && c.place.Project != "":
		return failure.Usagef("a project and --dir are mutually exclusive")
	case c.git && c.commit:
		return failure.Usagef("--git and --commit are mutually exclusive").WithHint("--commit makes mailboxes in the branch of the code, --git in a branch of their own")
	case c.all && c.pending:
		return failure.Usagef("--all and --pending are mutually exclusive")
	case c.branch != "" && c.ref != "":
		return failure.Usagef("--branch and --ref are mutually exclusive")
	}
	return nil
}

func (c *initCall) run() error {
	if err := c.check(); err != nil {
		return err
	}
	options, err := c.options()
	if err != nil {
		return err
	}
	p, err := c.findPlace()
	if err != nil {
		return err
	}
	warnings, err := c.checkPlace(p)
	if err == nil && p.from != "" {
		err = c.moveWorkspace(p)
	}
	if err != nil {
		return err
	}
	var own *gitInitialized
	if p.isRepository {
		defer c.catchSignals()()
		if own, err = c.initGit(p, &options); err != nil {
			return cmp.Or(context.Cause(c.ctx), err)
		}
	}
	made, err := project.Init(p.dir, options)
	if err == nil && own != nil && own.Joined {
		err = command.Workspace{Dir: p.dir}.With(c.Streams, nil, func(w *mailbox.Workspace) error { return own.sync(c.call, w) })
	}
	if err == nil {
		err = c.printMade(p.dir, made, own, warnings, c.nextSteps(p.dir, made)...)
	}
	return err
}

// options returns what the flags say about the workspace, except its folder.
func (c *initCall) options() (options project.InitOptions, err error) {
	options = project.InitOptions{Project: c.place.Project, AgentsIfNew: !c.given(&c.agents), Now: c.Now()}
	for name := range strings.SplitSeq(c.agents, ",") {
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

// checkPlace returns an error if the workspace cannot be in the folder, and warnings if commands in the
// working folder use another one.
func (c *initCall) checkPlace(p initPlace) (warnings []string, err error) {
	if c.place.Project != "" {
		return nil, nil // the folder is below a home
	}
	if err := project.CheckFree(p.dir); err != nil || c.place.Dir != "" {
		return nil, err
	}
	if named := c.Getenv("OACP_WORKSPACE"); named != "" && !project.SameFolder(named, p.dir) {
		warnings = append(warnings, "commands use the workspace that OACP_WORKSPACE names, "+named)
	}
	found, err := project.Around(c.Dir)
	switch {
	case errors.Is(err, project.ErrTwo):
		return nil, err
	case err != nil || project.SameFolder(found, p.dir) || p.from != "":
		return warnings, nil // there is none, or this one, or the one that moves
	case !c.git:
		return nil, fmt.Errorf("cannot create a workspace in %s: %w, %s", p.dir, project.ErrNested, found)
	}
	return append(warnings, fmt.Sprintf("the workspace %s stays as it is, with its mail; %s gives that one a repository", found,
		visible.ShellCommand("oacp", "init", "--git", "--dir", found))), nil
}

// nextSteps says what the user can do about git with a new workspace that is committed with the code.
func (c *initCall) nextSteps(dir string, made []string) []string {
	top, err := git.Top(dir)
	if err != nil || top == "" || !c.commit || !slices.Contains(made, filepath.Join(dir, schema.MarkerName)) {
		return nil
	}
	return []string{c.inPlace("oacp", "commit") + " commits it with the code, and later its new messages"}
}

// inPlace returns a command line for the workspace that the flags name.
func (c *call) inPlace(words ...string) string {
	if c.place.Dir != "" {
		words = append(words, "--dir", c.place.Dir)
	}
	if c.place.Project != "" {
		words = append(words, "--project", c.place.Project)
	}
	return visible.ShellCommand(words...)
}

// printMade prints what init or add-agent made, and what the user can do next.
func (c *call) printMade(workspace string, made []string, joined *gitInitialized, warnings []string, next ...string) error {
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
		c.Printf("OK: %s\n", visible.Line(workspace))
		for _, path := range made {
			if below, err := filepath.Rel(workspace, path); err == nil {
				path = below
			}
			c.Printf("  made: %s\n", visible.Line(path))
		}
		if joined != nil {
			joined.print(c)
		} else if len(made) == 0 {
			c.Printf("  everything was there\n")
		}
		for _, text := range next {
			c.Printf("  next: %s\n", visible.Line(text))
		}
	})
}
