package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"

	"github.com/oacp-go/oacp/internal/failure"
)

// turnSteps are the steps of the demo in which a message wakes an agent.
var turnSteps = []demoStep{
	{
		explain: "One more agent. It says back what it is told, so that a turn can be seen without any model.",
		command: []string{"add-agent", "echo"},
	},
	{
		explain: "A message wakes its agent. In one terminal a process works the inbox; in another somebody asks, and has the answer as soon as it is there.",
		beside:  []string{"run", "--agent", "echo", "--driver", "echo", "--reply"},
		command: []string{"send", "--from", "claude", "--to", "echo", "--type", "question", "--subject", "Ping", "--body", "Is anybody there?", "--wait=reply"},
	},
	{
		explain: "Any command can be an agent. One that cannot be started is found before any message is touched.",
		command: []string{"run", "--agent", "codex", "--reply", "--", "my-agent", "--work"},
		exit:    failure.ExitFailed,
	},
	{
		explain: "Who works, what waits, and how deep the conversations are.",
		command: []string{"status"},
	},
	{
		explain: "A line for each message that arrived, for scripts to wait for.",
		command: []string{"watch", "--agent", "claude", "--once", "--since", "epoch"},
	},
}

// runBeside carries out a command while another one runs, and then tells it to
// stop. It returns what the command printed.
func (d *demo) runBeside(ctx context.Context, args []string, other func()) (string, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var output bytes.Buffer
	inner := *d.streams
	inner.Out, inner.Err = bufio.NewWriter(&output), &output
	ended := make(chan int)
	go func() { ended <- run(ctx, args, &inner) }()
	other()
	stop()
	if exit := <-ended; exit != failure.ExitDone {
		return "", fmt.Errorf("oacp %s ended with status %d: %s", args[0], exit, output.String())
	}
	return output.String(), nil
}
