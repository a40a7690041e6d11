package command

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
)

// completeCommand is what the completion scripts call. Its arguments are the words after "oacp",
// the last of them unfinished and possibly empty. It prints one candidate a line, with a tab before
// the description; ":files" asks the shell for file names.
const completeCommand = "__complete"

// A candidate is a word that may come next.
type candidate struct{ Name, Usage string }

// completeFiles asks the shell to complete file names.
var completeFiles = []candidate{{Name: ":files"}}

func (p *Program) printCandidates(ctx context.Context, words []string, s *Streams) {
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	c := &completion{ctx: ctx, line: &call{program: p, streams: s}}
	last := len(words) - 1
	for _, found := range c.candidates(words[:last], words[last]) {
		line := found.Name
		if line == "" || visible.Line(line) != line || line != completeFiles[0].Name && !strings.HasPrefix(line, words[last]) {
			continue
		}
		if found.Usage != "" {
			line += "\t" + visible.Line(found.Usage)
		}
		fmt.Fprintln(s.Out, line)
	}
}

// A completion is a command line whose last word is unfinished. Errors leave the list of candidates
// empty: a shell has no place to show them.
type completion struct {
	ctx  context.Context
	line *call
}

// candidates takes the finished words, and returns what the current one may become.
func (c *completion) candidates(words []string, current string) []candidate {
	for len(words) > 0 && words[0] != "--" && c.line.separate == "" {
		if len(words) == 1 && strings.HasPrefix(words[0], "-") && c.line.command != nil {
			if f, err := c.line.flag(words[0]); err == nil && takesValue(f) {
				if offered := offeredWords(f); offered != nil {
					return candidatesOf(offered)
				}
				return c.values(Placeholder(f), current)
			}
		}
		var err error
		if words, err = c.line.take(words); err != nil {
			return nil
		}
	}
	command := c.line.command
	switch {
	case len(words) > 0:
		return completeFiles // a command line of its own follows
	case c.line.separate != "":
		return nil
	case command == nil:
		return c.line.program.candidates(c.line.streams)
	case command.Name == "help":
		return append(topics(), c.line.program.candidates(c.line.streams)...)
	case strings.HasPrefix(current, "-"):
		return c.flags()
	}
	found := c.positional(current)
	if len(c.line.words) == 0 {
		found = append(found, subcommands(command)...)
	}
	return found
}

// flags returns the flags of the command.
func (c *completion) flags() []candidate {
	found := []candidate{{"--help", "explain " + c.line.command.Name}}
	for _, f := range c.line.command.Flags {
		if isVisible(f) {
			found = append(found, candidate{"--" + f.Names()[0], strings.ReplaceAll(usageOf(f), "`", "")})
		}
	}
	return found
}

// Placeholder returns the name that the help of a flag gives its value.
func Placeholder(f cli.Flag) string {
	_, rest, _ := strings.Cut(usageOf(f), "`")
	name, _, _ := strings.Cut(rest, "`")
	return name
}

// positional returns candidates for an argument that is not a flag, by its placeholder.
func (c *completion) positional(current string) []candidate {
	usage, _, _ := strings.Cut(c.line.command.ArgsUsage, "--") // what follows are flags
	for i, word := range strings.Fields(usage) {
		if i == len(c.line.words) || strings.Contains(word, "…") { // the last one may be repeated
			return c.values(word, current)
		}
	}
	return nil
}

// values returns what the value of a placeholder may be. Bars separate alternatives.
func (c *completion) values(placeholder, current string) []candidate {
	var found []candidate
	for name := range strings.SplitSeq(strings.Trim(placeholder, "[]…"), "|") {
		switch name {
		case "AGENT":
			found = append(found, c.agents(current)...)
		case "PROJECT":
			projects, _ := c.workspace().Place(c.line.streams).Projects()
			found = append(found, candidatesOf(projects)...)
		case "ID", "CONVERSATION-OR-ID":
			found = append(found, c.messages()...)
		case "SHELL":
			found = append(found, candidatesOf(shells)...)
		case "claude", "codex": // a word of its own
			found = append(found, candidate{Name: name})
		case "FILE", "DIR", "PATH":
			found = append(found, completeFiles...)
		}
	}
	return found
}

// offeredWords returns the values that a flag offers.
func offeredWords(f cli.Flag) []string {
	if generic, ok := f.(*cli.GenericFlag); ok {
		if v, ok := generic.Value.(*Value); ok {
			return v.words
		}
	}
	return nil
}

func candidatesOf(names []string) []candidate {
	found := make([]candidate, len(names))
	for i, name := range names {
		found[i].Name = name
	}
	return found
}

// workspace returns what the command line says of the workspace.
func (c *completion) workspace() (o Workspace) {
	for _, a := range c.line.flags {
		switch a.flag.Names()[0] {
		case "dir":
			o.Dir = a.value
		case "project":
			o.Project = a.value
		case "oacp-dir":
			o.Home = a.value
		}
	}
	command := c.line.command
	if o.Project == "" && command != nil && strings.HasPrefix(command.ArgsUsage, "[PROJECT") && len(c.line.words) > 0 {
		o.Project = c.line.words[0]
	}
	return o
}

// agents completes a name, or the last one of a list.
func (c *completion) agents(current string) (found []candidate) {
	before := current[:strings.LastIndexByte(current, ',')+1]
	_ = c.workspace().With(c.line.streams, nil, func(w *mailbox.Workspace) error {
		agents, err := w.Agents()
		for _, agent := range agents {
			if !slices.Contains(strings.Split(before, ","), string(agent)) {
				found = append(found, candidate{Name: before + string(agent)})
			}
		}
		return err
	})
	return found
}

// messages completes the ids of pending messages.
func (c *completion) messages() (found []candidate) {
	_ = c.workspace().With(c.line.streams, nil, func(w *mailbox.Workspace) error {
		agents, err := w.Agents()
		for _, agent := range agents {
			entries, _ := w.Inbox(c.ctx, agent)
			for _, e := range entries {
				if m := e.Message; m != nil && m.ID != "" {
					found = append(found, candidate{m.ID.Short(), string(m.From) + " to " + string(agent) + ": " + m.Subject})
				}
			}
		}
		return err
	})
	return found
}

// completionScripts let the shells ask "oacp __complete".
//
//go:embed completion/oacp.*
var completionScripts embed.FS

var shells = []string{"bash", "zsh", "fish", "powershell"}

// NewCompletionCommand returns the command that prints a shell's completion script.
func NewCompletionCommand(s *Streams) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Category:  CategoryProgram,
		Usage:     "print a completion script",
		ArgsUsage: "SHELL",
		Description: `The Tab key then completes commands, flags, agents, message ids and more.
SHELL is bash, zsh, fish or powershell.

EXAMPLES:
   source <(oacp completion bash)       in ~/.bashrc
   source <(oacp completion zsh)        in ~/.zshrc
   oacp completion fish | source        in ~/.config/fish/config.fish
   oacp completion powershell | Out-String | Invoke-Expression       in $PROFILE`,
		Action: func(c *cli.Context) error {
			shell := strings.Join(Positionals(c), " ")
			script, err := fs.ReadFile(completionScripts, "completion/oacp."+shell)
			if err != nil || shell == "" {
				return failure.Usagef("there is no completion for %s", visible.Quote(shell)).
					WithHint("the shells are " + strings.Join(shells, ", "))
			}
			_, err = s.Out.Write(script)
			return err
		},
	}
}
