// oacp does not read the CPU limit of a container, which would take 0.2 ms at each start. In a
// container, validate and inbox therefore start a thread for each CPU of the machine.
//
//go:debug containermaxprocs=0

// Command oacp sends, checks, lists, reads and answers the messages that coding agents leave each
// other in a shared folder.
//
// A command is an xCall: its flags are fields, newXCommand declares them, and run carries it out. Commands
// parse and print; packages decide.
package main

import (
	"context"

	"github.com/oacp-go/oacp/internal/command"
)

func main() { program().Main() }

// run runs a command line inside this process and returns its exit status.
func run(ctx context.Context, args []string, s *command.Streams) int {
	return program().Run(ctx, args, s)
}

// program lists the commands in the order of the help text: the most used first.
func program() *command.Program {
	return &command.Program{
		Commands: []command.Entry{
			{Name: "send", New: newSendCommand},
			{Name: "next", New: newNextCommand, Reads: true},
			{Name: "read", New: newReadCommand, Reads: true},
			{Name: "reply", New: newReplyCommand},
			{Name: "ack", New: newAckCommand},
			{Name: "decide", New: newDecideCommand},
			{Name: "working", New: newWorkingCommand},
			{Name: "recall", New: newRecallCommand},
			{Name: "return", New: newReturnCommand},
			{Name: "owed", New: newOwedCommand, Reads: true},
			{Name: "inbox", New: newInboxCommand, Reads: true},
			{Name: "thread", New: newThreadCommand, Reads: true},
			{Name: "status", New: newStatusCommand, Reads: true},
			{Name: "run", New: newRunCommand},
			{Name: "stop", New: newStopCommand},
			{Name: "pair", New: newPairCommand},
			{Name: "agents", New: newAgentsCommand, Reads: true},
			{Name: "live", New: newLiveCommand},
			{Name: "hook", New: newHookCommand, Silent: true},
			{Name: "list", New: newListCommand, Reads: true},
			{Name: "restore", New: newRestoreCommand},
			{Name: "watch", New: newWatchCommand, Reads: true},
			{Name: "validate", New: newValidateCommand, Reads: true},
			{Name: "schema", New: newSchemaCommand, Reads: true},
			{Name: "init", New: newInitCommand},
			{Name: "commit", New: newCommitCommand},
			{Name: "add-agent", New: newAddAgentCommand},
			{Name: "remove-agent", New: newRemoveAgentCommand},
			{Name: "prune", New: newPruneCommand},
			{Name: "sync", New: newSyncCommand},
			{Name: "setup", New: newSetupCommand},
			{Name: "allow", New: newAllowCommand},
			{Name: "doctor", New: newDoctorCommand, Reads: true},
			{Name: "key", New: newKeyCommand},
			{Name: "trust", New: newTrustCommand},
			{Name: "verify", New: newVerifyCommand, Reads: true},
			{Name: "bridge", New: newBridgeCommand},
			{Name: "mirror", New: newMirrorCommand},
			{Name: "convert", New: newConvertCommand},
			{Name: "ash", New: newAshCommand},
			{Name: "demo", New: newDemoCommand, Reads: true},
			{Name: "completion", New: command.NewCompletionCommand, Reads: true},
			{Name: "help", New: command.NewHelpCommand, Reads: true},
			{Name: "version", New: command.NewVersionCommand, Reads: true},
		},
		Separate: []command.Separate{
			{Name: "mcp", Category: command.CategoryTurns, Usage: "serve the mailbox as MCP tools"},
			{Name: "dashboard", Category: command.CategoryTurns, Usage: "show everything, live"},
			{Name: "web", Category: command.CategoryTurns, Usage: "read and answer in a browser"},
			{Name: "contract"}, // other commands run it
			{Name: "gascity"},  // Gas City runs it
		},
	}
}
