package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gdamore/tcell/v2"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
)

type options struct {
	workspace   command.Workspace
	allProjects bool
	log         command.BridgeLog
	allRuns     bool
	once        bool
	json        bool
}

// NewCommand returns the command "oacp dashboard".
func NewCommand(s *command.Streams) *cli.Command {
	var o options
	return &cli.Command{
		Name:      "dashboard",
		Category:  command.CategoryTurns,
		Usage:     "show everything, live",
		ArgsUsage: "[PROJECT]",
		Description: `dashboard shows the agents of the workspace with their inboxes and turns, the runs of
oacp pair in the repository around the current folder, and the latest messages. Outside
a workspace it shows only the runs. The view is live; Enter opens the conversation of a
message or run, and q quits.

--once prints a single frame, and --once --json prints it as JSON.

EXAMPLES:
   oacp dashboard
   oacp dashboard --once --json
   oacp dashboard --once --all-projects --all-runs`,
		Flags: slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "once", Usage: "print one frame and exit", Destination: &o.once},
			&cli.BoolFlag{Name: "all-projects", Usage: "show every project", Destination: &o.allProjects},
			&cli.BoolFlag{Name: "all-runs", Category: command.Rare, Usage: "show the runs of every repository", Destination: &o.allRuns},
			command.JSONFlag(&o.json),
		}, o.log.RunsFlags(), o.workspace.Flags()),
		Action: func(c *cli.Context) error {
			if err := o.workspace.TakeProject(command.Positionals(c)); err != nil {
				return err
			}
			return o.run(c.Context, s)
		},
	}
}

func (o options) run(ctx context.Context, s *command.Streams) (err error) {
	switch {
	case o.allProjects && (o.workspace.Dir != "" || o.workspace.Project != ""):
		return failure.Usagef("--all-projects and one workspace are mutually exclusive")
	case o.allRuns && o.log.Repository != "":
		return failure.Usagef("--all-runs and --repo are mutually exclusive")
	case o.json && !o.once:
		return failure.Usagef("--json requires --once")
	case !o.once && !(s.InTerminal && s.OutTerminal):
		return failure.Usagef("a live view needs a terminal").WithHint("--once prints one frame")
	}
	workspaces, err := o.open(s)
	defer func() {
		for _, w := range workspaces {
			err = errors.Join(err, w.Close())
		}
	}()
	if err != nil {
		return err
	}
	root, _, repositories, err := o.log.RepositoryIDs(s, o.allRuns)
	if err != nil {
		return err
	}
	shown := &source{Workspaces: workspaces, RunsRoot: root, RepositoryIDs: repositories, Zone: s.Zone()}
	if !o.once {
		return showLive(ctx, shown)
	}
	snapshot, err := shown.gather(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return command.WriteJSON(s.Out, snapshot)
	}
	_, err = fmt.Fprint(s.Out, frame(snapshot, s.Width))
	return err
}

// open opens the workspaces. Unless a workspace is named, there may be none. The caller closes what
// it returns, also with an error.
func (o options) open(s *command.Streams) (opened []*mailbox.Workspace, err error) {
	place := o.workspace.Place(s)
	projects := []string{place.Project}
	if o.allProjects {
		if projects, err = place.Projects(); err != nil {
			return nil, err
		}
	}
	for _, place.Project = range projects {
		w, err := client.OpenWorkspace(place, nil, s.IsPerson())
		if errors.Is(err, mailbox.ErrNoWorkspace) && place.Dir == "" && place.Project == "" {
			continue
		}
		if err != nil {
			return opened, err
		}
		opened = append(opened, w)
	}
	return opened, nil
}

// showLive shows the live view until the user leaves it or a signal arrives.
func showLive(ctx context.Context, shown *source) error {
	screen, err := tcell.NewScreen()
	if err != nil {
		return failure.WithHint(fmt.Errorf("terminal: %w", err), "--once prints one frame")
	}
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	return show(ctx, screen, shown)
}
