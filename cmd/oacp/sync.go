package main

import (
	"cmp"
	"context"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
)

type syncOptions struct {
	workspace command.Workspace
	every     string
	interval  time.Duration
	dryRun    bool
	json      bool

	squash, yes bool

	installHook, removeHook bool
}

func newSyncCommand(s *command.Streams) *cli.Command {
	var o syncOptions
	return &cli.Command{
		Name:      "sync",
		Category:  command.CategoryWorkspace,
		Usage:     "exchange mail by git",
		ArgsUsage: "[PROJECT] [--every TIME]",
		Description: `sync fetches what is new in the mailboxes on the remote, delivers it here, and
pushes what is new here. The workspace has a git repository of its own, which oacp
init --git makes; yours is not touched. What arrives wakes oacp run, watch and next,
as any mail does.

Without a connection everything works as usual: mail waits here for the next
sync. Machines are never in conflict. A message that is acknowledged on one of
them is acknowledged on all. Commands that work or wait have --sync, to sync meanwhile.

Each line is a change that arrived (in) or was sent (out). With --every the command
prints only what is new, until a signal stops it; it then exits with status 0. It
names files that are not mail once, and leaves them where they are.

EXAMPLES:
   oacp sync
   oacp sync --every 5s
   oacp sync --squash`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "every", Usage: "keep running, and sync every `TIME`, such as 5s", Destination: &o.every},
			&cli.BoolFlag{Name: "dry-run", Usage: "list what would come and go, and change nothing", Destination: &o.dryRun},
			command.JSONFlag(&o.json),
			&cli.BoolFlag{Name: "squash", Category: command.Rare, Usage: "make one commit of the history, here and on the remote; no mail is lost", Destination: &o.squash},
			&cli.BoolFlag{Name: "yes", Category: command.Rare, Usage: "with --squash: do not ask", Destination: &o.yes},
			&cli.BoolFlag{Name: "install-hook", Category: command.Rare, Usage: "let git pull and git push in your repository start oacp sync", Destination: &o.installHook},
			&cli.BoolFlag{Name: "remove-hook", Category: command.Rare, Usage: "undo --install-hook", Destination: &o.removeHook},
		}, o.workspace.Flags()...),
		Action: o.workspace.OfProject(func(c *cli.Context) error {
			if err := o.check(c); err != nil {
				return err
			}
			return o.run(c.Context, s)
		}),
	}
}

// check checks the flags.
func (o *syncOptions) check(c *cli.Context) (err error) {
	set := ""
	for _, name := range []string{"every", "dry-run", "squash", "install-hook", "remove-hook"} {
		switch {
		case !c.IsSet(name):
		case set != "":
			return failure.Usagef("--%s and --%s are mutually exclusive", set, name)
		default:
			set = name
		}
	}
	switch {
	case c.IsSet("yes") && !o.squash:
		return failure.Usagef("--yes needs --squash")
	case c.IsSet("every"):
		o.interval, err = command.SyncInterval("--every", o.every)
	}
	return err
}

func (o *syncOptions) run(ctx context.Context, s *command.Streams) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		if o.installHook || o.removeHook {
			return o.changeHooks(ctx, w, s)
		}
		repository, err := gitmail.Open(ctx, w)
		if err != nil {
			return err
		}
		printer := newSyncPrinter(o, w, repository.Settings(), s)
		switch {
		case o.squash:
			if name := repository.Settings().Name(); name != "" {
				if err := confirm(s, o.yes, "replace the history of "+name+" for all machines, with a forced push?"); err != nil {
					return err
				}
			}
			options := command.SyncOptions(w)
			options.Squash, options.Waiting = true, s.NoteWaiting
			result, err := repository.Sync(ctx, options)
			if err != nil {
				return cmp.Or(context.Cause(ctx), err)
			}
			return printer.squashed(result.Squashed)
		case o.interval > 0:
			return o.keep(ctx, w, repository, printer, s)
		}
		result, err := o.once(ctx, w, repository, s)
		if err != nil && len(result.Changes) == 0 {
			return err
		}
		return printer.print(result, err)
	})
}

// once syncs, and shows its progress on a terminal.
func (o *syncOptions) once(ctx context.Context, w *mailbox.Workspace, r *gitmail.Repository, s *command.Streams) (gitmail.Result, error) {
	bar := newProgress(s, "exchanging mail")
	options := command.SyncOptions(w)
	options.DryRun, options.Progress, options.Waiting = o.dryRun, bar.update, bar.waiting
	result, err := r.Sync(ctx, options)
	bar.clear()
	if err != nil {
		err = cmp.Or(context.Cause(ctx), err)
	}
	return result, err
}

// keep syncs until a signal ends it. That is not a failure.
func (o *syncOptions) keep(ctx context.Context, w *mailbox.Workspace, r *gitmail.Repository, printer *syncPrinter, s *command.Streams) (printErr error) {
	signals := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	report := func(result gitmail.Result, err error) {
		if ctx.Err() != nil {
			return
		}
		if printErr = printer.news(result, err); printErr != nil {
			cancel()
		}
	}
	report(o.once(ctx, w, r, s))
	if ctx.Err() == nil {
		s.Note("syncs every " + visible.Line(o.interval.String()) + ", ^C stops")
		r.Every(ctx, o.interval, command.SyncOptions(w), report)
	}
	if signals.Err() != nil {
		return nil
	}
	return printErr
}
