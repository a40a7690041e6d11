package main

import (
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/mailbox/project"
)

const logHelp = `The log is the file --bridge, or that of the run --run-id of the repository around the
current folder, or of its latest run.`

// newBridgeCommand returns the parent of the commands for AgentPair's bridge log. Without a command
// it is "oacp bridge status".
func newBridgeCommand(s *command.Streams) *cli.Command {
	status := newBridgeStatusCommand(s)
	return &cli.Command{
		Name:        "bridge",
		Category:    command.CategoryBridge,
		Usage:       "read and write AgentPair's log",
		Description: status.Description,
		Flags:       status.Flags,
		Subcommands: []*cli.Command{newBridgeSendCommand(s), newBridgeDrainCommand(s), newBridgeStatusCommand(s)},
		Action: func(c *cli.Context) error {
			if rest := command.Positionals(c); len(rest) > 0 {
				return command.UnknownCommand([]string{"send", "drain", "status"}, rest[0], "oacp bridge")
			}
			return status.Action(c)
		},
	}
}

// agentOrEnvironment returns the agent that a flag names, or else the environment.
func agentOrEnvironment(flag string, s *command.Streams) (string, error) {
	if flag != "" {
		return flag, nil
	}
	agent, err := project.AgentFromEnvironment(s.Getenv)
	return string(agent), err
}
