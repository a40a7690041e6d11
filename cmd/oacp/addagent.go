package main

import (
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

type addAgentOptions struct {
	workspace command.Workspace
	agent     string
	runtime   string
	json      bool
}

func newAddAgentCommand(s *command.Streams) *cli.Command {
	var o addAgentOptions
	runtimes := strings.Join(project.Runtimes, ", ")
	return &cli.Command{
		Name:      "add-agent",
		Category:  command.CategoryWorkspace,
		Usage:     "add an agent's mailbox",
		ArgsUsage: "[PROJECT] NAME",
		Description: `With --runtime, add-agent also writes a card and a status file. Commands that run in
that runtime read the card to find out which agent they act for. The model and the
description come from agents/NAME/profile.yaml in the home, if it exists. add-agent
keeps existing files. oacp remove-agent removes an agent.

EXAMPLES:
   oacp add-agent reviewer
   oacp add-agent my-project codex --runtime codex`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "runtime", Usage: "the agent runs in `RUNTIME`: " + runtimes, Destination: &o.runtime},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			args := command.Positionals(c)
			if len(args) == 0 {
				return failure.Usagef("needs the name of the agent")
			}
			o.agent = args[len(args)-1]
			if err := o.workspace.TakeProject(args[:len(args)-1]); err != nil {
				return err
			}
			if o.runtime != "" && !slices.Contains(project.Runtimes, o.runtime) {
				return failure.Usagef("--runtime: there is no runtime %s", visible.Quote(o.runtime)).
					WithHint("the runtimes are " + runtimes)
			}
			return runAddAgent(o, s)
		},
	}
}

func runAddAgent(o addAgentOptions, s *command.Streams) error {
	agent, err := schema.ParseAgentName(o.agent)
	if err != nil {
		return err
	}
	options := project.AgentOptions{Runtime: o.runtime, ProjectFolders: o.workspace.Project != "", Now: s.Now()}
	if o.runtime != "" {
		if options.Home, err = o.workspace.Place(s).HomeDir(); err != nil {
			return err
		}
	}
	if o.workspace.Project != "" {
		if err := o.workspace.Place(s).ClaimProject(); err != nil {
			return err
		}
	}
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		made, err := project.AddAgent(w, agent, options)
		if err != nil {
			return err
		}
		return printMade(s, o.json, w.Dir(), made, nil)
	})
}
