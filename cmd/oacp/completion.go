package main

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/urfave/cli/v2"
)

// completionScripts teach the shells to ask "oacp __complete".
//
//go:embed completion/oacp.*
var completionScripts embed.FS

var shells = []string{"bash", "zsh", "fish"}

type completionOptions struct{ shell string }

func newCompletionCommand(s *streams) *cli.Command {
	var o completionOptions
	return &cli.Command{
		Name:      "completion",
		Category:  categoryProgram,
		Usage:     "print a shell's completion script",
		ArgsUsage: "SHELL",
		Description: `Commands, flags, agents, message ids, types and more are then completed with the
Tab key. SHELL is bash, zsh or fish.

EXAMPLES:
   source <(oacp completion bash)       in ~/.bashrc
   source <(oacp completion zsh)        in ~/.zshrc
   oacp completion fish | source        in ~/.config/fish/config.fish`,
		Action: func(c *cli.Context) error {
			args := positionals(c)
			if len(args) != 1 {
				return usageErrorf("needs the name of one shell: %s", strings.Join(shells, ", "))
			}
			o.shell = args[0]
			return runCompletion(o, s)
		},
	}
}

func runCompletion(o completionOptions, s *streams) error {
	script, err := fs.ReadFile(completionScripts, "completion/oacp."+o.shell)
	if err != nil {
		return usageErrorf("there is no completion for %s", quote(o.shell)).withHint("the shells are " + strings.Join(shells, ", "))
	}
	_, err = s.out.Write(script)
	return err
}

// newCompleteCommand answers the completion scripts. Its arguments are the
// words behind "oacp", the last of them unfinished and possibly empty. Each
// line is a word, and behind a tab what it is; ":files" asks for file names.
func newCompleteCommand(s *streams) *cli.Command {
	return &cli.Command{
		Name:   "__complete",
		Usage:  "list what may come next on a command line",
		Hidden: true,
		Action: func(c *cli.Context) error {
			for _, candidate := range complete(c.Context, positionals(c), s) {
				line := candidate.text
				if line == "" || escapeLine(line) != line {
					continue
				}
				if candidate.description != "" {
					line += "\t" + escapeLine(candidate.description)
				}
				fmt.Fprintln(s.out, line)
			}
			return nil
		},
	}
}
