package main

import (
	"context"
	"errors"
	"runtime/debug"
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

type validateOptions struct {
	paths   []string
	changed string
	format  string
	json    bool
	quiet   bool
}

var validateFormats = []string{"text", "json", "sarif", "github"}

func newValidateCommand(s *command.Streams) *cli.Command {
	var o validateOptions
	return &cli.Command{
		Name:      "validate",
		Category:  command.CategoryFiles,
		Usage:     "check message files",
		ArgsUsage: "PATH… | --changed REF [PATH…]",
		Description: `PATH is a file, a folder with everything below it, or - for standard input. validate
reports every problem with its position, its rule and, if known, the fix, and also
reports messages that share an id. Errors cause exit status 1, warnings do not. A link
that leads out of a folder is reported and not followed, unless PATH itself is the
link.

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
			&cli.StringFlag{Name: "changed", Usage: "check the messages added since `REF`, a commit or branch", Destination: &o.changed},
			&cli.StringFlag{Name: "format", Usage: "print `FORMAT`: text, json, sarif (2.1.0), or github (annotations)", Value: "text", Destination: &o.format},
			&cli.BoolFlag{Name: "json", Usage: "the same as --format json", Destination: &o.json},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print only problems", Destination: &o.quiet},
		},
		Action: func(c *cli.Context) error {
			o.paths = command.Positionals(c)
			isChange := c.IsSet("changed")
			if len(o.paths) == 0 && !isChange {
				return failure.Usagef("needs a file, a folder, or -")
			}
			if o.json {
				o.format = "json"
			}
			if !slices.Contains(validateFormats, o.format) {
				return failure.Usagef("--format: there is no format %s", visible.Quote(o.format)).
					WithHint(spelling.DidYouMean(validateFormats, o.format, "the formats are "+strings.Join(validateFormats, ", ")))
			}
			if isChange && slices.Contains(o.paths, "-") {
				return failure.Usagef("--changed checks files in git, not standard input")
			}
			if isChange && o.changed == "" {
				return failure.Usagef("--changed: the commit is missing").WithHint("origin/main, for example; HEAD checks what is staged")
			}
			return runValidate(c.Context, o, s)
		},
	}
}

func runValidate(ctx context.Context, o validateOptions, s *command.Streams) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	// Large folders make much garbage at once, and the process ends soon.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	bar := newProgress(s, "validating")
	contracts := &contract.Workspaces{Program: command.ContractProgram}
	files := &validate.FilesOptions{Stdin: s.In, Progress: bar.update, Contract: contracts.Judge}
	var result *validate.Result
	var err error
	if o.changed != "" {
		result, err = change.Check(ctx, change.Options{Dir: s.Dir, Base: o.changed, Paths: o.paths, Files: files})
	} else {
		result, err = validate.Files(ctx, o.paths, files)
	}
	bar.clear()
	err = errors.Join(err, contracts.Close())
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	result.Files = append(result.Files, contracts.Problems()...)
	switch o.format {
	case "json":
		err = result.WriteJSON(s.Out)
	case "sarif":
		err = result.WriteSARIF(s.Out, command.BuildVersion().Version)
	case "github":
		err = result.WriteGitHub(s.Out)
	default:
		err = result.WriteText(s.Out, s.Color(), o.quiet)
	}
	if err == nil && result.HasErrors() {
		err = failure.ErrReported
	}
	return err
}
