package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
)

// A pruneCall is a call of prune. A time that no flag gives is zero.
type pruneCall struct {
	*call
	olderThan, forget time.Time
	dryRun, yes       bool
}

func newPruneCommand(s *command.Streams) *cli.Command {
	c := &pruneCall{call: newCall(s)}
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
		Flags: c.flagsWith(
			&cli.GenericFlag{Name: "older-than", Usage: "prune what is older than `TIME`: an age such as 12h or 30d, or a date such as 2026-01-31", DefaultText: "30d", Value: command.Parsed(&c.olderThan, c.parsePast).Needed()},
			&cli.GenericFlag{Name: "forget", Category: command.Rare, Usage: "forget the lists of days before `TIME`", DefaultText: "365d", Value: command.Parsed(&c.forget, c.parsePast).Needed()},
			&cli.BoolFlag{Name: "dry-run", Usage: "count, and remove nothing", Destination: &c.dryRun},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask", Destination: &c.yes}),
		Action: c.inProject(c.run),
	}
}

func (c *pruneCall) run(w *mailbox.Workspace) error {
	defer c.catchSignals()()
	const day = 24 * time.Hour
	forgets := !c.forget.IsZero()
	c.olderThan = cmp.Or(c.olderThan, c.Now().Add(-30*day))
	c.forget = cmp.Or(c.forget, c.Now().Add(-365*day))
	prunable, err := w.Prunable(c.ctx, c.olderThan)
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
	case repository == nil && forgets:
		return failure.Usagef("--forget needs a workspace that is synced by git: without one, nothing is known of messages that were pruned")
	}
	verb := "would remove"
	answer.DryRun = c.dryRun
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
		if forgets {
			question += ", and forget what is known of pruned messages from before " + c.forget.Format(time.DateOnly)
		}
		if err := c.confirm(c.yes, question+"?"); err != nil {
			return err
		}
	}
	if repository != nil {
		options := command.SyncOptions(w)
		options.DryRun, options.Prune, options.Forget, options.Waiting = answer.DryRun, prunable, c.forget, c.NoteWaiting
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
		c.Printf("%s: %s, %s", verb, spelling.Plural(answer.Messages, "message"), spelling.Plural(answer.Copies, "outbox file"))
		if repository != nil {
			c.Printf("; from the branch: %s", spelling.Plural(answer.Branch, "message"))
		}
		if answer.Forgotten > 0 {
			c.Printf("; forgotten: %s", spelling.Plural(answer.Forgotten, "message"))
		}
		c.Printf("\n")
	})
}

// parsePast parses a time, which must not be in the future.
func (c *call) parsePast(text string) (time.Time, error) {
	at, err := c.parseTime(text)
	if err == nil && at.After(c.Now()) {
		err = fmt.Errorf("%s is in the future", at.Format(time.DateOnly))
	}
	return at, err
}
