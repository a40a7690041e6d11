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
		explain: "One more agent. It repeats what it gets, so the demo needs no model.",
		command: []string{"add-agent", "echo"},
	},
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
	{
		explain: "Who works, what is pending, and how many turns each conversation had.",
		command: []string{"status"},
	},
	{
		explain: "A line for each message that arrived, for scripts.",
		command: []string{"watch", "--agent", "claude", "--once", "--since", "epoch"},
	},
}

// runBeside runs a command while other runs, then stops it. It returns what the command printed.
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
