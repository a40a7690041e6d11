package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/guide"
)

// Categories of flags. A page of help describes the flags without one, in their order.
const (
	// Rare flags are those that few users need. A page only names them, and describes them with --all.
	Rare = "rare"
	// OfWorkspace are the flags that "oacp help workspace" describes. A page names that topic instead.
	OfWorkspace = "workspace"
)

// helpWidth is the number of columns of a page.
const helpWidth = 80

// A helpGroup is a category with its commands.
type helpGroup struct {
	Name     string
	Commands []candidate
}

// help explains the topic or command that the words name, or the program if there are none.
func (p *Program) help(ctx context.Context, words []string, s *Streams) error {
	if len(words) == 0 || strings.HasPrefix(words[0], "-") && len(words) == 1 {
		p.writeProgramHelp(s)
		return nil
	}
	for _, page := range guide.Pages() {
		if page.Name == words[0] {
			fmt.Fprintf(s.Out, "%s\n", strings.TrimSpace(page.Text))
			return nil
		}
	}
	all := slices.Contains(words, "--all")
	words = append(slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "--all" }), "--help")
	if all {
		words = append(words, "--all")
	}
	return p.execute(ctx, words, s)
}

func (p *Program) writeProgramHelp(s *Streams) {
	fmt.Fprint(s.Out, `oacp - messages between coding agents, as files in a shared folder

USAGE:
   oacp COMMAND [arguments and flags in any order]
   oacp help COMMAND|TOPIC [--all]
`)
	groups := append(p.helpGroups(s), helpGroup{"Topics", topics()})
	for _, g := range groups {
		writeEntries(s.Out, g.Name, g.Commands)
	}
}

// writeCommandHelp explains a command. Unless all is set, it leaves out what few users need.
func writeCommandHelp(w io.Writer, c *cli.Command, all bool) {
	fmt.Fprintf(w, "%s - %s\n\nUSAGE:\n", c.HelpName, c.Usage)
	listed, rare, workspace := sortFlags(c.Flags, all)
	if c.ArgsUsage != "" || len(c.Subcommands) == 0 {
		fmt.Fprintf(w, "   %s\n", synopsis(c))
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
	writeEntries(w, "COMMANDS:", subcommands(c))
	writeEntries(w, "FLAGS:", listed)
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

// synopsis returns the line that shows how to call a command.
func synopsis(c *cli.Command) string {
	args, command, hasCommand := strings.Cut(c.ArgsUsage, "[-- ")
	line := strings.TrimSpace(c.HelpName+" "+args) + " [flags]"
	if hasCommand {
		line += " [-- " + command // flags behind the "--" would be the command's
	}
	return line
}

// sortFlags returns the flags that a page describes, and the names of those that it only names.
func sortFlags(flags []cli.Flag, all bool) (listed []candidate, rare []string, workspace bool) {
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
			listed = append(listed, candidate{flagSynopsis(f), flagUsage(f)})
		case category == Rare:
			rare = append(rare, "--"+f.Names()[0])
		}
	}
	return listed, rare, workspace
}

// flagSynopsis returns a flag as the user writes it: "-t, --type TYPE".
func flagSynopsis(f cli.Flag) string {
	var short, long []string
	for _, name := range f.Names() {
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
	if !takesValue(f) || value == "" || value == "0" {
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

// writeEntries writes a heading and a line for each name, with its usage; nothing if there are no names.
func writeEntries(w io.Writer, heading string, entries []candidate) {
	if len(entries) > 0 {
		fmt.Fprintf(w, "\n%s\n", heading)
	}
	width := 0
	for _, e := range entries {
		width = max(width, utf8.RuneCountInString(e.Name))
	}
	for _, e := range entries {
		lines := Wrapped(e.Usage, helpWidth-width-5)
		fmt.Fprintf(w, "   %-*s  %s\n", width, e.Name, strings.Join(lines, "\n"+strings.Repeat(" ", width+5)))
	}
}

func topics() []candidate {
	var found []candidate
	for _, t := range guide.Pages() {
		found = append(found, candidate{t.Name, t.Usage})
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
	add := func(category string, c candidate) {
		at := slices.IndexFunc(groups, func(g helpGroup) bool { return g.Name == category })
		if at < 0 {
			at = len(groups)
			groups = append(groups, helpGroup{Name: category})
		}
		groups[at].Commands = append(groups[at].Commands, c)
	}
	for _, entry := range p.Commands {
		if c := entry.New(s); !c.Hidden {
			add(c.Category, candidate{c.Name, c.Usage})
		}
	}
	for _, c := range p.Separate {
		if c.Usage != "" {
			add(c.Category, candidate{c.Name, c.Usage})
		}
	}
	return groups
}

// candidates returns all commands.
func (p *Program) candidates(s *Streams) (found []candidate) {
	for _, group := range p.helpGroups(s) {
		found = append(found, group.Commands...)
	}
	return found
}

func subcommands(command *cli.Command) []candidate {
	found := make([]candidate, len(command.Subcommands))
	for i, sub := range command.Subcommands {
		found[i] = candidate{sub.Name, sub.Usage}
	}
	return found
}

// NewHelpCommand lists "help". The program itself carries it out.
func NewHelpCommand(*Streams) *cli.Command {
	return &cli.Command{
		Name:      "help",
		Category:  CategoryProgram,
		Usage:     "explain a command or topic",
		ArgsUsage: "[COMMAND|TOPIC] [--all]",
	}
}
