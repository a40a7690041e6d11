package main

import (
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// workspaceOptions say which workspace a command means.
type workspaceOptions struct {
	dir     string
	home    string
	project string
}

func (o *workspaceOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "dir", Usage: "the workspace is `DIR`", Destination: &o.dir},
		&cli.StringFlag{Name: "project", Usage: "the workspace is that of the project `PROJECT`", Destination: &o.project},
		&cli.StringFlag{Name: "oacp-dir", Usage: "projects are below `DIR` (default $OACP_HOME, then ~/oacp)", Destination: &o.home},
	}
}

// takeProject accepts a project's name as the only argument.
func (o *workspaceOptions) takeProject(args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case len(args) > 1:
		return usageErrorf("unexpected argument %s", quote(args[1]))
	case args[0] == "":
		return usageErrorf("the project name is empty")
	case o.project != "" && o.project != args[0]:
		return usageErrorf("two projects are named, %s and %s", quote(o.project), quote(args[0]))
	}
	o.project = args[0]
	return nil
}

func (o workspaceOptions) place(s *streams) project.Place {
	return project.Place{Dir: o.dir, Project: o.project, Home: o.home, WorkingDir: s.dir, Getenv: s.getenv}
}

// with opens the workspace for use.
func (o workspaceOptions) with(s *streams, options *mailbox.Options, use func(*mailbox.Workspace) error) (err error) {
	dir, err := o.place(s).Find()
	if err != nil {
		return err
	}
	w, err := mailbox.Open(dir, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return use(w)
}

// jsonFlag is on every command that prints something.
func jsonFlag(destination *bool) cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: destination}
}

// agentOf returns the agent that a flag names, or else the one that the
// environment tells.
func agentOf(w *mailbox.Workspace, flag string, s *streams) (schema.AgentName, error) {
	if flag != "" {
		return schema.ParseAgentName(flag)
	}
	return project.InferAgent(w, s.getenv)
}
