package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fatih/color"
	"github.com/mattn/go-shellwords"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live/setup"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

// demoSteps are the steps, apart by empty lines. A line of a step is
//
//	$ COMMAND        the command, as a user types it
//	fails            the command is to fail
//	= NAME           NAME stands for the message that the command sent in later steps
//
// or what the step shows.
//
//go:embed demo.txt
var demoSteps string

func newDemoCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:     "demo",
		Category: command.CategoryProgram,
		Usage:    "see it at work",
		Description: `Two agents exchange messages in a scratch folder, which is removed at the end. Each
step shows a command that you can type yourself, and its output.`,
		Action: action(s, 0, runDemo),
	}
}

func runDemo(c *call) (err error) {
	defer c.catchSignals()()
	dir, err := os.MkdirTemp("", "oacp-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := &demo{call: c, dir: dir}
	for i, step := range strings.Split(demoSteps, "\n\n") {
		err := d.run(step, i+1)
		if cause := context.Cause(c.ctx); cause != nil {
			return cause
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	c.printf("The scratch folder is removed. oacp init makes a workspace, and oacp help lists the commands.\n")
	return nil
}

// A demo is one run of the steps.
type demo struct {
	*call
	dir string
	// names are pairs of a name in the steps and what it stands for.
	names []string
}

// run runs a step, and prints what it shows, the command and its output.
func (d *demo) run(step string, number int) error {
	want, sent, line, explain := failure.ExitDone, "", "", ""
	for text := range strings.Lines(step) {
		text = strings.TrimSpace(text)
		switch mark, rest, _ := strings.Cut(text, " "); mark {
		case "$":
			line = strings.NewReplacer(d.names...).Replace(rest)
		case "fails":
			want = failure.ExitFailed
		case "=":
			sent = rest
		default:
			explain = text
		}
	}
	exit, output, err := d.execute(line)
	if err == nil && exit != want {
		err = fmt.Errorf("%s ended with status %d instead of %d: %s", line, exit, want, output)
	}
	if words := strings.Fields(output); sent != "" && len(words) > 1 {
		d.names = append(d.names, sent, words[1])
	}
	if err != nil {
		return err
	}
	const columns = 76
	for _, text := range command.Wrapped(fmt.Sprintf("%d. %s", number, explain), columns) {
		d.printf("%s\n", text)
	}
	d.printf("\n   %s\n", paint(d.Streams, bold, "$ "+line))
	for text := range strings.Lines(output) {
		d.printf("   %s", text)
	}
	d.printf("\n")
	return d.Out.Flush()
}

// execute runs a command line in the folder, with an environment that names no agent.
func (d *demo) execute(line string) (exit int, output string, err error) {
	words, err := shellwords.Parse(line)
	if err != nil {
		return 0, "", err
	}
	inner, text := *d.Streams, new(bytes.Buffer)
	inner.Dir, inner.Out, inner.Err = d.dir, bufio.NewWriter(text), text
	inner.Getenv = func(name string) string {
		switch name {
		case "NO_COLOR", "TERM":
			return d.Getenv(name)
		case command.RunsVariable:
			return filepath.Join(d.dir, "runs")
		}
		return ""
	}
	exit = run(d.ctx, words[1:], &inner)
	return exit, text.String(), nil
}

func newDoctorCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Category:  command.CategoryWorkspace,
		Usage:     "find and fix problems",
		ArgsUsage: "[PROJECT]",
		Description: `doctor checks the programs that agents need, the folders of the workspace, interrupted
deliveries, messages that are invalid, old or dead, keys, schemas for bodies, the
settings of agents, how git treats messages, and whether mail reaches sessions of claude
and codex. Without --fix it changes nothing. With --fix it completes interrupted
deliveries: it delivers sent messages and removes leftovers.
The exit status is 1 if errors remain; warnings do not count.`,
		Flags:  flagsWith(&cli.BoolFlag{Name: "fix", Usage: "complete interrupted deliveries"}),
		Action: ofProject(s, runDoctor),
	}
}

func runDoctor(c *call) error {
	defer c.catchSignals()()
	report := doctor.Report{Fixed: []string{}}
	report.Add(doctor.InspectMachine()...)
	if err := inspect(c, &report); err != nil {
		return err
	}
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	if err := c.answer(&report, func() { writeReport(&report, c.Streams) }); err != nil {
		return err
	}
	if report.HasErrors {
		return failure.ErrReported
	}
	return nil
}

// inspect inspects the workspace, and with --fix repairs it and inspects it again. The machine can
// be checked without a workspace.
func inspect(c *call, report *doctor.Report) error {
	place := c.place.Place(c.Streams)
	_, err := place.Find()
	missing := doctor.Finding{Category: doctor.Categories[0]}
	_, isUnknown := errors.AsType[*project.UnknownProjectError](err)
	switch {
	case errors.Is(err, mailbox.ErrNoWorkspace):
		missing.Name, missing.Severity = "workspace", doctor.SeveritySkipped
	case isUnknown:
		missing.Name, missing.Severity = "project-dir", doctor.SeverityError
	default:
		return c.open(func(c *call, w *mailbox.Workspace) error { return inspectWorkspace(c, w, report) })
	}
	missing.Message, missing.Hint = err.Error(), failure.Of(err).Hint
	report.Add(missing)
	return nil
}

func inspectWorkspace(c *call, w *mailbox.Workspace, report *doctor.Report) error {
	report.Workspace = w.Dir()
	enclosing, err := enclosingOf(c.Dir, w.Dir())
	if err != nil {
		return err
	}
	options := doctor.Options{
		Now: c.Now(), Autonomy: autonomyOf, Contract: command.ContractProgram(), Enclosing: enclosing,
	}
	var findings []doctor.Finding
	if c.isOn("fix") {
		report.Fixed, findings, err = doctor.Repair(c.ctx, w, options)
	} else {
		findings, err = doctor.Inspect(c.ctx, w, options)
	}
	for _, category := range doctor.Categories {
		report.Group(category)
	}
	report.Add(findings...)
	if err != nil {
		return err
	}
	report.Add(setup.Inspect(setup.Options{Workspace: w, Getenv: c.Getenv}, c.Dir)...)
	sessions, err := setup.InspectErrors(w, c.Now())
	report.Add(sessions...)
	return err
}

// autonomyOf returns whether oacp run holds the messages of an agent, or why it cannot run.
func autonomyOf(w *mailbox.Workspace, name schema.AgentName) (project.Autonomy, error) {
	settings, err := turn.LoadSettings(w, name)
	return settings.Autonomy, err
}

func writeReport(r *doctor.Report, s *command.Streams) {
	marks := map[doctor.Severity]colors{
		doctor.SeverityOK: green, doctor.SeverityWarning: yellow,
		doctor.SeverityError: urgent, doctor.SeveritySkipped: {color.Faint},
	}
	for _, c := range r.Categories {
		if len(c.Results) == 0 {
			continue
		}
		fmt.Fprintln(s.Out, paint(s, bold, c.Name))
		for _, f := range c.Results {
			mark := paint(s, marks[f.Severity], fmt.Sprintf("%-5s", f.Severity))
			fmt.Fprintf(s.Out, "  %s  %s: %s\n", mark, visible.Line(f.Name), visible.Line(f.Message))
			if f.Hint != "" && f.Severity != doctor.SeverityOK {
				fmt.Fprintf(s.Out, "         hint: %s\n", visible.Line(f.Hint))
			}
		}
	}
	for _, done := range r.Fixed {
		fmt.Fprintf(s.Out, "fixed: %s\n", visible.Line(done))
	}
}
