package main

import (
	"bufio"
	"bytes"
	"context"
	"embed"
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
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live/setup"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

// demoFiles holds steps.txt, whose paragraphs are the steps, and the files that steps copy. A line of a step is
//
//	$ COMMAND        the command, as a user types it
//	fails            the command is to fail
//	= NAME           NAME stands for the message that the command sent in later steps
//	+ FILE PATH      FILE is copied to PATH first
//	git ARGUMENTS    git runs first
//
// or what the step shows. Steps in clones of a repository need git.
//
//go:embed demo
var demoFiles embed.FS

func newDemoCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:     "demo",
		Category: command.CategoryProgram,
		Usage:    "see it at work",
		Description: `Two agents exchange messages in a scratch folder, which is removed at the end. Each
step shows a command that you can type yourself, and its output.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "keep", Usage: "keep the folder"},
			jsonFlag(),
		},
		Action: action(s, 0, runDemo),
	}
}

func runDemo(c *call) (err error) {
	defer c.catchSignals()()
	dir, err := os.MkdirTemp("", "oacp-demo-")
	if err != nil {
		return err
	}
	if !c.isOn("keep") {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	steps, err := demoFiles.ReadFile("demo/steps.txt")
	if err != nil {
		return err
	}
	d := newDemo(dir, c.Streams)
	for i, step := range strings.Split(string(steps), "\n\n") {
		result := demoResult{Step: i + 1}
		err := d.run(c.ctx, step, &result)
		if cause := context.Cause(c.ctx); cause != nil {
			return cause
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if err := result.print(c); err != nil {
			return err
		}
	}
	switch {
	case c.json():
	case c.isOn("keep"):
		c.printf("The folder is %s\n", visible.Line(dir))
	default:
		c.printf("The scratch folder is removed; oacp demo --keep keeps it. oacp init makes a\nworkspace, and oacp help lists the commands.\n")
	}
	return nil
}

// A demo is one run of the steps.
type demo struct {
	dir     string
	streams command.Streams
	// names are pairs of a name in the steps and what it stands for.
	names []string
}

// newDemo returns a demo in the folder, with an environment that names no agent.
func newDemo(dir string, s *command.Streams) *demo {
	inner := *s
	inner.Getenv = func(name string) string {
		switch name {
		case "NO_COLOR", "TERM":
			return s.Getenv(name)
		case command.RunsVariable:
			return filepath.Join(dir, "runs")
		}
		return ""
	}
	return &demo{dir: dir, streams: inner, names: []string{"{folder}", dir}}
}

// demoResult is the outcome of a step.
type demoResult struct {
	Step    int    `json:"step"`
	Explain string `json:"explain"`
	Command string `json:"command"`
	Exit    int    `json:"exit"`
	Output  string `json:"output"`
	// Skipped says why the step did not run.
	Skipped string `json:"skipped,omitempty"`
}

// run runs a step.
func (d *demo) run(ctx context.Context, step string, r *demoResult) (err error) {
	want, sent := failure.ExitDone, ""
	var prepare [][]string
	for line := range strings.Lines(step) {
		line = strings.TrimSpace(line)
		mark, text, _ := strings.Cut(line, " ")
		switch mark {
		case "$":
			r.Command = text
		case "fails":
			want = failure.ExitFailed
		case "=":
			sent = text
		case "+", "git":
			prepare = append(prepare, strings.Fields(line))
		default:
			r.Explain = line
		}
	}
	if strings.HasPrefix(r.Command, "cd ") {
		if err := git.Check(ctx); err != nil {
			*r = demoResult{Step: r.Step, Explain: r.Explain, Skipped: err.Error()}
			return nil
		}
	}
	for _, words := range prepare {
		if err := d.prepare(ctx, words); err != nil {
			return err
		}
	}
	r.Exit, r.Output, err = d.call(ctx, r.Command)
	r.Command = strings.NewReplacer(d.names...).Replace(r.Command)
	if err == nil && r.Exit != want {
		err = fmt.Errorf("%s ended with status %d instead of %d: %s", r.Command, r.Exit, want, r.Output)
	}
	if words := strings.Fields(r.Output); sent != "" && len(words) > 1 {
		d.names = append(d.names, sent, words[1])
	}
	return err
}

// prepare carries out a line that no user types.
func (d *demo) prepare(ctx context.Context, words []string) error {
	if words[0] == "git" {
		_, err := (&git.Repository{Dir: d.dir}).Run(ctx, words[1:]...)
		return err
	}
	data, err := demoFiles.ReadFile("demo/" + words[1])
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.dir, words[2]), data, 0o644)
}

// call runs a command line, which may begin with "cd FOLDER && ".
func (d *demo) call(ctx context.Context, line string) (exit int, output string, err error) {
	words, err := shellwords.Parse(strings.ReplaceAll(line, "&&", "and"))
	if err != nil {
		return 0, "", err
	}
	for i := range words { // a path of Windows has characters that the parser takes
		words[i] = strings.NewReplacer(d.names...).Replace(words[i])
	}
	inner, text := d.streams, new(bytes.Buffer)
	inner.Dir = d.dir
	if words[0] == "cd" {
		inner.Dir, words = filepath.Join(d.dir, words[1]), words[3:]
	}
	inner.Out, inner.Err = bufio.NewWriter(text), text
	exit = run(ctx, words[1:], &inner)
	return exit, text.String(), nil
}

func (r demoResult) print(c *call) error {
	if c.json() {
		return command.WriteJSONLine(c.Out, r)
	}
	const columns = 76
	for _, line := range command.Wrapped(fmt.Sprintf("%d. %s", r.Step, r.Explain), columns) {
		c.printf("%s\n", line)
	}
	c.printf("\n")
	if r.Skipped != "" {
		c.printf("   skipped: %s\n\n", visible.Line(r.Skipped))
		return c.Out.Flush()
	}
	c.printf("   %s\n", paint(c.Streams, bold, "$ "+r.Command))
	for line := range strings.Lines(r.Output) {
		c.printf("   %s", line)
	}
	c.printf("\n")
	return c.Out.Flush()
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
deliveries: it delivers sent messages and removes leftovers. The exit status is 1 if errors remain; warnings do not count.`,
		Flags: flagsWith(
			&cli.BoolFlag{Name: "fix", Usage: "complete interrupted deliveries"},
			&cli.StringFlag{Name: "output", Category: command.Rare, Aliases: []string{"o"}, Usage: "also write the report to `FILE`"}),
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
	if err := printReport(c, &report); err != nil {
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
	sessions, err := setup.InspectSessions(w, c.Now())
	report.Add(sessions...)
	return err
}

// autonomyOf returns whether oacp run holds the messages of an agent, or why it cannot run.
func autonomyOf(w *mailbox.Workspace, name schema.AgentName) (project.Autonomy, error) {
	settings, err := turn.LoadSettings(w, name)
	return settings.Autonomy, err
}

// printReport prints the report, and writes it to the file of --output.
func printReport(c *call, r *doctor.Report) error {
	if err := c.answer(r, func() { writeReport(r, c.Streams) }); err != nil || c.text("output") == "" {
		return err
	}
	path, err := project.ExpandHome(c.text("output"))
	if err != nil {
		return err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.Dir, path)
	}
	var text bytes.Buffer
	file := *c.Streams
	file.Out, file.OutTerminal = bufio.NewWriter(&text), false // no colours
	err = errors.Join(file.Answer(c.json(), r, func() { writeReport(r, &file) }), file.Out.Flush(), os.MkdirAll(filepath.Dir(path), 0o755))
	if err == nil {
		err = os.WriteFile(path, text.Bytes(), 0o644)
	}
	if err == nil {
		_, _ = fmt.Fprintf(c.Err, "oacp: the report is in %s\n", visible.Line(path))
	}
	return err
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
