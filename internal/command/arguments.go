package command

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/guide"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
)

// A call is a command line taken apart. The library takes flags only before other arguments, so this
// package sorts them first.
type call struct {
	program *Program
	streams *Streams
	// command is nil if the command line names none.
	command *cli.Command
	flags   []argument
	// words are the other arguments. A "--" separates those that the user separated.
	words []string

	// help asks to explain the command or the topic, with all flags if all is set. asked means that the
	// word help came first.
	help, asked, all bool
	topic            *guide.Page

	// separate is the name of a program that is called instead, with the arguments in words.
	separate string
}

// An argument is a flag of the command line with its value, if it has one.
type argument struct {
	flag     cli.Flag
	value    string
	hasValue bool
}

// name returns the command as the user types it, without the program.
func (c *call) name() string { return strings.TrimPrefix(c.command.HelpName, "oacp ") }

// run reads the values of the flags and runs the command.
func (c *call) run(ctx context.Context) error {
	set := flag.NewFlagSet(c.command.Name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range c.command.Flags {
		if err := f.Apply(set); err != nil {
			return err
		}
	}
	for _, a := range c.flags {
		if !a.hasValue {
			a.value = "true"
		}
		if err := set.Set(flagNames(a.flag)[0], a.value); err != nil {
			switch a.flag.(type) { // the library says parse error
			case *cli.IntFlag:
				err = fmt.Errorf("%s is not a whole number, or too large", visible.Quote(a.value))
			case *cli.BoolFlag:
				err = fmt.Errorf("%s is not true or false", visible.Quote(a.value))
			}
			return failure.Usagef("--%s: %w", flagNames(a.flag)[0], err).WithHint("see oacp help " + c.name())
		}
	}
	if err := set.Parse(append([]string{"--"}, c.words...)); err != nil {
		return err
	}
	context := cli.NewContext(&cli.App{}, set, nil)
	context.Context, context.Command = ctx, c.command
	return c.command.Action(context)
}

// parse finds the command, its flags, and its other arguments. What follows a "--" is not a flag. Unknown
// commands and flags are errors, and so is a flag in place of the value of another one.
func (p *Program) parse(words []string, s *Streams) (*call, error) {
	c := &call{program: p, streams: s}
	for len(words) > 0 && words[0] != "--" && c.separate == "" {
		var err error
		if words, err = c.take(words); err != nil {
			return nil, err
		}
	}
	switch {
	case c.separate != "" && c.help:
		c.words = []string{"--help"}
		if c.all || slices.Contains(words, "--all") {
			c.words = append(c.words, "--all")
		}
		return c, nil
	case c.asked && len(c.words) > 0:
		return nil, c.unexplained(c.words[0])
	}
	c.words = append(c.words, words...)
	c.help = c.help || c.command == nil && len(c.words) == 0
	return c, nil
}

// take takes the name of a command, a flag, or another argument.
func (c *call) take(words []string) (rest []string, err error) {
	word := words[0]
	switch {
	case word == "-h" || word == "--help" || word == "-help":
		c.help = true
	case word == "--all" && c.help:
		c.all = true
	case (word == "-V" || word == "--version") && c.command == nil:
		return append([]string{"version"}, words[1:]...), nil
	case len(word) > 1 && word[0] == '-' && c.command == nil:
		return nil, errNoCommand()
	case len(word) > 1 && word[0] == '-':
		return c.takeFlag(words)
	case c.enter(word):
	case c.command != nil || c.topic != nil:
		c.words = append(c.words, word)
	case c.program.isSeparate(word):
		c.separate = word
	case c.asked:
		return nil, c.unexplained(word)
	default:
		return nil, c.program.unknownCommand(word)
	}
	return words[1:], nil
}

func errNoCommand() error {
	return failure.Usagef("no command is given").WithHint("see oacp help; flags come after the command")
}

// enter goes to the command, subcommand or topic of the name.
func (c *call) enter(name string) bool {
	switch {
	case c.topic != nil || len(c.words)+len(c.flags) > 0:
		return false
	case c.command != nil:
		at := slices.IndexFunc(c.command.Subcommands, func(sub *cli.Command) bool { return sub.Name == name })
		if at >= 0 {
			c.command = c.command.Subcommands[at]
		}
		return at >= 0
	case name == "help":
		c.help, c.asked = true, true
		return true
	case c.asked:
		if c.topic = topic(name); c.topic != nil {
			return true
		}
	}
	for _, entry := range c.program.Commands {
		if entry.Name == name {
			c.command = prepared(entry.New(c.streams), "oacp")
			return true
		}
	}
	return false
}

// prepared sets the names under which help texts show a command and its subcommands.
func prepared(c *cli.Command, parent string) *cli.Command {
	c.HelpName = parent + " " + c.Name
	for _, sub := range c.Subcommands {
		prepared(sub, c.HelpName)
	}
	return c
}

// takeFlag takes a flag with its value.
func (c *call) takeFlag(words []string) (rest []string, err error) {
	written, value, hasValue := strings.Cut(words[0], "=")
	f, err := c.flag(written)
	if err != nil {
		return nil, err
	}
	words = words[1:]
	name, optional := "--"+flagNames(f)[0], optionalValue(f)
	switch {
	case hasValue:
	case optional != nil && len(words) > 0 && optional.Accepts(words[0]):
		value, hasValue, words = words[0], true, words[1:]
	case !takesValue(f):
	case len(words) == 0:
		return nil, c.usage("%s needs a value", name)
	case words[0] == "--", strings.HasPrefix(words[0], "--") && len(c.matching(words[0])) > 0:
		return nil, c.usage("%s needs a value", name).WithHint("if " + words[0] + " is the value, write " + name + "=" + words[0])
	default:
		value, hasValue, words = words[0], true, words[1:]
	}
	c.flags = append(c.flags, argument{f, value, hasValue})
	return words, nil
}

// flag returns the flag of the command that is written, in full or not: --subject for --subj.
func (c *call) flag(written string) (cli.Flag, error) {
	found := c.matching(written)
	switch len(found) {
	case 0:
		return nil, c.unknownFlag(written)
	case 1:
		return found[0], nil
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = "--" + flagNames(f)[0]
	}
	return nil, c.usage("several flags begin with %s: %s", written, strings.Join(names, ", "))
}

// matching returns the flag that is written in full, or the long flags that begin with what is written. Hidden
// flags must be written in full.
func (c *call) matching(written string) (found []cli.Flag) {
	prefix, long := strings.CutPrefix(written, "--")
	for _, f := range c.command.Flags {
		names := flagNames(f)
		switch {
		case slices.Contains(names, strings.TrimLeft(written, "-")):
			return []cli.Flag{f}
		case long && prefix != "" && isVisible(f) && slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, prefix) }):
			found = append(found, f)
		}
	}
	return found
}

