package main

import (
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/visible"
)

func newAgentsCommand(s *command.Streams) *cli.Command {
	c := newCall(s)
	return &cli.Command{
		Name:     "agents",
		Category: command.CategoryTurns,
		Usage:    "list known programs",
		Description: `agents lists the programs that oacp run is known to work with, and what was observed
when the named version of each ran. Resume says whether a session continues after the
program was killed, and cancel whether a turn can be ended without killing the program.
Other programs that speak the Agent Client Protocol work, too: give their command.

EXAMPLES:
   oacp agents
   oacp run --agent gemini --driver acp --reply
   oacp run --agent codex --driver acp -- my-agent --acp`,
		Flags:  []cli.Flag{c.jsonFlag()},
		Action: c.action(0, c.listPrograms),
	}
}

func (c *call) listPrograms() error {
	programs := agent.KnownPrograms()
	return c.answer(map[string]any{"programs": programs}, func() {
		t := newTable(c.Streams, row{"Program", "Driver", "Command", "Version", "Resume", "Cancel", "Permissions", "Usage", "Live mail"})
		for _, p := range programs {
			cancel := "no"
			if p.Cancel {
				cancel = "yes"
			}
			if p.Version == "" {
				cancel = ""
			}
			t.add(p.Name, p.Driver, visible.ShellCommand(p.Command...), p.Version, p.Resume, cancel, p.Permissions, p.Usage, p.LiveMail)
		}
		t.print()
		for _, p := range programs {
			if p.Note != "" {
				c.Printf("%s: %s\n", p.Name, p.Note)
			}
		}
	})
}
