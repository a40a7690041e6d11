package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/dashboard"
	"github.com/oacp-go/oacp/mailbox"
)

type dashboardOptions struct {
	workspace   workspaceOptions
	allProjects bool
	log         logOptions
	allRuns     bool
	once        bool
	json        bool
}

func newDashboardCommand(s *streams) *cli.Command {
	var o dashboardOptions
	return &cli.Command{
		Name:      "dashboard",
		Category:  categoryTurns,
		Usage:     "show agents, runs and messages, in one frame",
		ArgsUsage: "[PROJECT]",
		Description: `The agents of the workspace with what is in their inboxes and the turn they are
in, the runs of oacp pair in the repository around the current folder, and the
latest messages. Outside a workspace there are only the runs.

EXAMPLES:
   oacp dashboard --once
   oacp dashboard --once --json
   oacp dashboard --once --all-projects --all-runs`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "once", Usage: "print one frame, and end", Destination: &o.once},
			&cli.BoolFlag{Name: "all-projects", Usage: "show every project", Destination: &o.allProjects},
			&cli.BoolFlag{Name: "all-runs", Usage: "show the runs of every repository", Destination: &o.allRuns},
			&cli.StringFlag{Name: "repo", Usage: "show the runs of the repository in `DIR`", Destination: &o.log.repository},
			&cli.StringFlag{Name: "runs-dir", Usage: "runs are below `DIR` (default $OACP_RUNS, then ~/.agentpair/runs)", Destination: &o.log.runsDir},
			jsonFlag(&o.json),
		}, o.workspace.flags()...),
		Action: func(c *cli.Context) error {
			if err := o.workspace.takeProject(positionals(c)); err != nil {
				return err
			}
			return runDashboard(c.Context, o, s)
		},
	}
}

func runDashboard(ctx context.Context, o dashboardOptions, s *streams) (err error) {
	switch {
	case o.allProjects && (o.workspace.dir != "" || o.workspace.project != ""):
		return usageErrorf("--all-projects and one workspace exclude each other")
	case o.allRuns && o.log.repository != "":
		return usageErrorf("--all-runs and --repo exclude each other")
	case !o.once:
		return usageErrorf("--once is missing")
	}
	config := dashboard.Config{Now: s.now}
	config.Workspaces, err = o.open(s)
	defer func() {
		for _, w := range config.Workspaces {
			err = errors.Join(err, w.Close())
		}
	}()
	if err != nil {
		return err
	}
	root, repository, err := o.log.runs(s)
	if err != nil {
		return err
	}
	config.RunsRoot = root
	if !o.allRuns {
		if config.RepositoryID, err = bridge.RepositoryID(repository); err != nil {
			return err
		}
	}
	snapshot, err := dashboard.NewSource(config).Gather(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return writeJSON(s.out, snapshot)
	}
	_, err = fmt.Fprint(s.out, dashboard.Frame(snapshot, s.width))
	return err
}

// open opens the workspaces that are meant. Without one that is named, none
// need be there. What was opened is to be closed, also when there is an error.
func (o dashboardOptions) open(s *streams) (opened []*mailbox.Workspace, err error) {
	place := o.workspace.place(s)
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
