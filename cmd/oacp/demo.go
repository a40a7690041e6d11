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
	"sync"

	"github.com/mattn/go-shellwords"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/visible"
)

// demoFiles holds steps.txt, whose paragraphs are the steps, and the files that steps copy. A line of a step is
//
//	$ COMMAND        the command, as a user types it
//	& COMMAND        a command that runs meanwhile, as in another terminal
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
	// Beside is the command that ran meanwhile.
	Beside       string `json:"beside,omitempty"`
	BesideOutput string `json:"beside_output,omitempty"`
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
		case "&":
			r.Beside = text
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
	if r.Beside == "" {
		r.Exit, r.Output, err = d.call(ctx, r.Command)
	} else {
		err = d.callBoth(ctx, r)
	}
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

// callBoth runs both commands of a step, and stops the one that runs meanwhile.
func (d *demo) callBoth(ctx context.Context, r *demoResult) (err error) {
	beside, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error)
	go func() {
		exit, output, err := d.call(beside, r.Beside)
		if err == nil && exit != failure.ExitDone {
			err = fmt.Errorf("%s ended with status %d: %s", r.Beside, exit, output)
		}
		r.BesideOutput = output
		ended <- err
	}()
	r.Exit, r.Output, err = d.call(ctx, r.Command)
	stop()
	return errors.Join(err, <-ended)
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
	inner, text := d.streams, new(demoOutput)
	inner.Dir = d.dir
	if words[0] == "cd" {
		inner.Dir, words = filepath.Join(d.dir, words[1]), words[3:]
	}
	inner.Out, inner.Err = bufio.NewWriter(text), text
	exit = run(ctx, words[1:], &inner)
	return exit, text.String(), nil
}

// demoOutput is the output of a command, of which several goroutines may write.
type demoOutput struct {
	lock sync.Mutex
	bytes.Buffer
}

func (o *demoOutput) Write(data []byte) (int, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.Buffer.Write(data)
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
	for _, called := range [][2]string{{r.Beside, r.BesideOutput}, {r.Command, r.Output}} {
		if called[0] == "" {
			continue
		}
		c.printf("   %s\n", paint(c.Streams, bold, "$ "+called[0]))
		for line := range strings.Lines(called[1]) {
			c.printf("   %s", line)
		}
		c.printf("\n")
	}
	return c.Out.Flush()
}
