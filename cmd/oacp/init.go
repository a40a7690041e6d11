package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

type initOptions struct {
	workspace  command.Workspace
	agents     string
	git        bool
	repository string
	json       bool
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
			places := 0
			for _, given := range []bool{o.git, o.workspace.Dir != "", o.workspace.Project != ""} {
				if given {
					places++
				}
			}
			if places > 1 {
				return failure.Usagef("a project, --dir and --git exclude each other")
			}
			return runInit(o, s)
		},
	}
}

func runInit(o initOptions, s *command.Streams) error {
	agents, err := parseAgents(o.agents)
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
	options := project.InitOptions{Project: o.workspace.Project, Agents: agents, Now: s.Now()}
	if o.repository != "" {
		if options.Repository, err = filepath.Abs(o.repository); err != nil {
			return err
		}
	}
	made, err := project.Init(dir, options)
	if err != nil {
		return err
	}
	return printMade(s, o.json, dir, made)
}

// parseAgents reads a list of agent names; an empty one is none.
func parseAgents(list string) ([]schema.AgentName, error) {
	var agents []schema.AgentName
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

// folder returns where the workspace is to be.
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
	if o.repository == "" {
		o.repository = repository
	}
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
