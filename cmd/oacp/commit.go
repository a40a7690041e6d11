package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/commit"
	"github.com/oacp-go/oacp/mailbox/gitmail"
)

type commitOptions struct {
	workspace    command.Workspace
	message      string
	dryRun, json bool
}

func newCommitCommand(s *command.Streams) *cli.Command {
	var o commitOptions
	return &cli.Command{
		Name:      "commit",
		Category:  command.CategoryWorkspace,
		Usage:     "commit new messages",
		ArgsUsage: "[-m TEXT]",
		Description: `Commits what is new in the workspace, if that is a folder of a git repository, and
nothing else: what you have staged or changed elsewhere stays as it is. Files in state and hidden
temporary files are left out. The message of the commit says what happened to
which messages; git push sends it to others.

Your hooks run, and your settings for signing hold. With nothing to commit, the
exit status is 0. A workspace that init --git made commits with oacp sync.

EXAMPLES:
   oacp commit && git push
   oacp commit --dry-run`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "message", Aliases: []string{"m"}, Usage: "use `TEXT` as the message of the commit", Destination: &o.message},
			&cli.BoolFlag{Name: "dry-run", Usage: "list what would be committed, and change nothing", Destination: &o.dryRun},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			if args := command.Positionals(c); len(args) > 0 {
				return failure.Usagef("unexpected argument %s", visible.Quote(args[0])).WithHint("the whole workspace is committed; -m gives the message")
			}
			if c.IsSet("message") && strings.TrimSpace(o.message) == "" {
				return failure.Usagef("--message: the text is empty").WithHint("leave --message out: the messages make the text")
			}
			return runCommit(c.Context, o, s)
		},
	}
}

// mostEvents is how many events are listed.
const mostEvents = 20

// commitJSON is the answer of commit.
type commitJSON struct {
	// Commit is null if nothing was committed, and Branch if HEAD is detached.
	Commit  *string          `json:"commit"`
	Branch  *string          `json:"branch"`
	Message string           `json:"message"`
	Files   []commit.File    `json:"files"`
	Events  []gitmail.Change `json:"events"`
	DryRun  bool             `json:"dry_run"`
}

func runCommit(ctx context.Context, o commitOptions, s *command.Streams) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	err := o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		r, err := commit.Open(ctx, w)
		if err != nil {
			return err
		}
		var done commit.Commit
		if o.dryRun {
			done, err = r.Plan(ctx, o.message)
		} else {
			done, err = r.Commit(ctx, o.message)
		}
		if err != nil {
			return err
		}
		for _, folder := range done.Skipped {
			s.Warn(folder + " has a git repository of its own, and is left out")
		}
		if done.ID != "" && r.Branch == "" {
			s.Note("HEAD is detached, so no branch has the commit: git switch -c NAME makes one")
		}
		return o.print(done, r.Branch, s)
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return errors.Join(cause, err)
	}
	return err
}

func (o commitOptions) print(done commit.Commit, branch string, s *command.Streams) error {
	if o.json {
		answer := commitJSON{Message: done.Message, Files: append([]commit.File{}, done.Files...),
			Events: append([]gitmail.Change{}, done.Events...), DryRun: o.dryRun}
		if done.ID != "" {
			answer.Commit = &done.ID
		}
		if branch != "" {
			answer.Branch = &branch
		}
		return command.WriteJSON(s.Out, answer)
	}
	if len(done.Files) == 0 {
		fmt.Fprintln(s.Out, "nothing to commit")
		return nil
	}
	where := "to " + visible.Line(branch)
	if branch == "" {
		where = "to no branch"
	}
	subject, _, _ := strings.Cut(done.Message, "\n")
	if o.dryRun {
		fmt.Fprintf(s.Out, "would commit %s %s: %s\n", spelling.Count(len(done.Files), "file"), where, visible.Line(subject))
		for _, file := range done.Files {
			fmt.Fprintf(s.Out, "  %-7s %s\n", file.Status, visible.Line(file.Path))
		}
		return nil
	}
	fmt.Fprintf(s.Out, "OK: committed %s %s: %s\n", spelling.Count(len(done.Files), "file"), where, visible.Line(subject))
	if len(done.Events) > 1 {
		for _, event := range done.Events[:min(len(done.Events), mostEvents)] {
			fmt.Fprintln(s.Out, "  "+visible.Line(event.String()))
		}
		if more := len(done.Events) - mostEvents; more > 0 {
			fmt.Fprintf(s.Out, "  and %d more: git show says which\n", more)
		}
	}
	return nil
}
