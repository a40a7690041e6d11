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
	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/mailbox/project"
)

// A commitCall is a call of commit.
type commitCall struct {
	*call
	message string
	dryRun  bool
}

func newCommitCommand(s *command.Streams) *cli.Command {
	c := &commitCall{call: newCall(s)}
	return &cli.Command{
		Name:      "commit",
		Category:  command.CategoryWorkspace,
		Usage:     "commit new messages",
		ArgsUsage: "[-m TEXT]",
		Description: `commit commits the changes in the workspace, which must be a folder of a git
repository, and nothing else: what you have staged or changed elsewhere stays as it is.
It leaves out files in state and hidden temporary files. The commit message says what
happened to which messages; git push sends the commit to others.

Your hooks run, and your settings for signing apply. With nothing to commit, the exit
status is 0. For a workspace that init --git made, oacp sync makes the commits.

EXAMPLES:
   oacp commit && git push
   oacp commit --dry-run`,
		Flags: c.flagsWith(
			&cli.StringFlag{Name: "message", Aliases: []string{"m"}, Usage: "use `TEXT` as the message of the commit", Destination: &c.message},
			&cli.BoolFlag{Name: "dry-run", Usage: "list what would be committed, and change nothing", Destination: &c.dryRun}),
		Action: c.action(anyNumber, c.run),
	}
}

func (c *commitCall) run() error {
	if len(c.words) > 0 {
		return failure.Usagef("unexpected argument %s", visible.Quote(c.words[0])).WithHint("the whole workspace is committed; -m gives the message")
	}
	if c.given(&c.message) && strings.TrimSpace(c.message) == "" {
		return failure.Usagef("--message: the text is empty").WithHint("without --message, oacp writes the text")
	}
	defer c.catchSignals()()
	err := c.with(nil, c.commit)
	if cause := context.Cause(c.ctx); err != nil && cause != nil {
		return errors.Join(cause, err)
	}
	return err
}

// commitJSON is the answer of commit.
type commitJSON struct {
	// Commit is null if nothing was committed, and Branch if HEAD is detached.
	Commit  *string          `json:"commit"`
	Branch  *string          `json:"branch"`
	Message string           `json:"message"`
	Files   []commit.File    `json:"files"`
	Events  []history.Change `json:"events"`
	DryRun  bool             `json:"dry_run"`
}

func (c *commitCall) commit(w *mailbox.Workspace) error {
	r, err := commit.Open(c.ctx, w)
	if err != nil {
		return err
	}
	var done commit.Commit
	if c.dryRun {
		done, err = r.Plan(c.ctx, c.message)
	} else if _, err = project.AddAttributes(w); err == nil {
		done, err = r.Commit(c.ctx, c.message)
	}
	if err != nil {
		return err
	}
	for _, folder := range done.Skipped {
		c.Warn(folder + " has a git repository of its own, and is left out")
	}
	answer := commitJSON{Message: done.Message, Files: append([]commit.File{}, done.Files...),
		Events: append([]history.Change{}, done.Events...), DryRun: c.dryRun}
	if done.ID != "" {
		answer.Commit = &done.ID
	}
	if r.Branch != "" {
		answer.Branch = &r.Branch
	} else if done.ID != "" {
		c.Note("HEAD is detached, so no branch has the commit: git switch -c NAME makes one")
	}
	return c.answer(answer, func() { answer.print(c.call) })
}

func (a commitJSON) print(c *call) {
	if len(a.Files) == 0 {
		c.Confirm("nothing to commit\n")
		return
	}
	where := "to no branch"
	if a.Branch != nil {
		where = "to " + visible.Line(*a.Branch)
	}
	subject, _, _ := strings.Cut(a.Message, "\n")
	what := fmt.Sprintf("%s %s: %s", spelling.Plural(len(a.Files), "file"), where, visible.Line(subject))
	if a.DryRun {
		c.Printf("would commit %s\n", what)
		for _, file := range a.Files {
			c.Printf("  %-7s %s\n", file.Status, visible.Line(file.Path))
		}
		return
	}
	c.Confirm("OK: committed %s\n", what)
	if len(a.Events) > 1 {
		for _, event := range a.Events {
			c.Confirm("  %s\n", visible.Line(event.String()))
		}
	}
}
