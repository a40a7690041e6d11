package command

import (
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/guide"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
)

// Categories of flags. A page of help describes the flags without one, in their order.
const (
	// Rare flags are those that few need. A page names them, and describes them with --all.
	Rare = "rare"
	// OfWorkspace are the flags that "oacp help workspace" describes. A page names that topic instead.
	OfWorkspace = "workspace"
)

// helpWidth is the number of columns of a page.
const helpWidth = 80

// A helpGroup is a category with its commands.
type helpGroup struct {
	Name     string
	Commands []Candidate
}

// showHelp explains a topic, a command, or the program if there is neither.
func (p *Program) showHelp(s *Streams, c *call) {
	switch {
	case c.topic != nil:
		fmt.Fprintf(s.Out, "%s\n", strings.TrimSpace(c.topic.Text))
	case c.command != nil:
		writeCommandHelp(s.Out, c.command, c.all)
	default:
		p.writeProgramHelp(s)
	}
}

func (p *Program) writeProgramHelp(s *Streams) {
	fmt.Fprint(s.Out, `oacp - messages between coding agents, as files in a shared folder

USAGE:
   oacp COMMAND [arguments and flags in any order]
   oacp help COMMAND|TOPIC [--all]
`)
	groups := append(p.helpGroups(s), helpGroup{"Topics", topics()})
	width := 0
	for _, g := range groups {
		width = max(width, widest(g.Commands))
	}
	for _, g := range groups {
		writeEntries(s.Out, g.Name, g.Commands, width)
	}
}

// writeCommandHelp explains a command, with all that is to say of it or with what most users need.
func writeCommandHelp(w io.Writer, c *cli.Command, all bool) {
	fmt.Fprintf(w, "%s - %s\n\nUSAGE:\n", c.HelpName, c.Usage)
	listed, rare, workspace := sortFlags(c.Flags, all)
	if c.ArgsUsage != "" || len(c.Subcommands) == 0 {
		args, command, _ := strings.Cut(c.ArgsUsage, "[-- ")
		if args = strings.TrimSpace(c.HelpName+" "+args) + " [flags]"; command != "" {
			args += " [-- " + command // flags behind the "--" would be the command's
		}
		fmt.Fprintf(w, "   %s\n", args)
	}
	if len(c.Subcommands) > 0 {
		fmt.Fprintf(w, "   %s COMMAND [flags]\n", c.HelpName)
	}
	if c.Description != "" {
		for paragraph := range strings.SplitSeq(c.Description, "\n\n") {
			if !strings.Contains("\n"+paragraph, "\n ") { // indented lines stay as they are
				paragraph = strings.Join(Wrapped(paragraph, helpWidth), "\n")
			}
			fmt.Fprintf(w, "\n%s\n", paragraph)
		}
	}
	writeEntries(w, "COMMANDS:", subcommands(c), widest(subcommands(c)))
	writeEntries(w, "FLAGS:", listed, widest(listed))
	fmt.Fprintln(w)
	if len(rare) > 0 {
		more := fmt.Sprintf("Also: %s (oacp help %s --all)", strings.Join(rare, ", "), strings.TrimPrefix(c.HelpName, "oacp "))
		fmt.Fprintln(w, strings.Join(Wrapped(more, helpWidth-3), "\n   "))
	}
	see := "See also: "
	if workspace {
		see += "oacp help workspace (--dir, --project, …), "
	}
	fmt.Fprintln(w, see+"oacp help exit-status")
}

// sortFlags returns the flags that a page describes, and the names of those that it only names.
func sortFlags(flags []cli.Flag, all bool) (listed []Candidate, rare []string, workspace bool) {
	for _, f := range flags {
		if !isVisible(f) {
			continue
		}
		category := ""
		if f, ok := f.(cli.CategorizableFlag); ok {
			category = f.GetCategory()
		}
		workspace = workspace || category == OfWorkspace
		switch {
		case all || category == "":
			listed = append(listed, Candidate{flagSynopsis(f), flagUsage(f)})
		case category == Rare:
			rare = append(rare, "--"+flagNames(f)[0])
		}
	}
	return listed, rare, workspace
}

