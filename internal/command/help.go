package command

import (
	"slices"

	"github.com/urfave/cli/v2"
)

// exitStatusHelp ends every help text.
const exitStatusHelp = `
EXIT STATUS:
   0     done
   1     the thing asked about is bad, or the command failed
   2     the command line is wrong
   128+n stopped by signal n (130 for ^C)
`

const rootHelp = `oacp - messages between coding agents, as files in a shared folder

USAGE:
   oacp COMMAND [arguments and flags in any order]

COMMANDS:{{$width := .Width}}{{range .Groups}}

   {{.Name}}{{range .Commands}}
     {{.Name}}{{indent (subtract $width (offset .Name 3)) ""}}{{.Usage}}{{end}}{{end}}

   oacp help COMMAND explains a command.

WORKSPACE: --dir DIR, the project that is named, $OACP_WORKSPACE, or the nearest
   folder at or above the current one that holds agents/.
AGENT: --from or --agent, $OACP_AGENT, $AGENT_NAME, or the agent whose card
   names the runtime that oacp runs in.
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

// A helpGroup is a category with its commands.
type helpGroup struct {
	Name     string
	Commands []Candidate
}

// showHelp explains a command, or the program if there is none.
func (p *Program) showHelp(s *Streams, command *cli.Command) error {
	if command != nil {
		cli.HelpPrinterCustom(s.Out, commandHelp, command, nil)
		return nil
	}
	data := struct {
		Width  int
		Groups []helpGroup
	}{Groups: p.helpGroups(s)}
	for _, g := range data.Groups {
		for _, c := range g.Commands {
			data.Width = max(data.Width, len(c.Name)+5)
		}
	}
	cli.HelpPrinterCustom(s.Out, rootHelp, data, nil)
	return nil
}

// helpGroups keeps categories and commands in the order in which the program lists them.
func (p *Program) helpGroups(s *Streams) []helpGroup {
	var groups []helpGroup
	add := func(category string, c Candidate) {
		at := slices.IndexFunc(groups, func(g helpGroup) bool { return g.Name == category })
		if at < 0 {
			at = len(groups)
			groups = append(groups, helpGroup{Name: category})
		}
		groups[at].Commands = append(groups[at].Commands, c)
	}
	for _, c := range p.commands(s) {
		add(c.Category, Candidate{c.Name, c.Usage})
	}
	for _, c := range p.Separate {
		add(c.Category, Candidate{c.Name, c.Usage})
	}
	for _, name := range p.separateNames()[len(p.Separate):] {
		add("Other programs", Candidate{name, "run " + separatePrefix + name})
	}
	return groups
}

// NewHelpCommand lists and completes "help". The parser itself carries it out.
func NewHelpCommand(*Streams) *cli.Command {
	return &cli.Command{
		Name:      "help",
		Category:  CategoryProgram,
		Usage:     "explain a command",
		ArgsUsage: "[COMMAND]",
	}
}
