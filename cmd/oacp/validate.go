package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/validate"
	"github.com/oacp-go/oacp/validate/change"
)

var validateFormats = []string{"text", "json", "sarif", "github"}

func newValidateCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "validate",
		Category:  command.CategoryFiles,
		Usage:     "check message files",
		ArgsUsage: "PATH… | --changed REF [PATH…]",
		Description: `PATH is a file, a folder with everything below it, a pattern, or - for standard
input. validate reports every problem with its position, its rule and, if known, the
fix, and also reports messages that share an id. Errors cause exit status 1, warnings
do not. A link that leads out of a folder is reported and not followed, unless PATH
itself is the link.

--changed checks the messages that a change adds: those in HEAD and the git index but
not in the merge base of HEAD and REF, in all workspaces or those below PATH. The
change may not edit existing messages, a copy must match the one in its sender's
outbox, and workspace.json must allow the committer to write for the sender. In a
pre-commit hook, REF is HEAD.

EXAMPLES:
   oacp validate agents
   oacp validate --changed origin/main --format github
   oacp validate agents --format sarif > oacp.sarif
   oacp send … --dry-run | oacp validate -`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "changed", Usage: "check the messages added since `REF`, a commit or branch"},
			&cli.StringFlag{Name: "format", Usage: "print `FORMAT`: text, json, sarif (2.1.0), or github (annotations)", Value: "text"},
			&cli.BoolFlag{Name: "json", Usage: "the same as --format json"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print only problems"},
		},
		Action: action(s, anyNumber, runValidate),
	}
}

func runValidate(c *call) error {
	isChange, base, format := c.isSet("changed"), c.text("changed"), c.text("format")
	if c.json() {
		format = "json"
	}
	switch {
	case len(c.words) == 0 && !isChange:
		return failure.Usagef("needs a file, a folder, a pattern, or -")
	case !slices.Contains(validateFormats, format):
		return failure.Usagef("--format: there is no format %s", visible.Quote(format)).
			WithHint(spelling.DidYouMean(validateFormats, format, "the formats are "+strings.Join(validateFormats, ", ")))
	case isChange && slices.Contains(c.words, "-"):
		return failure.Usagef("--changed checks files in git, not standard input")
	case isChange && base == "":
		return failure.Usagef("--changed: the commit is missing").WithHint("origin/main, for example; HEAD checks what is staged")
	}
	defer c.catchSignals()()
	defer lessGarbageCollection()()
	bar := newProgress(c.Streams, "validating")
	contracts := &contract.Workspaces{Program: command.ContractProgram}
	files := &validate.FilesOptions{Stdin: c.In, Progress: bar.update, Contract: contracts.Judge}
	var result *validate.Result
	var err error
	if isChange {
		result, err = change.Check(c.ctx, change.Options{Dir: c.Dir, Base: base, Paths: c.words, Files: files})
	} else {
		result, err = validate.Files(c.ctx, c.words, files)
	}
	bar.clear()
	err = errors.Join(err, contracts.Close())
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	result.Files = append(result.Files, contracts.Problems()...)
	switch format {
	case "json":
		err = result.WriteJSON(c.Out)
	case "sarif":
		err = result.WriteSARIF(c.Out, command.BuildVersion().Version)
	case "github":
		err = result.WriteGitHub(c.Out)
	default:
		err = result.WriteText(c.Out, c.Color(), c.isOn("quiet"))
	}
	if err == nil && result.HasErrors() {
		err = failure.ErrReported
	}
	return err
}
