// Reading the CPU limit of a container takes 0.2 ms at each start, so oacp does not: there, validate
// and inbox start a thread for each CPU of the machine.
//
//go:debug containermaxprocs=0

// Command oacp sends, checks, lists, reads and answers the messages that coding agents leave each
// other in a shared folder.
//
// A command has three parts: newXCommand declares the flags, xOptions holds their values, and runX
// does the work. A command parses and prints; packages decide.
package main

import (
	"context"

	"github.com/oacp-go/oacp/internal/command"
)

func main() {
	p := program()
	p.Exec = command.Exec
	p.Main()
}

// run carries out a command line inside this process and returns the exit status.
func run(ctx context.Context, args []string, s *command.Streams) int {
	return program().Run(ctx, args, s)
}

// program lists the commands in the order of the help text.
func program() *command.Program {
	return &command.Program{
		Commands: []command.Entry{
			{Name: "send", New: newSendCommand},
			{Name: "reply", New: newReplyCommand},
			{Name: "inbox", New: newInboxCommand},
			{Name: "read", New: newReadCommand},
			{Name: "thread", New: newThreadCommand},
			{Name: "ack", New: newAckCommand},
			{Name: "validate", New: newValidateCommand},
			{Name: "schema", New: newSchemaCommand},
			{Name: "key", New: newKeyCommand},
			{Name: "trust", New: newTrustCommand},
			{Name: "verify", New: newVerifyCommand},
			{Name: "watch", New: newWatchCommand},
			{Name: "run", New: newRunCommand},
			{Name: "pair", New: newPairCommand},
			{Name: "status", New: newStatusCommand},
			{Name: "ash", New: newAshCommand},
			{Name: "init", New: newInitCommand},
			{Name: "add-agent", New: newAddAgentCommand},
			{Name: "bridge", New: newBridgeCommand},
			{Name: "mirror", New: newMirrorCommand},
			{Name: "convert", New: newConvertCommand},
			{Name: "doctor", New: newDoctorCommand},
			{Name: "demo", New: newDemoCommand},
			{Name: "completion", New: command.NewCompletionCommand},
			{Name: "help", New: command.NewHelpCommand},
			{Name: "version", New: command.NewVersionCommand},
		},
		Separate: []command.Separate{
			{Name: "mcp", Category: command.CategoryMessages, Usage: "offer mailbox and bridge to an agent as MCP tools"},
			{Name: "dashboard", Category: command.CategoryTurns, Usage: "show agents, runs and messages, live"},
			{Name: "contract", Category: command.CategoryProgram, Usage: "say for other commands whether bodies fit the schemas of a workspace"},
		},
		Reference: []string{
			"agent", "autonomy-outcome", "envelope", "memory", "org-memory", "setup", "write-event",
		},
		Complete: complete,
	}
}
