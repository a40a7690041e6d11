package main

import (
	"cmp"
	"context"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
)

func newPruneCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "prune",
		Category:  command.CategoryWorkspace,
		Usage:     "remove old mail",
		ArgsUsage: "[PROJECT] [--older-than 30d]",
		Description: `prune removes messages that were handled or given up and are older than --older-than,
and copies in outboxes if no recipient has the message pending. Pending messages stay,
whatever their age, and so does a message NAME with a file NAME.retain next to it.

If the workspace is synced by git, prune also removes the messages from the branch. What
is known of them stays there, in a list for each day, so that no machine brings them back.
Lists of more than a year ago go; --forget drops them earlier. A machine that was away for
longer then may bring such a message back. Other machines keep their files until prune
runs there. Nothing is pruned unless this command runs.

EXAMPLES:
   oacp prune --dry-run
   oacp prune --older-than 90d
   oacp prune --older-than 2026-01-31 --forget 180d`,
		Flags: flagsWith(
			&cli.StringFlag{Name: "older-than", Usage: "prune what is older than `TIME`: an age such as 12h or 30d, or a date such as 2026-01-31", Value: "30d"},
			&cli.StringFlag{Name: "forget", Category: command.Rare, Usage: "forget the lists of days before `TIME`", Value: "365d"},
			&cli.BoolFlag{Name: "dry-run", Usage: "count, and remove nothing"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask"}),
		Action: ofProject(s, func(c *call) error {
			defer c.catchSignals()()
			return c.open(runPrune)
		}),
	}
}

func runPrune(c *call, w *mailbox.Workspace) error {
	before, err := pastTime(c, "older-than")
	if err != nil {
		return err
	}
	forget, err := pastTime(c, "forget")
	if err != nil {
		return err
	}
	prunable, err := w.Prunable(c.ctx, before)
	if err != nil {
		return err
	}
	var answer struct {
		mailbox.Pruned
		// Branch counts the messages that were removed from the branch, and Forgotten those that it forgot.
		Branch    int  `json:"branch"`
		Forgotten int  `json:"forgotten"`
		DryRun    bool `json:"dry_run"`
	}
	repository, err := openRepository(c.ctx, w)
	switch {
	case err != nil:
		return err
	case repository == nil && c.isSet("forget"):
		return failure.Usagef("--forget needs a workspace that is synced by git: without one, nothing is known of messages that were pruned")
	}
	verb := "would remove"
	answer.DryRun = c.isOn("dry-run")
	if !answer.DryRun {
		verb = "removed"
		counted, err := w.Prune(c.ctx, prunable, true)
		if err != nil {
			return err
		}
		question := "remove " + spelling.Plural(counted.Messages, "message") + " and " + spelling.Plural(counted.Copies, "outbox file") + " here"
		if repository != nil {
			question += ", and what is as old from the branch"
		}
		if c.isSet("forget") {
			question += ", and forget what is known of pruned messages from before " + forget.Format(time.DateOnly)
		}
		if err := c.confirm(question + "?"); err != nil {
			return err
		}
	}
	if repository != nil {
		options := command.SyncOptions(w)
		options.DryRun, options.Prune, options.Forget, options.Waiting = answer.DryRun, prunable, forget, c.NoteWaiting
		result, err := repository.Sync(c.ctx, options)
		if err != nil {
			return cmp.Or(context.Cause(c.ctx), err)
		}
		answer.Branch, answer.Forgotten = result.Pruned, result.Forgotten
	}
	if answer.Pruned, err = w.Prune(c.ctx, prunable, answer.DryRun); err != nil {
		return err
	}
	return c.answer(answer, func() {
		c.printf("%s: %s, %s", verb, spelling.Plural(answer.Messages, "message"), spelling.Plural(answer.Copies, "outbox file"))
		if repository != nil {
			c.printf("; from the branch: %s", spelling.Plural(answer.Branch, "message"))
		}
		if answer.Forgotten > 0 {
			c.printf("; forgotten: %s", spelling.Plural(answer.Forgotten, "message"))
		}
		c.printf("\n")
	})
}

// pastTime returns the time of a flag, which must not be in the future.
func pastTime(c *call, flag string) (time.Time, error) {
	at, err := parseTime("--"+flag, c.text(flag), c.Now())
	if err == nil && at.After(c.Now()) {
		err = failure.Usagef("--%s: %s is in the future", flag, at.Format(time.DateOnly))
	}
	return at, err
}
