package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/history"
)

// A syncCall is a call of sync.
type syncCall struct {
	*call
	every               time.Duration
	dryRun, squash, yes bool
}

func newSyncCommand(s *command.Streams) *cli.Command {
	c := &syncCall{call: newCall(s)}
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
sync. There are never conflicts to resolve. A message that is acknowledged on one
machine is acknowledged on all. Commands that work or wait have --sync, to sync meanwhile.

Each line is a change that arrived (in) or was sent (out). With --every the command
prints only what is new, until a signal stops it; it then exits with status 0. It
names files that are not mail once, and leaves them where they are.

EXAMPLES:
   oacp sync
   oacp sync --every 5s
   oacp sync --squash`,
		Flags: c.flagsWith(
			&cli.GenericFlag{Name: "every", Usage: "keep running, and sync every `TIME`, such as 5s", Value: command.Parsed(&c.every, command.SyncInterval).Needed()},
			&cli.BoolFlag{Name: "dry-run", Usage: "list what would come in and go out, and change nothing", Destination: &c.dryRun},
			&cli.BoolFlag{Name: "squash", Category: command.Rare, Usage: "make one commit of the history, here and on the remote; no mail is lost", Destination: &c.squash},
			&cli.BoolFlag{Name: "yes", Category: command.Rare, Usage: "with --squash: do not ask", Destination: &c.yes}),
		Action: c.ofProject(c.run),
	}
}

func (c *syncCall) run() error {
	set := ""
	for _, flag := range []struct {
		name  string
		given bool
	}{{"every", c.every != 0}, {"dry-run", c.dryRun}, {"squash", c.squash}} {
		switch {
		case !flag.given:
		case set != "":
			return failure.Usagef("--%s and --%s are mutually exclusive", set, flag.name)
		default:
			set = flag.name
		}
	}
	if c.yes && !c.squash {
		return failure.Usagef("--yes needs --squash")
	}
	defer c.catchSignals()()
	return c.with(nil, func(w *mailbox.Workspace) error {
		repository, err := gitmail.Open(c.ctx, w)
		if err != nil {
			return err
		}
		if c.squash {
			return c.squashHistory(w, repository)
		}
		if !c.dryRun {
			defer c.notify(c.every == 0, false, w)()
		}
		settings := repository.Settings()
		p := &syncPrinter{
			syncCall: c, remote: command.RemoteState{Name: settings.Name()},
			shared: syncAnswer{Workspace: w.Dir(), Remote: settings.Name(), Ref: settings.MailRef(), DryRun: c.dryRun},
		}
		options := command.SyncOptions(w)
		options.DryRun = c.dryRun
		bar := newProgress(c.Streams)
		first := options
		first.Progress, first.Waiting = bar.update, bar.waiting
		result, err := repository.Sync(c.ctx, first)
		bar.clear()
		if err != nil {
			err = cmp.Or(context.Cause(c.ctx), err)
		}
		switch {
		case c.every > 0:
			return p.keep(repository, options, result, err)
		case err != nil && len(result.Changes) == 0:
			return err
		}
		if err := p.print(result, err); err != nil || len(result.Changes) == 0 || options.DryRun {
			return err
		}
		_ = repository.Maintain(c.ctx) // a failure does not affect the mail
		return nil
	})
}

func (c *syncCall) squashHistory(w *mailbox.Workspace, repository *gitmail.Repository) error {
	if name := repository.Settings().Name(); name != "" {
		if err := c.confirm(c.yes, "replace the history of "+name+" for all machines, with a forced push?"); err != nil {
			return err
		}
	}
	options := command.SyncOptions(w)
	options.Squash, options.Waiting = true, c.NoteWaiting
	result, err := repository.Sync(c.ctx, options)
	if err != nil {
		return cmp.Or(context.Cause(c.ctx), err)
	}
	done := result.Squashed
	defer func() { _ = repository.Maintain(c.ctx) }() // which removes the old history
	return c.answer(map[string]any{"commits_before": done.Before, "commits": done.After, "commit": done.Commit}, func() {
		if done.Before == done.After {
			c.Printf("commits: %d, nothing to squash\n", done.Before)
		} else {
			c.Printf("commits: %d before, %d now\n", done.Before, done.After)
		}
	})
}

// A syncPrinter prints the results of syncs.
type syncPrinter struct {
	*syncCall
	remote   command.RemoteState
	shared   syncAnswer // the fields that all answers share
	began    bool       // something was printed
	problems string     // the last warnings about problems
}

// syncAnswer is the result of a sync, as JSON.
type syncAnswer struct {
	Workspace string           `json:"workspace"`
	Remote    string           `json:"remote,omitempty"`
	Ref       string           `json:"ref"`
	DryRun    bool             `json:"dry_run"`
	In        int              `json:"in"`
	Out       int              `json:"out"`
	Changes   []history.Change `json:"changes"`
	// Unlisted is how many of the changes are not listed, because there are many.
	Unlisted int           `json:"changes_unlisted,omitempty"`
	Problems []syncProblem `json:"problems,omitempty"`
	Commit   string        `json:"commit,omitempty"`
	// Whole is set if the remote had no branch, so that all mail is sent.
	Whole bool `json:"whole,omitempty"`
	// Recovered is set if the sync before this one failed.
	Recovered bool `json:"recovered,omitempty"`
	// Error says why the sync ended before all was done.
	Error string `json:"error,omitempty"`
	Code  string `json:"code,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

type syncProblem struct {
	Path  string `json:"path"`
	Error string `json:"error"`
}

// keep prints the result of the first sync, and syncs until a signal ends it, which is not a failure.
func (p *syncPrinter) keep(r *gitmail.Repository, options gitmail.Options, first gitmail.Result, firstErr error) (printErr error) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	report := func(result gitmail.Result, err error) {
		if ctx.Err() != nil {
			return
		}
		if printErr = p.news(result, err); printErr != nil {
			cancel()
		}
	}
	report(first, firstErr)
	if ctx.Err() == nil {
		p.Note("syncs every " + visible.Line(p.every.String()) + ", ^C stops")
		r.Every(ctx, p.every, options, report)
	}
	if p.ctx.Err() != nil {
		return nil
	}
	return printErr
}

