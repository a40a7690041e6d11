package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

type initOptions struct {
	workspace          command.Workspace
	agents, repository string
	git, json          bool
}

func newInitCommand(s *command.Streams) *cli.Command {
	var o initOptions
	return &cli.Command{
		Name:      "init",
		Category:  command.CategoryWorkspace,
		Usage:     "make a workspace",
		ArgsUsage: "[PROJECT] [--agents A,B]",
		Description: `Makes a workspace in the current folder, or with --git in the folder .oacp of the
repository around it, or for a PROJECT below $OACP_HOME/projects. What is there
already stays as it is, so init may be run again, to add agents for example.

EXAMPLES:
   oacp init --agents claude,codex
   oacp init --git
   oacp init my-project --repo ~/src/my-project`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agents", Usage: "make mailboxes for `A,B,…`; \"\" for none", Value: "claude,codex,cursor", Destination: &o.agents},
			&cli.BoolFlag{Name: "git", Usage: "put the workspace into .oacp of the git repository", Destination: &o.git},
			&cli.StringFlag{Name: "repo", Usage: "note that the workspace is for the repository `PATH`", Destination: &o.repository},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			if err := o.workspace.TakeProject(command.Positionals(c)); err != nil {
				return err
			}
			if dir, named := o.workspace.Dir != "", o.workspace.Project != ""; dir && named || o.git && (dir || named) {
				return failure.Usagef("a project, --dir and --git exclude each other")
			}
			return runInit(o, s)
		},
	}
}

func runInit(o initOptions, s *command.Streams) error {
	options := project.InitOptions{Project: o.workspace.Project, Now: s.Now()}
	for name := range strings.SplitSeq(o.agents, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		agent, err := schema.ParseAgentName(name)
		if err != nil {
			return err
		}
		options.Agents = append(options.Agents, agent)
	}
	dir, err := o.folder(s)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err == nil && o.repository != "" {
		options.Repository, err = filepath.Abs(o.repository)
	}
	if err != nil {
		return err
	}
	made, err := project.Init(dir, options)
	if err != nil {
		return err
	}
	return printMade(s, o.json, dir, made)
}

// folder returns where the workspace is to be. With --git, it also sets the repository.
func (o *initOptions) folder(s *command.Streams) (string, error) {
	switch {
	case o.workspace.Dir != "":
		return o.workspace.Dir, nil
	case o.workspace.Project != "":
		return o.workspace.Place(s).ProjectDir()
	case !o.git:
		return s.Dir, nil
	}
	repository, err := enclosingRepository(s.Dir)
	if err != nil {
		return "", err
	}
	o.repository = cmp.Or(o.repository, repository)
	return filepath.Join(repository, ".oacp"), nil
}

// enclosingRepository returns the nearest folder upward that holds .git: a folder, or in worktrees
// and submodules a file.
func enclosingRepository(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		_, err := os.Lstat(filepath.Join(at, ".git"))
		if err == nil {
			return at, nil
		}
		if !errors.Is(err, os.ErrNotExist) || at == filepath.Dir(at) {
			return "", failure.WithHint(fmt.Errorf("%s is in no git repository", dir), "git init, or leave --git out")
		}
	}
}

// printMade says what init and add-agent made.
func printMade(s *command.Streams, asJSON bool, workspace string, made []string) error {
	if asJSON {
		if made == nil {
			made = []string{}
		}
		return command.WriteJSON(s.Out, map[string]any{"workspace": workspace, "made": made})
	}
	fmt.Fprintf(s.Out, "OK: %s\n", visible.Line(workspace))
	for _, path := range made {
		if below, err := filepath.Rel(workspace, path); err == nil {
			path = below
		}
		fmt.Fprintf(s.Out, "  made: %s\n", visible.Line(path))
	}
	if len(made) == 0 {
		fmt.Fprintln(s.Out, "  everything was there")
	}
	return nil
}

func newAddAgentCommand(s *command.Streams) *cli.Command {
	var workspace command.Workspace
	var runtime string
	var asJSON bool
	runtimes := strings.Join(project.Runtimes, ", ")
	return &cli.Command{
		Name:      "add-agent",
		Category:  command.CategoryWorkspace,
		Usage:     "add an agent's mailbox",
		ArgsUsage: "[PROJECT] NAME",
		Description: `With --runtime the agent gets a card and a status file, and commands that run
inside that runtime know by themselves which agent they act for. What is there
already stays as it is.

EXAMPLES:
   oacp add-agent reviewer
   oacp add-agent my-project codex --runtime codex`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "runtime", Usage: "the agent runs in `RUNTIME`: " + runtimes, Destination: &runtime},
			command.JSONFlag(&asJSON),
		}, workspace.Flags()...),
		Action: func(c *cli.Context) error {
			args := command.Positionals(c)
			if len(args) == 0 {
				return failure.Usagef("needs the name of the agent")
			}
			if err := workspace.TakeProject(args[:len(args)-1]); err != nil {
				return err
			}
			if runtime != "" && !slices.Contains(project.Runtimes, runtime) {
				return failure.Usagef("--runtime: there is no runtime %s", visible.Quote(runtime)).
					WithHint("the runtimes are " + runtimes)
			}
			agent, err := schema.ParseAgentName(args[len(args)-1])
			if err != nil {
				return err
			}
			return workspace.With(s, nil, func(w *mailbox.Workspace) error {
				made, err := project.AddAgent(w, agent, runtime, s.Now())
				if err != nil {
					return err
				}
				return printMade(s, asJSON, w.Dir(), made)
			})
		},
	}
}
