package command

import (
	"embed"
	"io/fs"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
)

// completionScripts let the shells ask "oacp __complete".
//
//go:embed completion/oacp.*
var completionScripts embed.FS

var shells = []string{"bash", "zsh", "fish"}

// NewCompletionCommand returns the command that prints a shell's completion script.
func NewCompletionCommand(s *Streams) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Category:  CategoryProgram,
		Usage:     "print a shell's completion script",
		ArgsUsage: "SHELL",
		Description: `The Tab key then completes commands, flags, agents, message ids and more.
SHELL is bash, zsh or fish.

EXAMPLES:
   source <(oacp completion bash)       in ~/.bashrc
   source <(oacp completion zsh)        in ~/.zshrc
   oacp completion fish | source        in ~/.config/fish/config.fish`,
		Action: func(c *cli.Context) error {
			args := Positionals(c)
			if len(args) != 1 {
				return failure.Usagef("needs the name of one shell: %s", strings.Join(shells, ", "))
			}
			script, err := fs.ReadFile(completionScripts, "completion/oacp."+args[0])
			if err != nil {
				return failure.Usagef("there is no completion for %s", visible.Quote(args[0])).
					WithHint("the shells are " + strings.Join(shells, ", "))
			}
			_, err = s.Out.Write(script)
			return err
		},
	}
}
