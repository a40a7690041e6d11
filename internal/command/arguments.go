package command

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/failure"
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
	// help asks to explain the command, with all flags if all is set.
	help, all bool
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
		if err := set.Set(a.flag.Names()[0], a.value); err != nil {
			switch a.flag.(type) { // the library says parse error
			case *cli.IntFlag:
				_, err = ParseNumber(a.value)
			case *cli.BoolFlag:
				err = fmt.Errorf("%s is not true or false", visible.Quote(a.value))
			}
			return failure.Usagef("--%s: %w", a.flag.Names()[0], err).WithHint(cmp.Or(failure.Of(err).Hint, "see oacp help "+c.name()))
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
	c.words = append(c.words, words...)
	return c, nil
}

// take takes the name of a command, a flag, or another argument.
func (c *call) take(words []string) (rest []string, err error) {
	word := words[0]
	switch {
	case word == "-h" || word == "--help":
		c.help = true
	case word == "--all" && c.help:
		c.all = true
	case (word == "-V" || word == "--version") && c.command == nil:
		return append([]string{"version"}, words[1:]...), nil
	case len(word) > 1 && word[0] == '-' && c.command == nil:
		return nil, errNoCommand()
	case len(word) > 1 && word[0] == '-':
		return c.takeFlag(words)
	case c.enter(word): // the word is a command
	case c.command != nil:
		c.words = append(c.words, word)
	case slices.ContainsFunc(c.program.Separate, func(s Separate) bool { return s.Name == word }):
		c.separate = word
	default:
		var known []string
		for _, candidate := range c.program.candidates(c.streams) {
			known = append(known, candidate.Name)
		}
		return nil, UnknownCommand(known, word, "oacp")
	}
	return words[1:], nil
}

func errNoCommand() error {
	return failure.Usagef("no command is given").WithHint("see oacp help; flags come after the command")
}

// enter makes the command or subcommand with the name the current one, and reports whether there is one.
func (c *call) enter(name string) bool {
	if len(c.words)+len(c.flags) > 0 {
		return false
	}
	next := c.program.find(c.command, name, c.streams)
	if next != nil {
		c.command = next
	}
	return next != nil
}

// find returns the subcommand with the name or, if below is nil, the command of the program. It returns nil if there is
// none.
func (p *Program) find(below *cli.Command, name string, s *Streams) *cli.Command {
	if below == nil {
		for _, entry := range p.Commands {
			if entry.Name == name {
				return prepared(entry.New(s), "oacp")
			}
		}
		return nil
	}
	at := slices.IndexFunc(below.Subcommands, func(sub *cli.Command) bool { return sub.Name == name })
	if at < 0 {
		return nil
	}
	return below.Subcommands[at]
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
	name, optional := "--"+f.Names()[0], optionalValue(f)
	switch {
	case hasValue:
	case optional != nil && len(words) > 0 && optional.Accepts(words[0]):
		value, hasValue, words = words[0], true, words[1:]
	case !takesValue(f):
	case len(words) == 0 || words[0] == "--":
		return nil, c.usage("%s needs a value", name)
	case strings.HasPrefix(words[0], "--") && c.hasFlag(words[0]):
		return nil, c.usage("%s needs a value", name).WithHint("if " + words[0] + " is the value, write " + name + "=" + words[0])
	default:
		value, hasValue, words = words[0], true, words[1:]
	}
	c.flags = append(c.flags, argument{f, value, hasValue})
	return words, nil
}

// flag returns the flag that is written in full or, as the reference implementation allows, as a prefix that no other
// flag has.
func (c *call) flag(written string) (cli.Flag, error) {
	name := strings.TrimLeft(written, "-")
	var found []cli.Flag
	for _, f := range c.command.Flags {
		names := f.Names()
		if slices.Contains(names, name) {
			return f, nil
		}
		if len(written) > 2 && isVisible(f) && slices.ContainsFunc(names, func(long string) bool { return strings.HasPrefix("--"+long, written) }) {
			found = append(found, f)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return nil, c.unknownFlag(written)
}

func (c *call) hasFlag(written string) bool {
	_, err := c.flag(written)
	return err == nil
}

func (c *call) usage(format string, args ...any) *failure.Error {
	return failure.Usagef("%s: %w", c.name(), fmt.Errorf(format, args...))
}

func (c *call) unknownFlag(written string) error {
	var names []string
	for _, f := range c.command.Flags {
		names = append(names, slices.DeleteFunc(f.Names(), func(n string) bool { return len(n) == 1 })...)
	}
	e := c.usage("there is no flag %s", written)
	if near := spelling.Nearest(strings.TrimLeft(written, "-"), names); near != "" {
		return e.WithHint("did you mean --" + near + "?")
	}
	return e.WithHint("see oacp help " + c.name() + "; arguments that begin with a hyphen go behind --")
}

// otherNames maps commands that users know from other programs to ours.
var otherNames = map[string]string{"search": "list --text WORDS", "find": "list --text WORDS", "grep": "list --text WORDS", "log": "list", "show": "read", "cat": "read", "ls": "inbox"}

// UnknownCommand returns the error that the parent, oacp or one of its commands, has no such
// command.
func UnknownCommand(known []string, word, parent string) error {
	hint := "see oacp help" + strings.TrimPrefix(parent, "oacp")
	near := otherNames[word]
	if name, _, _ := strings.Cut(near, " "); !slices.Contains(known, name) {
		near = spelling.Nearest(word, known)
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

// Destination returns the variable that holds the value of a flag, or nil.
func Destination(f cli.Flag) any {
	switch f := f.(type) {
	case *cli.BoolFlag:
		return f.Destination
	case *cli.IntFlag:
		return f.Destination
	case *cli.StringFlag:
		return f.Destination
	case *cli.StringSliceFlag:
		return f.Destination
	case *cli.GenericFlag:
		if v, ok := f.Value.(*Value); ok {
			return v.to
		}
		return f.Value
	}
	return nil
}

// AtMost returns an error if a command has more than count arguments that are not flags.
func AtMost(c *cli.Context, count int) error {
	if args := Positionals(c); len(args) > count {
		return failure.Usagef("unexpected argument %s", visible.Quote(args[count]))
	}
	return nil
}

// wantsJSON reports whether the command line asks for JSON, even if it cannot be parsed.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json")
}

// isVisible reports whether help and completion show a flag.
func isVisible(f cli.Flag) bool {
	canHide, ok := f.(cli.VisibleFlag)
	return !ok || canHide.IsVisible()
}

// An optionalFlag is the value of a flag that can be given without a value.
type optionalFlag interface {
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
