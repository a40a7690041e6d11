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

// A call is a command line taken apart.
type call struct {
	// command is nil if the command line names none.
	command *cli.Command
	flags   []argument
	// rest are the other arguments. A "--" separates those that the user separated.
	rest []string

	// help asks to explain the command or the topic, with all flags if all is set.
	help, all bool
	topic     *guide.Page

	// separate is the name of a program that is called instead, with the arguments in rest.
	separate string
}

// An argument is a flag of the command line with its value, if it has one.
type argument struct {
	flag     cli.Flag
	written  string // as the user wrote it, but in full, without the value
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
	if err := set.Parse(append([]string{"--"}, c.rest...)); err != nil {
		return err
	}
	context := cli.NewContext(&cli.App{}, set, nil)
	context.Context, context.Command = ctx, c.command
	return c.command.Action(context)
}

// parse finds the command, its flags, in any place, and its other arguments. What
// follows a "--" is not a flag. Unknown commands and flags are errors, and so is a flag in place of
// the value of another one.
func (p *Program) parse(args []string, s *Streams) (*call, error) {
	parser := parser{program: p, streams: s}
	for all := args; len(args) > 0 && args[0] != "--"; {
		rest, err := parser.next(args)
		if err != nil {
			return nil, err
		}
		if parser.separate != "" && parser.help {
			help := slices.DeleteFunc([]string{"--help", "--all"}, func(f string) bool { return f == "--all" && !slices.Contains(all, f) })
			return &call{separate: parser.separate, rest: help}, nil
		} else if parser.separate != "" { // all arguments but the name are those of the program
			return &call{separate: parser.separate, rest: slices.Concat(all[:len(all)-len(args)], rest)}, nil
		}
		args = rest
	}
	return parser.finish(args)
}

type parser struct {
	program *Program
	streams *Streams
	all     []*cli.Command // every command, once it was needed

	command     *cli.Command
	flags       []argument
	positionals []string
	separate    string

	// help asks for help, allFlags for a long one. asked means that the word help came first.
	help, allFlags, asked bool
	topic                 *guide.Page
}

// commands returns the commands that the next word may name.
func (p *parser) commands() []*cli.Command {
	if p.command != nil {
		return p.command.Subcommands
	}
	if p.all == nil {
		p.all = p.program.commands(p.streams)
	}
	return p.all
}

func (p *Program) commands(s *Streams) []*cli.Command {
	all := make([]*cli.Command, len(p.Commands))
	for i, entry := range p.Commands {
		all[i] = prepared(entry.New(s), "oacp")
	}
	return all
}

// prepared sets the names under which help texts show a command and its subcommands.
func prepared(c *cli.Command, parent string) *cli.Command {
	c.HelpName = parent + " " + c.Name
	for _, sub := range c.Subcommands {
		prepared(sub, c.HelpName)
	}
	return c
}

// next takes one flag, command name or other argument.
func (p *parser) next(args []string) (rest []string, err error) {
	word := args[0]
	switch {
	case word == "-h" || word == "--help" || word == "-help":
		p.help = true
	case word == "--all" && p.help:
		p.allFlags = true
	case (word == "-V" || word == "--version") && p.command == nil:
		return append([]string{"version"}, args[1:]...), nil
	case len(word) > 1 && word[0] == '-':
		return p.flag(args)
	case len(p.positionals) == 0 && p.enter(word):
	case p.command != nil || p.topic != nil:
		p.positionals = append(p.positionals, word)
	case p.program.isSeparate(word):
		p.separate = word
	case p.asked:
		return nil, p.unexplained(word)
	default:
		return nil, p.program.unknownCommand(word)
	}
	return args[1:], nil
}

// enter goes to the command or subcommand of the name.
func (p *parser) enter(name string) bool {
	switch {
	case p.command == nil && name == "help":
		p.help, p.asked = true, true
		return true
	case p.command == nil && p.asked && p.topic == nil:
		if p.topic = topic(name); p.topic != nil {
			return true
		}
	case p.topic != nil:
		return false
	}
	if p.command == nil && p.all == nil { // the flags of other commands were not needed so far
		for _, entry := range p.program.Commands {
			if entry.Name == name {
				p.command = prepared(entry.New(p.streams), "oacp")
				return true
			}
		}
		return false
	}
	for _, c := range p.commands() {
		if c.Name == name {
			p.command = c
			return true
		}
	}
	return false
}

