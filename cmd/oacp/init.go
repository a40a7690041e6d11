package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

type initOptions struct {
	workspace          command.Workspace
	agents, repository string
	links              cli.StringSlice
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
repository around it, or for a PROJECT below $OACP_HOME/projects. A project also
gets what other tools expect there: memory, packets, checkpoints, artifacts, and a
config.yaml for each agent. Init keeps what exists, so you can run it again, for
example to add agents.

EXAMPLES:
   oacp init --agents claude,codex
   oacp init --git
   oacp init my-project --repo ~/src/my-project`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agents", Usage: "make mailboxes for `A,B,…`; \"\" for none", Value: "claude,codex,cursor", Destination: &o.agents},
			&cli.BoolFlag{Name: "git", Usage: "put the workspace into .oacp of the git repository", Destination: &o.git},
			&cli.StringFlag{Name: "repo", Category: command.Rare, Usage: "write into workspace.json that the repository is `PATH`", Destination: &o.repository},
			&cli.StringSliceFlag{Name: "link", Category: command.Rare, Usage: "`SOURCE:NAME` links artifacts/NAME to SOURCE in the repository; requires --repo", Destination: &o.links},
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
	options := project.InitOptions{Project: o.workspace.Project, ProjectFolders: o.workspace.Project != "", Now: s.Now()}
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
	for _, text := range o.links.Value() {
		link, err := project.ParseLink(text)
		if err != nil {
			return failure.Usagef("--link: %w", err)
		}
		options.Links = append(options.Links, link)
	}
	dir, err := o.folder(s)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err == nil && o.repository != "" {
		options.Repository, err = o.repositoryPath()
	}
	if err == nil && len(options.Links) > 0 && options.Repository == "" {
		err = failure.WithHint(errors.New("--link requires --repo"), "a link leads from artifacts to a file or folder of the repository")
	}
	if err != nil {
		return err
	}
	made, err := project.Init(dir, options)
	if err == nil {
		err = printMade(s, o.json, dir, made)
	}
	if err == nil && options.Repository != "" && !o.git && !o.json {
		fmt.Fprintf(s.Out, "  with a link, commands in the repository find the workspace: %s\n", visible.Shell(
			"ln", "-sf", filepath.Join(dir, project.MarkerName), filepath.Join(options.Repository, ".oacp")))
	}
	return err
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

// folder returns where the workspace is to be. With --git, it also sets the repository.
func (o *initOptions) folder(s *command.Streams) (string, error) {
	switch {
	case o.workspace.Dir != "":
		return o.workspace.Place(s).Find()
	case o.workspace.Project != "":
		return o.workspace.Place(s).ProjectDir()
	case !o.git:
		return s.Dir, nil
	}
	repository, err := bridge.EnclosingRepository(s.Dir)
	if err != nil {
		return "", err
	}
	if repository == "" {
		return "", failure.WithHint(fmt.Errorf("%s is in no git repository", s.Dir), "git init, or leave --git out")
	}
	o.repository = cmp.Or(o.repository, repository)
	return filepath.Join(repository, ".oacp"), nil
}

// printMade says what init and add-agent made.
func printMade(s *command.Streams, asJSON bool, workspace string, made project.Made) error {
	for _, warning := range made.Warnings {
		s.Warn(warning)
	}
	if asJSON {
		return command.WriteJSON(s.Out, struct {
			Workspace string   `json:"workspace"`
			Made      []string `json:"made"`
			Warnings  []string `json:"warnings,omitempty"`
		}{workspace, append([]string{}, made.Paths...), made.Warnings})
	}
	fmt.Fprintf(s.Out, "OK: %s\n", visible.Line(workspace))
	for _, path := range made.Paths {
		if below, err := filepath.Rel(workspace, path); err == nil {
			path = below
		}
		fmt.Fprintf(s.Out, "  made: %s\n", visible.Line(path))
	}
	if len(made.Paths) == 0 {
		fmt.Fprintln(s.Out, "  everything was there")
	}
	return nil
}