// flagSynopsis returns a flag as the user writes it: "-t, --type TYPE".
func flagSynopsis(f cli.Flag) string {
	var short, long []string
	for _, name := range flagNames(f) {
		if len(name) == 1 {
			short = append(short, "-"+name)
		} else {
			long = append(long, "--"+name)
		}
	}
	text, value := strings.Join(append(short, long...), ", "), Placeholder(f)
	switch {
	case optionalValue(f) != nil:
		return text + "[=" + value + "]"
	case takesValue(f):
		return text + " " + value
	}
	return text
}

// flagUsage returns what a flag means, with its default value.
func flagUsage(f cli.Flag) string {
	usage, value := strings.ReplaceAll(usageOf(f), "`", ""), ""
	if documented, ok := f.(cli.DocGenerationFlag); ok {
		value = strings.Trim(documented.GetDefaultText(), `"`)
	}
	value = strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(value) // 2h0m0s is 2h
	if !takesValue(f) || slices.Contains([]string{"", "0", "0s"}, value) {
		return usage
	}
	return usage + " (default: " + value + ")"
}

func usageOf(f cli.Flag) string {
	if documented, ok := f.(cli.DocGenerationFlag); ok {
		return documented.GetUsage()
	}
	return ""
}

// widest returns the length of the longest name.
func widest(entries []Candidate) (width int) {
	for _, e := range entries {
		width = max(width, utf8.RuneCountInString(e.Name))
	}
	return width
}

// writeEntries writes a heading and a line for each name, with its usage; nothing if there are no names.
func writeEntries(w io.Writer, heading string, entries []Candidate, width int) {
	if len(entries) > 0 {
		fmt.Fprintf(w, "\n%s\n", heading)
	}
	for _, e := range entries {
		lines := Wrapped(e.Usage, helpWidth-width-5)
		fmt.Fprintf(w, "   %-*s  %s\n", width, e.Name, strings.Join(lines, "\n"+strings.Repeat(" ", width+5)))
	}
}

// topic returns the page of the name, or nil.
func topic(name string) *guide.Page {
	all := guide.Pages()
	if at := slices.IndexFunc(all, func(t guide.Page) bool { return t.Name == name }); at >= 0 {
		return &all[at]
	}
	return nil
}

func topics() []Candidate {
	var found []Candidate
	for _, t := range guide.Pages() {
		found = append(found, Candidate{t.Name, t.Usage})
	}
	return found
}

// Wrapped returns the words of a text in lines of at most so many characters.
func Wrapped(text string, columns int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line+" "+word) > columns {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
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
	for _, entry := range p.Commands {
		if c := entry.New(s); !c.Hidden {
			add(c.Category, Candidate{c.Name, c.Usage})
		}
	}
	for _, c := range p.Separate {
		if c.Usage != "" {
			add(c.Category, Candidate{c.Name, c.Usage})
		}
	}
	for _, name := range p.separateNames()[len(p.Separate):] {
		add("Other programs", Candidate{name, "run " + separatePrefix + name})
	}
	return groups
}

// candidates returns all commands, and the programs that are commands.
func (p *Program) candidates(s *Streams) (found []Candidate) {
	for _, group := range p.helpGroups(s) {
		found = append(found, group.Commands...)
	}
	return found
}

func subcommands(command *cli.Command) []Candidate {
	found := make([]Candidate, len(command.Subcommands))
	for i, sub := range command.Subcommands {
		found[i] = Candidate{sub.Name, sub.Usage}
	}
	return found
}

// NewHelpCommand lists and completes "help". The parser itself carries it out.
func NewHelpCommand(*Streams) *cli.Command {
	return &cli.Command{
		Name:      "help",
		Category:  CategoryProgram,
		Usage:     "explain a command or a topic",
		ArgsUsage: "[COMMAND|TOPIC] [--all]",
	}
}

// completeCommand is what the completion scripts call. Its arguments are the words after "oacp",
// the last of them unfinished and possibly empty. It prints one candidate a line, with a tab before
// the description; ":files" asks the shell for file names.
const completeCommand = "__complete"

// A Candidate is a word that may come next.
type Candidate struct{ Name, Usage string }

const filesMark = ":files"

// Files asks the shell to complete file names.
func Files() []Candidate { return []Candidate{{Name: filesMark}} }

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
		return Files() // a command line of its own follows
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
			found = append(found, Files()...)
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