// flag takes a flag with its value. Before the command is known, the flag of any command is
// accepted; finish checks whether it belongs to the command.
func (p *parser) flag(args []string) (rest []string, err error) {
	written, value, hasValue := strings.Cut(args[0], "=")
	known := p.find(strings.TrimLeft(written, "-"))
	if known == nil {
		if written, err = p.complete(written); err != nil {
			return nil, err
		}
		known = p.find(strings.TrimLeft(written, "-"))
	}
	args = args[1:]
	optional := optionalValue(known)
	switch {
	case hasValue:
	case optional != nil && len(args) > 0 && optional.Accepts(args[0]):
		value, hasValue, args = args[0], true, args[1:]
	case !takesValue(known):
	case len(args) == 0:
		return nil, p.usage("%s needs a value", written)
	default:
		if p.looksLikeFlag(args[0]) {
			return nil, p.usage("%s needs a value", written).
				WithHint("if " + args[0] + " is the value, write " + written + "=" + args[0])
		}
		value, hasValue, args = args[0], true, args[1:]
	}
	p.flags = append(p.flags, argument{known, written, value, hasValue})
	return args, nil
}

// looksLikeFlag reports whether a word in place of a value is "--" or a long flag.
func (p *parser) looksLikeFlag(word string) bool {
	name, long := strings.CutPrefix(word, "--")
	return long && (name == "" || p.find(name) != nil || len(longFlags(p.command, name)) > 0)
}

// finish returns the call. dashed begins with "--" or is empty.
func (p *parser) finish(dashed []string) (*call, error) {
	c := &call{command: p.command, flags: p.flags, rest: append(p.positionals, dashed...)}
	c.help = p.help || p.command == nil && len(p.flags)+len(dashed) == 0
	c.all, c.topic = p.allFlags, p.topic
	switch {
	case p.asked && len(p.positionals) > 0:
		return nil, p.unexplained(p.positionals[0])
	case c.help, p.command == nil:
		return c, nil
	}
	for i, taken := range c.flags {
		if c.flags[i].flag = commandFlag(p.command, strings.TrimLeft(taken.written, "-")); c.flags[i].flag == nil {
			return nil, p.unknownFlag(taken.written)
		}
	}
	return c, nil
}

func (p *parser) usage(format string, args ...any) *failure.Error {
	err := fmt.Errorf(format, args...)
	if p.command != nil {
		err = fmt.Errorf("%s: %w", strings.TrimPrefix(p.command.HelpName, "oacp "), err)
	}
	return failure.Usagef("%w", err)
}

func (p *parser) unknownFlag(written string) error {
	commands, help := []*cli.Command{p.command}, "oacp help"
	if p.command == nil {
		commands = p.commands()
	} else {
		help += strings.TrimPrefix(p.command.HelpName, "oacp")
	}
	var names []string
	for _, c := range commands {
		for _, f := range c.Flags {
			names = append(names, slices.DeleteFunc(flagNames(f), func(n string) bool { return len(n) == 1 })...)
		}
	}
	e := p.usage("there is no flag %s", written)
	if near := spelling.Nearest(strings.TrimLeft(written, "-"), names); near != "" {
		return e.WithHint("did you mean --" + near + "?")
	}
	return e.WithHint("see " + help + "; arguments that begin with a hyphen go behind --")
}

// unexplained returns the error that there is no help on the word.
func (p *parser) unexplained(word string) error {
	var names []string
	help := "oacp help"
	switch {
	case p.command != nil:
		for _, sub := range p.command.Subcommands {
			names = append(names, sub.Name)
		}
		help += strings.TrimPrefix(p.command.HelpName, "oacp")
	case p.topic != nil:
		help += " " + p.topic.Name
	case slices.Contains(p.program.Reference, word):
		return p.program.unknownCommand(word)
	default:
		for _, known := range append(topicCandidates(), p.program.commandCandidates(p.streams)...) {
			names = append(names, known.Name)
		}
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

// NoPositionals returns an error if the command has arguments that are not flags.
func NoPositionals(c *cli.Context) error {
	_, err := AtMost(c, 0)
	return err
}

// AtMost returns the arguments of a command that are not flags, and an error if they are more than the count.
func AtMost(c *cli.Context, count int) ([]string, error) {
	args := Positionals(c)
	if len(args) > count {
		return nil, failure.Usagef("unexpected argument %s", visible.Quote(args[count]))
	}
	return args, nil
}

// wantsJSON reports whether the command line asks for JSON, also if it cannot be parsed.
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