func (c *call) usage(format string, args ...any) *failure.Error {
	return failure.Usagef("%s: %w", c.name(), fmt.Errorf(format, args...))
}

func (c *call) unknownFlag(written string) error {
	var names []string
	for _, f := range c.command.Flags {
		names = append(names, slices.DeleteFunc(flagNames(f), func(n string) bool { return len(n) == 1 })...)
	}
	e := c.usage("there is no flag %s", written)
	if near := spelling.Nearest(strings.TrimLeft(written, "-"), names); near != "" {
		return e.WithHint("did you mean --" + near + "?")
	}
	return e.WithHint("see oacp help " + c.name() + "; arguments that begin with a hyphen go behind --")
}

// unexplained returns the error that there is no help on the word.
func (c *call) unexplained(word string) error {
	var known []Candidate
	help := "oacp help"
	switch {
	case c.command != nil:
		known, help = subcommands(c.command), "oacp help "+c.name()
	case c.topic != nil:
		help += " " + c.topic.Name
	case slices.Contains(c.program.Reference, word):
		return c.program.unknownCommand(word)
	default:
		known = append(topics(), c.program.candidates(c.streams)...)
	}
	names := make([]string, len(known))
	for i, candidate := range known {
		names[i] = candidate.Name
	}
	err := failure.Usagef("there is no help on %s", visible.Quote(strings.TrimPrefix(help+" "+word, "oacp help ")))
	if near := spelling.Nearest(word, names); near != "" {
		return err.WithHint("did you mean " + help + " " + near + "?")
	}
	return err.WithHint("see " + help)
}

