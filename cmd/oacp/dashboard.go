package main

import (
	"context"
	"errors"
	"fmt"

	tea "charm.land/bubbletea/v2"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/dashboard"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
)

type dashboardOptions struct {
	workspace   command.Workspace
	allProjects bool
	log         command.BridgeLog
	allRuns     bool
	once        bool
	json        bool
}

func newDashboardCommand(s *command.Streams) *cli.Command {
	var o dashboardOptions
	return &cli.Command{
		Name:      "dashboard",
		Category:  command.CategoryTurns,
		Usage:     "show agents, runs and messages, live",
		ArgsUsage: "[PROJECT]",
		Description: `The agents of the workspace with what is in their inboxes and the turn they are
in, the runs of oacp pair in the repository around the current folder, and the
latest messages. Outside a workspace there are only the runs. The view follows
what happens; enter opens the conversation of a message or a run, and q ends it.

--once prints one frame instead, and --json the same for programs.

EXAMPLES:
   oacp dashboard
   oacp dashboard --once --json
   oacp dashboard --once --all-projects --all-runs`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "once", Usage: "print one frame, and end", Destination: &o.once},
			&cli.BoolFlag{Name: "all-projects", Usage: "show every project", Destination: &o.allProjects},
			&cli.BoolFlag{Name: "all-runs", Usage: "show the runs of every repository", Destination: &o.allRuns},
			&cli.StringFlag{Name: "repo", Usage: "show the runs of the repository in `DIR`", Destination: &o.log.Repository},
			&cli.StringFlag{Name: "runs-dir", Usage: "runs are below `DIR` (default $OACP_RUNS, then ~/.agentpair/runs)", Destination: &o.log.RunsDir},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			if err := o.workspace.TakeProject(command.Positionals(c)); err != nil {
				return err
			}
			return runDashboard(c.Context, o, s)
		},
	}
}

func runDashboard(ctx context.Context, o dashboardOptions, s *command.Streams) (err error) {
	switch {
	case o.allProjects && (o.workspace.Dir != "" || o.workspace.Project != ""):
		return failure.Usagef("--all-projects and one workspace exclude each other")
	case o.allRuns && o.log.Repository != "":
		return failure.Usagef("--all-runs and --repo exclude each other")
	case o.json && !o.once:
		return failure.Usagef("--json goes with --once")
	case !o.once && !(s.InTerminal && s.OutTerminal):
		return failure.Usagef("there is no terminal to show a live view").WithHint("--once prints one frame")
	}
	config := dashboard.Config{Now: s.Now}
	config.Workspaces, err = o.open(s)
	defer func() {
		for _, w := range config.Workspaces {
			err = errors.Join(err, w.Close())
		}
	}()
	if err != nil {
		return err
	}
	root, repository, err := o.log.Runs(s)
	if err != nil {
		return err
	}
	config.RunsRoot = root
	if !o.allRuns {
		if config.RepositoryID, err = bridge.RepositoryID(repository); err != nil {
			return err
		}
	}
	if !o.once {
		return showDashboard(ctx, config)
	}
	snapshot, err := dashboard.NewSource(config).Gather(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return command.WriteJSON(s.Out, snapshot)
	}
	_, err = fmt.Fprint(s.Out, dashboard.Frame(snapshot, s.Width))
	return err
}

// showDashboard shows the live view until it is left.
func showDashboard(ctx context.Context, config dashboard.Config) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	watching, stopWatching := context.WithCancel(ctx)
	model := dashboard.NewModel(watching, dashboard.NewSource(config))
	program := tea.NewProgram(model, tea.WithContext(ctx), tea.WithoutSignalHandler())
	watched := make(chan error, 1)
	go func() { watched <- tellChanges(watching, config, program) }()
	_, err := program.Run()
	stopWatching()
	model.Close()
	if ctx.Err() != nil {
		err = nil // to be told to stop is no failure
	}
	return errors.Join(err, <-watched)
}

// tellChanges tells the program what happens in the inboxes. New agents it
// finds by itself.
func tellChanges(ctx context.Context, config dashboard.Config, program *tea.Program) (err error) {
	var targets []watch.Target
	for _, w := range config.Workspaces {
		agents, err := w.Agents()
		if err != nil {
			return err
		}
		for _, agent := range agents {
			targets = append(targets, watch.Target{Workspace: w, Agent: agent})
		}
	}
	if len(targets) == 0 {
		return nil
	}
	watcher, err := watch.New(ctx, targets, &watch.Options{Since: config.Now(), Archived: true})
	if ctx.Err() != nil && watcher == nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, watcher.Close()) }()
	for _, err := range watcher.Events(ctx) {
		if err != nil {
			return err
		}
		program.Send(dashboard.Changed{})
	}
	return nil
}

// open opens the workspaces that are meant. Without one that is named, none
// need be there. What was opened is to be closed, also when there is an error.
func (o dashboardOptions) open(s *command.Streams) (opened []*mailbox.Workspace, err error) {
	place := o.workspace.Place(s)
	projects := []string{place.Project}
	if o.allProjects {
		if projects, err = place.Projects(); err != nil {
			return nil, err
		}
	}
	for _, place.Project = range projects {
		dir, err := place.Find()
		if errors.Is(err, mailbox.ErrNoWorkspace) && place.Dir == "" && place.Project == "" {
			continue
		}
		if err != nil {
			return opened, err
		}
		w, err := mailbox.Open(dir, nil)
		if err != nil {
			return opened, err
		}
		opened = append(opened, w)
	}
	return opened, nil
}
