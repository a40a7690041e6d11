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

	"github.com/mattn/go-shellwords"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
)

// demoSteps are the steps, separated by empty lines. A line of a step is
//
//	$ COMMAND        the command, as a user types it
//	fails            the command must fail
//	= NAME           in later steps, NAME stands for the id of the message that the command sent
//
// or the explanation of the step.
//
//go:embed demo.txt
var demoSteps string

func newDemoCommand(s *command.Streams) *cli.Command {
	c := newCall(s)
	return &cli.Command{
		Name:     "demo",
		Category: command.CategoryProgram,
		Usage:    "see it at work",
		Description: `Two agents exchange messages in a scratch folder, which is removed at the end. Each
step shows a command that you can type yourself, and its output.`,
		Action: c.action(0, c.runDemo),
	}
}

func (c *call) runDemo() (err error) {
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
	c.Printf("The scratch folder is removed. oacp init makes a workspace, and oacp help lists the commands.\n")
	return nil
}

// A demo is one run of the steps.
type demo struct {
	*call
	dir string
	// names are pairs of a name and the id that it stands for.
	names []string
}

// run runs a step, and prints its explanation, the command and the output.
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
		d.Printf("%s\n", text)
	}
	d.Printf("\n   %s\n", paint(d.Streams, bold, "$ "+line))
	for text := range strings.Lines(output) {
		d.Printf("   %s", text)
	}
	d.Printf("\n")
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