func (p *Program) unknownCommand(word string) error {
	if slices.Contains(p.Reference, word) {
		return failure.Usagef("there is no command %s yet; the reference implementation has one", visible.Quote(word)).
			WithHint("https://github.com/kiloloop/oacp works with the same workspaces; run its oacp by its full path")
	}
	names := p.separateNames()
	for _, entry := range p.Commands {
		names = append(names, entry.Name)
	}
	return UnknownCommand(names, word, "oacp")
}

// otherNames are commands of other programs with those that do the same here.
var otherNames = map[string]string{"search": "list", "find": "list", "grep": "list", "log": "list", "show": "read", "cat": "read", "ls": "inbox"}

// UnknownCommand returns the error that the parent, oacp or one of its commands, has no such
// command.
func UnknownCommand(names []string, word, parent string) error {
	hint := "see oacp help" + strings.TrimPrefix(parent, "oacp")
	near := otherNames[word]
	if !slices.Contains(names, near) {
		near = spelling.Nearest(word, names)
	}
	if near != "" {
		hint = "did you mean " + parent + " " + near + "?"
	}
	return failure.Usagef("there is no command %s", visible.Quote(word)).WithHint(hint)
}

// Positionals returns the arguments of a command that are not flags.
func Positionals(c *cli.Context) []string {
	before, after := PositionalsAndRest(c)
	return append(before, after...)
}

// PositionalsAndRest returns the arguments before and after the "--" that the user wrote.
func PositionalsAndRest(c *cli.Context) (before, after []string) {
	args := c.Args().Slice()
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i:i], args[i+1:]
	}
	return args, nil
}

// AtMost returns the arguments of a command that are not flags, and an error if they are more than the count.
func AtMost(c *cli.Context, count int) ([]string, error) {
	args := Positionals(c)
	if len(args) > count {
		return nil, failure.Usagef("unexpected argument %s", visible.Quote(args[count]))
	}
	return args, nil
}

// wantsJSON reports whether the command line asks for JSON, even if it cannot be parsed.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		switch {
		case arg == "--":
			return false
		case slices.Contains([]string{"--j", "--js", "--jso", "--json", "--json=true", "-json", "--format=json"}, arg),
			arg == "json" && i > 0 && args[i-1] == "--format":
			return true
		}
	}
	return false
}

// flagNames returns the name of a flag and then its aliases. The library's own method runs a
// regular expression for each.
func flagNames(f cli.Flag) []string {
	switch f := f.(type) {
	case *cli.StringFlag:
		return append([]string{f.Name}, f.Aliases...)
	case *cli.BoolFlag:
		return append([]string{f.Name}, f.Aliases...)
	case *cli.IntFlag:
		return append([]string{f.Name}, f.Aliases...)
	case *cli.StringSliceFlag:
		return append([]string{f.Name}, f.Aliases...)
	}
	return f.Names()
}

// isVisible reports whether help and completion show a flag.
func isVisible(f cli.Flag) bool {
	canHide, ok := f.(cli.VisibleFlag)
	return !ok || canHide.IsVisible()
}

// An optionalFlag is the value of a flag that can be given without a value.
type optionalFlag interface {
	IsBoolFlag() bool
	// Accepts reports whether the word after the flag is its value.
	Accepts(word string) bool
}

// takesValue reports whether a flag without "=" must be followed by its value.
func takesValue(f cli.Flag) bool {
	_, isBool := f.(*cli.BoolFlag)
	return !isBool && optionalValue(f) == nil
}

// optionalValue returns the value of a flag that can be given without one, and nil for other flags.
func optionalValue(f cli.Flag) optionalFlag {
	if generic, ok := f.(*cli.GenericFlag); ok {
		value, _ := generic.Value.(optionalFlag)
		return value
	}
	return nil
}
