package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fatih/color"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

type demoOptions struct{ keep, json bool }

func newDemoCommand(s *command.Streams) *cli.Command {
	var o demoOptions
	return &cli.Command{
		Name:     "demo",
		Category: command.CategoryProgram,
		Usage:    "see it at work",
		Description: `Two agents exchange messages in a scratch folder, which is removed at the end. Each
step shows a command that you can type yourself, and its output.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "keep", Usage: "keep the folder", Destination: &o.keep},
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
	// prepare, if not nil, runs before the command.
	prepare func(context.Context, *demo) error
	// command holds the words after "oacp". "{name}" is replaced by demo.names[name].
	command []string
	// beside, if not nil, is a command that runs meanwhile, as in another terminal.
	beside []string
	// in and besideIn are the folders in which the commands run, if not that of the demo.
	in, besideIn string
	// git says that the step needs git.
	git bool
	// exit is the expected exit status.
	exit int
}

// demoSteps are the steps, each of which may build on those before it.
var demoSteps = []demoStep{
	{explain: "A workspace is a folder with a mailbox for each agent.",
		command: []string{"init", "--agents", "claude,codex,reviewer"}},
	{explain: "claude gives codex a task. The message is one file, with a copy in codex's inbox and one in claude's outbox, both on disk before the command ends.",
		command: []string{"send", "--from", "claude", "--to", "codex", "--type", "task_request", "--priority", "P1", "--subject", "Fix the login test", "--body", "TestLogin fails since #42. Please find out why."}},
	{explain: "One message can go to several agents: all of them get it, or none does.",
		command: []string{"send", "--from", "claude", "--to", "codex,reviewer", "--type", "notification", "--priority", "P3", "--subject", "Merging at noon", "--body", "Please have your branches pushed."}},
	{explain: "The pending messages of codex, urgent ones and requests first.",
		command: []string{"inbox", "--agent", "codex"}},
	{
		explain: "codex takes its next message; if there were none, next would wait. It changes nothing: a message stays in the inbox until it is acknowledged.",
		prepare: nameFirstPending("codex", "task"),
		command: []string{"next", "--agent", "codex"},
	},
	{explain: "codex asks what it owes.",
		command: []string{"owed", "--agent", "codex"}},
	{explain: "codex answers, and takes the task out of its inbox. The answer goes to claude, in the same conversation.",
		command: []string{"reply", "{task}", "--from", "codex", "--ack", "--body", "A clock in another time zone. Fixed in #43."}},
	{explain: "The conversation, wherever its messages are now.",
		command: []string{"thread", "{task}"}},
	{
		explain: "Another tool writes a bad file. validate says where, why, and how to fix it.",
		prepare: writeBadMessage,
		command: []string{"validate", "{folder}/agents/reviewer/inbox"},
		exit:    failure.ExitFailed,
	},
	{explain: "A bad file hides nothing: the inbox lists it with its error, beside the other messages.",
		command: []string{"inbox", "--agent", "reviewer"}},
	{
		explain: "Mail to an unknown name is an error.",
		command: []string{"send", "--from", "claude", "--to", "codecs", "--type", "question", "--subject", "Are you there?", "--body", "?"},
		exit:    failure.ExitFailed,
	},
	{explain: "AgentPair's agents talk through a log of JSON lines, one for each run. mirror adds the messages so far as records.",
		command: []string{"mirror"}},
	{explain: "An agent that knows only the log approves the work.",
		command: []string{"bridge", "send", "--from", "reviewer", "--to", "claude", "--signal", "PASS", "--content", "The fix in #43 looks good."}},
	{explain: "mirror delivers the record to claude's inbox. It carries nothing twice.",
		command: []string{"mirror"}},
	{explain: "The record is now a message like the others.",
		command: []string{"inbox", "--agent", "claude"}},
	{explain: "The log in numbers.",
		command: []string{"bridge"}},
	{explain: "One more agent. It repeats what it gets, so the demo needs no model.",
		command: []string{"add-agent", "echo"}},
	{
		explain: "A message wakes its agent. In one terminal, oacp run works the inbox; in another, send waits for the answer.",
		beside:  []string{"run", "--agent", "echo", "--driver", "echo", "--reply"},
		command: []string{"send", "--from", "claude", "--to", "echo", "--type", "question", "--subject", "Ping", "--body", "Is anybody there?", "--wait=reply"},
	},
	{
		explain: "Any command can be an agent. If it cannot be started, no message is touched.",
		command: []string{"run", "--agent", "codex", "--reply", "--", "my-agent", "--work"},
		exit:    failure.ExitFailed,
	},
	{explain: "Who works, what is pending, and how many turns each conversation had.",
		command: []string{"status"}},
	{explain: "A line for each message that arrived, for scripts.",
		command: []string{"watch", "--agent", "claude", "--since", "epoch"}},
	{
		explain: "Many machines, one conversation. Two clones of a repository are a laptop and a server here. On the laptop, init puts mailboxes into a branch of their own on the remote.",
		prepare: cloneTwice, git: true, in: "laptop",
		command: []string{"init", "--git", "--agents", "claude,codex"},
	},
	{explain: "sync puts what is new there into the branch, as commits.", git: true, in: "laptop",
		command: []string{"sync"}},
	{
		explain: "The server finds the branch, and joins.", git: true, in: "server",
		command: []string{"init", "--git"},
	},
	{
		explain: "A message and its answer travel. The code, its branches and your git status stay as they are.",
		git:     true, besideIn: "server", in: "laptop",
		beside:  []string{"run", "--agent", "codex", "--driver", "echo", "--reply", "--sync", "200ms"},
		command: []string{"send", "--from", "claude", "--to", "codex", "--type", "question", "--subject", "Ping", "--body", "Is anybody over there?", "--wait=reply", "--sync", "200ms"},
	},
}

// cloneTwice makes a bare repository, and a laptop and a server that have it as their remote.
func cloneTwice(ctx context.Context, d *demo) error {
	hub := filepath.Join(d.dir, "hub.git")
	for _, args := range [][]string{
		{"init", "-q", "--bare", hub},
		{"clone", "-q", hub, filepath.Join(d.dir, "laptop")}, {"clone", "-q", hub, filepath.Join(d.dir, "server")},
		{"-C", filepath.Join(d.dir, "laptop"), "config", "commit.gpgsign", "false"}, // a demo asks for no passphrase
		{"-C", filepath.Join(d.dir, "server"), "config", "commit.gpgsign", "false"},
	} {
		if _, err := new(git.Repository).Run(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// nameFirstPending returns a preparation that names the first message of an inbox.
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
	for i, step := range demoSteps {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		result, err := d.run(ctx, step)
		if missing := noGit(err); step.git && missing != nil {
			result, err = demoResult{Explain: step.explain, Skipped: missing.Error()}, nil
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if err := result.print(i+1, o, s); err != nil {
			return err
		}
	}
	switch {
	case o.json:
	case o.keep:
		fmt.Fprintf(s.Out, "The folder is %s\n", visible.Line(dir))
	default:
		fmt.Fprintln(s.Out, "The scratch folder is removed; oacp demo --keep keeps it. oacp init makes a\nworkspace, and oacp help lists the commands.")
	}
	return nil
}

// noGit returns the error, or nil unless it says that there is no git that can be used.
func noGit(err error) error {
	if _, old := errors.AsType[*git.VersionError](err); old || errors.Is(err, git.ErrMissing) {
		return err
	}
	return nil
}

// newDemo returns a demo in the folder, with an environment that names no agent.
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

// streamsTo returns streams of a command in a folder of the demo, whose output goes to a buffer.
func (d *demo) streamsTo(output *demoOutput, in string) *command.Streams {
	inner := *d.streams
	inner.Dir = filepath.Join(d.dir, in)
	inner.Out, inner.Err = bufio.NewWriter(output), output
	return &inner
}

// demoOutput is the output of a command, of which several goroutines may write.
type demoOutput struct {
	lock sync.Mutex
	text bytes.Buffer
}

func (o *demoOutput) Write(data []byte) (int, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.text.Write(data)
}

func (o *demoOutput) String() string {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.text.String()
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

func (d *demo) run(ctx context.Context, step demoStep) (demoResult, error) {
	if step.git {
		if err := git.Check(ctx); err != nil {
			return demoResult{}, err
		}
	}
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
	var output demoOutput
	inner := d.streamsTo(&output, step.in)
	result := demoResult{Explain: step.explain, Command: commandLine(step.in, args)}
	if step.beside == nil {
		result.Exit = run(ctx, args, inner)
	} else {
		var err error
		result.Beside = commandLine(step.besideIn, step.beside)
		result.BesideOutput, err = d.runBeside(ctx, step, func() { result.Exit = run(ctx, args, inner) })
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

// runBeside runs a command while other runs, then stops it. It returns what the command printed.
func (d *demo) runBeside(ctx context.Context, step demoStep, other func()) (string, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var output demoOutput
	inner := d.streamsTo(&output, step.besideIn)
	ended := make(chan int)
	go func() { ended <- run(ctx, step.beside, inner) }()
	other()
	stop()
	if exit := <-ended; exit != failure.ExitDone {
		return "", fmt.Errorf("oacp %s ended with status %d: %s", step.beside[0], exit, output.String())
	}
	return output.String(), nil
}

// commandLine returns the command as a user types it into a shell.
func commandLine(in string, args []string) string {
	line := "oacp"
	if in != "" {
		line = "cd " + in + " && oacp"
	}
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
	for _, line := range command.Wrapped(fmt.Sprintf("%d. %s", step, r.Explain), columns) {
		fmt.Fprintln(s.Out, line)
	}
	fmt.Fprintln(s.Out)
	if r.Skipped != "" {
		fmt.Fprintf(s.Out, "   skipped: %s\n\n", visible.Line(r.Skipped))
		return s.Out.Flush()
	}
	if r.Beside != "" {
		printCommand(s, r.Beside, r.BesideOutput)
	}
	printCommand(s, r.Command, r.Output)
	return s.Out.Flush()
}

func printCommand(s *command.Streams, command, output string) {
	fmt.Fprintf(s.Out, "   %s\n", paint(s, colors{color.Bold}, "$ "+command))
	for line := range strings.Lines(output) {
		fmt.Fprintf(s.Out, "   %s", line)
	}
	fmt.Fprintln(s.Out)
}
