package main

import (
	"slices"

	"github.com/urfave/cli/v2"
)

// exitStatusHelp ends every help text.
const exitStatusHelp = `
EXIT STATUS:
   0     done
   1     what was asked about is bad, or the command failed
   2     the command line is wrong
   128+n stopped by signal n (130 for ^C)
`

const rootHelp = `oacp - {{.Usage}}

USAGE:
   oacp COMMAND [arguments and flags in any order]

COMMANDS:{{range .Groups}}

   {{.Name}}{{$width := offsetCommands .VisibleCommands 5}}{{range .VisibleCommands}}
     {{.Name}}{{indent (subtract $width (offset .Name 3)) ""}}{{wrap .Usage $width}}{{end}}{{end}}

   oacp help COMMAND explains one of them.

THE WORKSPACE is the folder that holds agents/, and is found as follows:
   --dir DIR; the project that is named, in $OACP_HOME/projects (or --oacp-dir,
   or ~/oacp); $OACP_WORKSPACE; the nearest one at or above the current folder.

THE BRIDGE LOG is --bridge FILE; the run --run-id of the repository (--repo DIR,
   or the one around the current folder); its latest run. Runs are in --runs-dir,
   or $OACP_RUNS, or ~/.agentpair/runs.

THE AGENT that acts is --from or --agent, or OACP_AGENT, or AGENT_NAME, or the
   one whose card names the runtime that oacp runs in.

WITH --json, answers and errors are JSON on standard output, and an error is
   an object with the keys error, code and, often, hint.
` + exitStatusHelp

const commandHelp = `{{.HelpName}} - {{.Usage}}

USAGE:
   {{.HelpName}}{{if .VisibleCommands}} COMMAND{{end}}{{if .ArgsUsage}} {{.ArgsUsage}}{{end}}{{if .VisibleFlags}} [flags]{{end}}{{if .Description}}

{{.Description}}{{end}}{{if .VisibleCommands}}

COMMANDS:{{$width := offsetCommands .VisibleCommands 5}}{{range .VisibleCommands}}
   {{.Name}}{{indent (subtract $width (offset .Name 3)) ""}}{{wrap .Usage $width}}{{end}}{{end}}{{if .VisibleFlags}}

FLAGS:{{range .VisibleFlags}}
   {{.}}{{end}}{{end}}
` + exitStatusHelp

// showHelp explains a command, or the program where there is none.
func showHelp(s *streams, app *cli.App, command *cli.Command) error {
	if command == nil {
		data := struct {
			Usage  string
			Groups []helpGroup
		}{app.Usage, helpGroups(app)}
		cli.HelpPrinterCustom(s.out, rootHelp, data, nil)
		return nil
	}
	cli.HelpPrinterCustom(s.out, commandHelp, command, nil)
	return nil
}

// newHelpCommand is there to be listed and completed; the arguments are
// parsed before any command runs, and help is shown then.
func newHelpCommand() *cli.Command {
	return &cli.Command{
		Name:      "help",
		Category:  categoryProgram,
		Usage:     "explain a command",
		ArgsUsage: "[COMMAND]",
	}
}

// Categories of commands in the help text.
const (
	categoryMessages  = "Messages"
	categoryTurns     = "Turns"
	categoryWorkspace = "Workspace"
	categoryBridge    = "AgentPair bridge"
	categoryProgram   = "This program"
)

// A helpGroup is a category with its commands.
type helpGroup struct {
	Name            string
	VisibleCommands []*cli.Command
}

// helpGroups keeps categories and commands in the order in which the app
// lists them.
func helpGroups(app *cli.App) []helpGroup {
	var groups []helpGroup
	for _, c := range app.VisibleCommands() {
		at := slices.IndexFunc(groups, func(g helpGroup) bool { return g.Name == c.Category })
		if at < 0 {
			at = len(groups)
			groups = append(groups, helpGroup{Name: c.Category})
		}
		groups[at].VisibleCommands = append(groups[at].VisibleCommands, c)
	}
	return groups
}