// news prints the result of one of several syncs if it has changes. While the remote keeps failing, it prints
// the failure only once.
func (p *syncPrinter) news(result gitmail.Result, err error) error {
	changed := p.remote.Observe(err, p.Streams)
	if err == nil && (!p.began || result.Whole || changed && p.asJSON) || len(result.Changes) > 0 {
		answer := p.shared
		answer.Recovered = changed && err == nil
		if err := p.write(result, answer, err == nil); err != nil {
			return err
		}
	}
	p.warn(result.Problems)
	if err != nil && changed && p.asJSON {
		f := failure.Of(err)
		if err := command.WriteJSONLine(p.Out, map[string]string{"error": f.Message(), "code": f.Code, "hint": f.Hint}); err != nil {
			return err
		}
	}
	return p.Out.Flush()
}

// print prints the result of the only sync, and returns its error unless that is part of the JSON.
func (p *syncPrinter) print(result gitmail.Result, err error) error {
	answer := p.shared
	if err != nil && p.asJSON {
		f := failure.Of(err)
		answer.Error, answer.Code, answer.Hint = f.Message(), f.Code, f.Hint
		return cmp.Or(p.write(result, answer, false), error(&failure.StatusError{Status: f.Exit}))
	}
	return errors.Join(err, p.write(result, answer, err == nil))
}

// write adds the result of a sync to an answer and prints it.
func (p *syncPrinter) write(result gitmail.Result, answer syncAnswer, done bool) (err error) {
	p.began = true
	p.warn(result.Problems)
	answer.Commit, answer.Whole = result.Commit, result.Whole
	answer.Changes = append([]history.Change{}, result.Changes...)
	answer.In, answer.Out = result.In.Total(), result.Out.Total()
	answer.Unlisted = answer.In + answer.Out - len(result.Changes)
	for _, problem := range result.Problems {
		answer.Problems = append(answer.Problems, syncProblem{problem.Path, failure.OneLine(problem.Err.Error())})
	}
	if p.asJSON && p.every > 0 {
		err = command.WriteJSONLine(p.Out, answer)
	} else {
		err = p.answer(answer, func() {
			for _, change := range result.Changes {
				id := ""
				if change.ID != "" {
					id = visible.Line(change.ID.Short()) + "  "
				}
				p.Printf("%-3s  %s%s\n", change.Direction, id, visible.Line(change.String()))
			}
			if answer.Unlisted > 0 {
				p.Printf("and %d more\n", answer.Unlisted)
			}
			p.Printf("%s\n", answer.summary(done))
		})
	}
	if p.Out.Flush() != nil || err != nil || p.asJSON { // the sync is done, and who flushes next says what failed
		return err
	}
	switch {
	case answer.Remote == "":
		p.Note("nothing left this machine, because the workspace has no remote: oacp init --git takes that of the repository, --remote NAME-OR-URL another one")
	case answer.Whole && answer.DryRun:
		p.Note("the remote does not have the branch: a sync sends all of its history")
	case answer.Whole && done:
		p.Note("the remote did not have the branch: all of its history was sent")
	}
	return nil
}

// summary returns one line about the sync. If done is false, the sync ended early.
func (a *syncAnswer) summary(done bool) string {
	count := fmt.Sprintf("%d in, %d out", a.In, a.Out)
	if a.In+a.Out == 0 {
		count = "nothing new"
	}
	switch {
	case a.DryRun && (a.In+a.Out > 0 || a.Whole):
		return fmt.Sprintf("%d would come in, %d would go out; nothing is changed", a.In, a.Out)
	case a.Remote == "" && a.Out > 0:
		return fmt.Sprintf("%d committed", a.Out)
	case a.Remote == "":
		return count
	case !done:
		return count + "; not up to date with " + visible.Line(a.Remote)
	}
	return count + "; up to date with " + visible.Line(a.Remote)
}

// warn says which paths were skipped. It does not repeat itself.
func (p *syncPrinter) warn(problems []gitmail.Problem) {
	lines := skippedFiles(problems)
	if text := strings.Join(lines, "\n"); text != p.problems {
		p.problems = text
		for _, line := range lines {
			p.Warn(line)
		}
	}
}

// skippedFiles returns a line for each file that a sync skipped.
func skippedFiles(problems []gitmail.Problem) (lines []string) {
	for _, problem := range problems {
		reason := strings.TrimPrefix(failure.OneLine(problem.Err.Error()), path.Base(problem.Path)+": ")
		lines = append(lines, "skipped: "+problem.Path+": "+reason)
	}
	return lines
}
