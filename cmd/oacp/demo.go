package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

type demoOptions struct {
	keep bool
	json bool
}

func newDemoCommand(s *command.Streams) *cli.Command {
	var o demoOptions
	return &cli.Command{
		Name:     "demo",
		Category: command.CategoryProgram,
		Usage:    "see all of it at work in a scratch folder, in seconds",
		Description: `Two agents exchange messages in a folder that is made for it and removed again.
Every step shows the command, which you can type as well, and what it prints.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "keep", Usage: "keep the folder, to look around in it", Destination: &o.keep},
			command.JSONFlag(&o.json),
		},
		Action: func(c *cli.Context) error {
			if err := command.NoPositionals(c); err != nil {
				return err
			}
			return runDemo(c.Context, o, s)
		},
	}
}

// A demoStep is one command of the demo.
type demoStep struct {
	// explain says what the step shows.
	explain string
	// prepare, where there is one, sets the scene.
	prepare func(context.Context, *demo) error
	// command is what is typed behind "oacp". "{name}" stands for what
	// prepare put into demo.names.
	command []string
	// beside, where there is one, is a command that runs meanwhile, as in
	// another terminal, and is stopped in the end.
	beside []string
	// exit is the status that the command is to end with.
	exit int
}

// demoSteps is the whole demo. A step may build on those before it.
var demoSteps = []demoStep{
	{
		explain: "A workspace is a folder with a mailbox for each agent.",
		command: []string{"init", "--agents", "claude,codex,reviewer"},
	},
	{
		explain: "claude hands codex a task. The message is one file: a copy in codex's inbox, a copy in claude's outbox, both on disk before the command ends.",
		command: []string{"send", "--from", "claude", "--to", "codex", "--type", "task_request", "--priority", "P1", "--subject", "Fix the login test", "--body", "TestLogin fails since #42. Please find out why."},
	},
	{
		explain: "One message can go to several agents: all of them get it, or none does.",
		command: []string{"send", "--from", "claude", "--to", "codex,reviewer", "--type", "notification", "--priority", "P3", "--subject", "Merging at noon", "--body", "Please have your branches pushed."},
	},
	{
		explain: "What waits for codex, the urgent and the requests first.",
		command: []string{"inbox", "--agent", "codex"},
	},
	{
		explain: "codex reads its task. Reading changes nothing.",
		prepare: nameFirstPending("codex", "task"),
		command: []string{"read", "{task}"},
	},
	{
		explain: "codex answers. The answer finds its way back and into the same conversation.",
		command: []string{"reply", "{task}", "--from", "codex", "--body", "A clock in another time zone. Fixed in #43."},
	},
	{
		explain: "Only when a message is dealt with does it leave the inbox; its sender keeps a copy.",
		command: []string{"ack", "{task}", "--agent", "codex"},
	},
	{
		explain: "The conversation, wherever its messages are now.",
		command: []string{"thread", "{task}"},
	},
	{
		explain: "Another tool writes a bad file. It is told where and why, and how to mend it.",
		prepare: writeBadMessage,
		command: []string{"validate", "{folder}/agents/reviewer/inbox"},
		exit:    failure.ExitFailed,
	},
	{
		explain: "A bad file hides nothing: it is listed with what is wrong, the others as ever.",
		command: []string{"inbox", "--agent", "reviewer"},
	},
	{
		explain: "Nothing is sent into the void: a name that nobody has is an error.",
		command: []string{"send", "--from", "claude", "--to", "codecs", "--type", "question", "--subject", "Are you there?", "--body", "?"},
		exit:    failure.ExitFailed,
	},
	{
		explain: "AgentPair's agents talk through a log of JSON lines, one for each run. What was sent so far, as such records.",
		command: []string{"mirror"},
	},
	{
		explain: "An agent that knows nothing but that log approves of the work.",
		command: []string{"bridge", "send", "--from", "reviewer", "--to", "claude", "--signal", "PASS", "--content", "The fix in #43 looks good."},
	},
	{
		explain: "The mirror brings it into claude's inbox. What it has carried before, it does not carry again.",
		command: []string{"mirror"},
	},
	{
		explain: "There it is, a message like the others.",
		command: []string{"inbox", "--agent", "claude"},
	},
	{
		explain: "And this is the log, in numbers.",
		command: []string{"bridge"},
	},
}

// nameFirstPending returns a preparation that calls the first message of the
// agent's inbox by the name.
func nameFirstPending(agent schema.AgentName, name string) func(context.Context, *demo) error {
	return func(ctx context.Context, d *demo) error {
		return command.Workspace{Dir: d.dir}.With(d.streams, nil, func(w *mailbox.Workspace) error {
			entries, err := w.Inbox(ctx, agent)
			if err != nil {
				return err
			}
			if len(entries) == 0 {
				return fmt.Errorf("the inbox of %s is empty", agent)
			}
			d.names[name] = shortIDs(entries)[0]
			return nil
		})
	}
}

func writeBadMessage(_ context.Context, d *demo) error {
	const content = `id: msg-20260901T1200Z-other-ab12
from: other
to: reviewer
type: reveiw_request
priority: p2
created_at_utc: 2026-02-30T12:00:00Z
subject: Please look
body: "#42"
`
	path := filepath.Join(d.dir, "agents", "reviewer", "inbox", "20260901T1200Z_other_review_request.yaml")
	return os.WriteFile(path, []byte(content), 0o644)
}

// A demo is one run of the steps.
type demo struct {
	dir     string
	streams *command.Streams
	names   map[string]string
}

func runDemo(ctx context.Context, o demoOptions, s *command.Streams) (err error) {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	dir, err := os.MkdirTemp("", "oacp-demo-")
	if err != nil {
		return err
	}
	if !o.keep {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	d := newDemo(dir, s)
	for i, step := range slices.Concat(demoSteps, turnSteps) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		result, err := d.run(ctx, step)
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if err := result.print(i+1, o, s); err != nil {
			return err
		}
	}
	if o.json {
		return nil
	}
	if o.keep {
		fmt.Fprintf(s.Out, "The folder is %s\n", visible.Line(dir))
		return nil
	}
	fmt.Fprintln(s.Out, "That was all in a scratch folder, which is gone. oacp init makes one to keep;\noacp demo --keep leaves this one; oacp help lists the commands.")
	return nil
}

// newDemo makes the world in which the steps run: the scratch folder, and an
// environment in which nobody has said who they are.
func newDemo(dir string, s *command.Streams) *demo {
	inner := *s
	inner.Dir = dir
	inner.Getenv = func(name string) string {
		switch name {
		case "NO_COLOR", "TERM":
			return s.Getenv(name)
		case command.RunsVariable:
			return filepath.Join(dir, "runs")
		}
		return ""
	}
	return &demo{dir: dir, streams: &inner, names: map[string]string{"folder": dir}}
}

// demoResult is what a step did.
type demoResult struct {
	Step    int    `json:"step"`
	Explain string `json:"explain"`
	Command string `json:"command"`
	Exit    int    `json:"exit"`
	Output  string `json:"output"`
	// Beside is the command that ran meanwhile.
	Beside       string `json:"beside,omitempty"`
	BesideOutput string `json:"beside_output,omitempty"`
}

func (d *demo) run(ctx context.Context, step demoStep) (demoResult, error) {
	if step.prepare != nil {
		if err := step.prepare(ctx, d); err != nil {
			return demoResult{}, err
		}
	}
	args := make([]string, len(step.command))
	for i, arg := range step.command {
		for name, value := range d.names {
			arg = strings.ReplaceAll(arg, "{"+name+"}", value)
		}
		args[i] = arg
	}
	var output bytes.Buffer
	inner := *d.streams
	inner.Out, inner.Err = bufio.NewWriter(&output), &output
	result := demoResult{Explain: step.explain, Command: commandLine(args)}
	if step.beside == nil {
		result.Exit = run(ctx, args, &inner)
	} else {
		var err error
		result.Beside = commandLine(step.beside)
		result.BesideOutput, err = d.runBeside(ctx, step.beside, func() { result.Exit = run(ctx, args, &inner) })
		if err != nil {
			return demoResult{}, err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return demoResult{}, err
	}
	if result.Exit != step.exit {
		return demoResult{}, fmt.Errorf("oacp %s ended with status %d instead of %d: %s", args[0], result.Exit, step.exit, output.String())
	}
	result.Output = output.String()
	return result, nil
}

// commandLine returns the command as one types it into a shell.
func commandLine(args []string) string {
	line := "oacp"
	for _, arg := range args {
		if strings.ContainsAny(arg, " #?") {
			arg = `"` + arg + `"`
		}
		line += " " + arg
	}
	return line
}

func (r demoResult) print(step int, o demoOptions, s *command.Streams) error {
	r.Step = step
	if o.json {
		return command.WriteJSONLine(s.Out, r)
	}
	const columns = 76
	for line := range strings.Lines(text.WrapSoft(fmt.Sprintf("%d. %s", step, r.Explain), columns)) {
		fmt.Fprintln(s.Out, strings.TrimRight(line, " \n"))
	}
	fmt.Fprintln(s.Out)
	if r.Beside != "" {
		printCommand(s, r.Beside, r.BesideOutput)
	}
	printCommand(s, r.Command, r.Output)
	return s.Out.Flush()
}

func printCommand(s *command.Streams, command, output string) {
	fmt.Fprintf(s.Out, "   %s\n", paint(s, text.Colors{text.Bold}, "$ "+command))
	for line := range strings.Lines(output) {
		fmt.Fprintf(s.Out, "   %s", line)
	}
	fmt.Fprintln(s.Out)
}
