package command

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
)

// completeCommand is what the completion scripts call. Its arguments are the words after "oacp",
// the last of them unfinished and possibly empty. It prints one candidate a line, with a tab before
// the description; ":files" asks the shell for file names.
const completeCommand = "__complete"

// A Candidate is a word that may come next.
type Candidate struct{ Name, Usage string }

const filesMark = ":files"

// completeFiles asks the shell to complete file names.
func completeFiles() []Candidate { return []Candidate{{Name: filesMark}} }

// Words returns a candidate for each word.
func Words[Word ~string](all []Word) []Candidate {
	found := make([]Candidate, len(all))
	for i, word := range all {
		found[i].Name = string(word)
	}
	return found
}

func (p *Program) printCandidates(ctx context.Context, words []string, s *Streams) error {
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		return nil
	}
	c := &Completion{Context: ctx, Streams: s, line: &call{program: p, streams: s}}
	last := len(words) - 1
	for _, candidate := range c.candidates(words[:last], words[last]) {
		line := candidate.Name
		if line == "" || visible.Line(line) != line || line != filesMark && !strings.HasPrefix(line, words[last]) {
			continue
		}
		if candidate.Usage != "" {
			line += "\t" + visible.Line(candidate.Usage)
		}
		fmt.Fprintln(s.Out, line)
	}
	// A program that is installed with this one completes its own arguments. Others may not know how.
	if name := c.line.separate; name != "" && p.ships(name) {
		if path := FindSeparate(name); path != "" {
			return p.Exec(path, append([]string{path, completeCommand}, words[slices.Index(words, name)+1:]...))
		}
	}
	return nil
}

// A Completion is a command line whose last word is unfinished. Errors leave the list of candidates
// empty: a shell has no place to show them.
type Completion struct {
	Context context.Context
	Streams *Streams

	line *call
}

// candidates takes the finished words, and returns what the current one may become.
func (c *Completion) candidates(words []string, current string) []Candidate {
	for len(words) > 0 && words[0] != "--" && c.line.separate == "" {
		if len(words) == 1 && strings.HasPrefix(words[0], "-") && !strings.Contains(words[0], "=") && c.line.command != nil {
			if f, err := c.line.flag(words[0]); err == nil && takesValue(f) {
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
	case c.line.separate != "":
		return nil
	case len(words) == 0 && strings.HasPrefix(current, "-"):
		return c.flags(current)
	case command == nil && (len(words) > 0 || c.line.topic != nil):
		return nil
	case command == nil && c.line.asked:
		return append(topics(), c.line.program.candidates(c.Streams)...)
	case command == nil:
		return c.line.program.candidates(c.Streams)
	case c.line.asked:
		return subcommands(command)
	case len(words) == 0 && len(c.line.words) == 0 && len(command.Subcommands) > 0:
		return append(c.positional(0, current), subcommands(command)...)
	case len(words) > 0 && strings.Contains(command.ArgsUsage, "[-- "):
		return completeFiles() // a command line of its own follows
	}
	return c.positional(len(c.line.words)+max(0, len(words)-1), current)
}

// flags returns the flags of the command, or the values of the flag before "=".
func (c *Completion) flags(current string) []Candidate {
	command := c.line.command
	if command == nil {
		return []Candidate{{"--help", "explain oacp"}, {"--version", "print the version"}}
	}
	if name, value, ok := strings.Cut(current, "="); ok {
		f, err := c.line.flag(name)
		if err != nil {
			return nil
		}
		found := c.values(Placeholder(f), value)
		for i := range found {
			if found[i].Name != filesMark {
				found[i].Name = name + "=" + found[i].Name
			}
		}
		return found
	}
	if c.line.help {
		return []Candidate{{"--all", "explain every flag"}}
	}
	found := []Candidate{{"--help", "explain " + command.Name}}
	for _, f := range command.Flags {
		if isVisible(f) {
			found = append(found, Candidate{"--" + flagNames(f)[0], strings.ReplaceAll(usageOf(f), "`", "")})
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

// Command returns the name of the command whose words are completed.
func (c *Completion) Command() string { return c.line.command.Name }

// positional returns candidates for an argument that is not a flag, by its placeholder. The last
// placeholder holds for all arguments that follow.
func (c *Completion) positional(index int, current string) []Candidate {
	var names []string
	repeated := false
	for word := range strings.FieldsSeq(c.line.command.ArgsUsage) {
		if strings.Contains(word, "--") || word == "|" { // what follows are flags
			break
		}
		repeated = strings.Contains(word, "…")
		names = append(names, strings.Trim(word, "[]…"))
	}
	if len(names) == 0 || index >= len(names) && !repeated {
		return nil
	}
	return c.values(names[min(index, len(names)-1)], current)
}

// values returns what the value of a placeholder may be. Bars separate alternatives.
func (c *Completion) values(placeholder, current string) []Candidate {
	var found []Candidate
	for name := range strings.SplitSeq(strings.Trim(placeholder, "[]…"), "|") {
		switch name {
		case "AGENT":
			found = append(found, c.agents(current)...)
		case "PROJECT":
			projects, _ := c.Workspace().Place(c.Streams).Projects()
			found = append(found, Words(projects)...)
		case "NUMBER":
			found = append(found, c.runNumbers()...)
		case "COMMAND":
			found = append(found, c.line.program.candidates(c.Streams)...)
		case "SHELL":
			found = append(found, Words(shells)...)
		case "FILE", "DIR", "PATH":
			found = append(found, completeFiles()...)
		default:
			if c.line.program.Complete != nil {
				found = append(found, c.line.program.Complete(c, name, current)...)
			}
		}
	}
	return found
}

// Workspace returns what the command line says of the workspace.
func (c *Completion) Workspace() Workspace {
	o := Workspace{Dir: c.value("dir"), Project: c.value("project"), Home: c.value("oacp-dir")}
	command := c.line.command
	if o.Project == "" && command != nil && strings.HasPrefix(command.ArgsUsage, "[PROJECT") && len(c.line.words) > 0 {
		o.Project = c.line.words[0]
	}
	return o
}

// value returns the value of a flag.
func (c *Completion) value(name string) string {
	value := ""
	for _, a := range c.line.flags {
		if flagNames(a.flag)[0] == name {
			value = a.value
		}
	}
	return value
}

// runNumbers returns the numbers of the repository's runs.
func (c *Completion) runNumbers() []Candidate {
	log := BridgeLog{Repository: c.value("repo"), RunsDir: c.value("runs-dir")}
	root, _, ids, err := log.RepositoryIDs(c.Streams, false)
	if err != nil {
		return nil
	}
	runs, _ := bridge.Runs(root, ids...)
	found := make([]Candidate, len(runs))
	for i, run := range runs {
		found[i].Name = strconv.Itoa(run.ID)
	}
	return found
}

// agents completes a name, or the last one of a list.
func (c *Completion) agents(current string) []Candidate {
	before := current[:strings.LastIndexByte(current, ',')+1]
	var found []Candidate
	_ = c.Workspace().With(c.Streams, nil, func(w *mailbox.Workspace) error {
		agents, err := w.Agents()
		for _, agent := range agents {
			if !slices.Contains(strings.Split(before, ","), string(agent)) {
				found = append(found, Candidate{Name: before + string(agent)})
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
