// Reading the CPU limit of a container takes 0.2 ms at each start, so oacp does not: there, validate
// and inbox start a thread for each CPU of the machine.
//
//go:debug containermaxprocs=0

// Command oacp sends, checks, lists, reads and answers the messages that coding agents leave each
// other in a shared folder.
//
// A command has two parts: newXCommand declares it with its flags, and runX does the work of a call. Commands
// parse and print; packages decide.
package main

import (
	"context"
	"os"
	"strings"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/convert/mirror"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
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

// program lists the commands in the order of the help text: the most used first.
func program() *command.Program {
	return &command.Program{
		Commands: []command.Entry{
			{Name: "send", New: newSendCommand},
			{Name: "next", New: newNextCommand},
			{Name: "read", New: newReadCommand},
			{Name: "reply", New: newReplyCommand},
			{Name: "ack", New: newAckCommand},
			{Name: "owed", New: newOwedCommand},
			{Name: "inbox", New: newInboxCommand},
			{Name: "thread", New: newThreadCommand},
			{Name: "status", New: newStatusCommand},
			{Name: "run", New: newRunCommand},
			{Name: "pair", New: newPairCommand},
			{Name: "live", New: newLiveCommand},
			{Name: "hook", New: newHookCommand, Silent: true},
			{Name: "list", New: newListCommand},
			{Name: "restore", New: newRestoreCommand},
			{Name: "watch", New: newWatchCommand},
			{Name: "validate", New: newValidateCommand},
			{Name: "schema", New: newSchemaCommand},
			{Name: "init", New: newInitCommand},
			{Name: "commit", New: newCommitCommand},
			{Name: "add-agent", New: newAddAgentCommand},
			{Name: "remove-agent", New: newRemoveAgentCommand},
			{Name: "prune", New: newPruneCommand},
			{Name: "sync", New: newSyncCommand},
			{Name: "setup", New: newSetupCommand},
			{Name: "doctor", New: newDoctorCommand},
			{Name: "key", New: newKeyCommand},
			{Name: "trust", New: newTrustCommand},
			{Name: "verify", New: newVerifyCommand},
			{Name: "bridge", New: newBridgeCommand},
			{Name: "mirror", New: newMirrorCommand},
			{Name: "convert", New: newConvertCommand},
			{Name: "ash", New: newAshCommand},
			{Name: "demo", New: newDemoCommand},
			{Name: "completion", New: command.NewCompletionCommand},
			{Name: "help", New: command.NewHelpCommand},
			{Name: "version", New: command.NewVersionCommand},
		},
		Separate: []command.Separate{
			{Name: "mcp", Category: command.CategoryTurns, Usage: "serve the mailbox as MCP tools"},
			{Name: "dashboard", Category: command.CategoryTurns, Usage: "show agents, runs and messages, live"},
			{Name: "contract"}, // for other commands
		},
		Complete: complete,
	}
}

// complete completes the values of placeholders in help texts: that of ID with the ids of pending
// messages, and so on.
func complete(c *command.Completion, placeholder, current string) []command.Candidate {
	switch placeholder {
	case "ID", "CONVERSATION-OR-ID":
		return completeMessages(c, current)
	case "BOX":
		return command.Words(listedBoxes)
	case "TYPE":
		return command.Words(schema.Types())
	case "PRIORITY":
		return command.Words(schema.Priorities())
	case "RUNTIME":
		return command.Words(project.Runtimes)
	case "MODE":
		return command.Words(project.Autonomies)
	case "FORMAT":
		return command.Words(validateFormats)
	case "SCHEMA":
		return command.Words(schemaNames())
	case "TEMPLATE":
		var own []string
		_ = withSchemas(c.Workspace(), c.Streams, func(root *os.Root, dir string) (err error) {
			own, err = contract.Names(root, dir)
			return err
		})
		return command.Words(contract.TemplateNames(own))
	case "KIND":
		return command.Words(bridge.Types())
	case "SIGNAL":
		return command.Words(bridge.Signals())
	case "WAY":
		return command.Words(mirror.Directions())
	case "FORM":
		return command.Words([]string{toBridge, toMailbox})
	case "DRIVER":
		return completeDrivers()
	case "PERMISSION":
		return command.Words(agent.Permissions())
	case "INPUT":
		return command.Words(inputs)
	case string(live.Claude), string(live.Codex):
		return command.Words([]string{placeholder})
	case "WHAT":
		return command.Words(waits)
	}
	return nil
}

func completeDrivers() []command.Candidate {
	var found []command.Candidate
	for _, kind := range agent.Kinds() {
		found = append(found, command.Candidate{Name: kind.Name, Usage: kind.Summary})
	}
	return found
}

// completeMessages completes the ids of pending messages: in full if the current word starts as a
// full id does, otherwise their short form.
func completeMessages(c *command.Completion, current string) (found []command.Candidate) {
	_ = c.Workspace().With(c.Streams, nil, func(w *mailbox.Workspace) error {
		agents, err := w.Agents()
		for _, agent := range agents {
			entries, err := w.Inbox(c.Context, agent)
			if err != nil {
				return err
			}
			for i, short := range shortIDs(entries) {
				m := entries[i].Message
				if m == nil || m.ID == "" {
					continue
				}
				if strings.HasPrefix(current, "m") && !strings.HasPrefix(short, current) {
					short = string(m.ID)
				}
				found = append(found, command.Candidate{Name: short, Usage: string(m.From) + " to " + joinNames(m.To) + ": " + m.Subject})
			}
		}
		return err
	})
	return found
}
