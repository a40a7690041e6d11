package command

import (
	"context"
	"flag"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/failure"
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
	help bool

	// separate is the name of a program that is called instead, with the arguments in rest.
	separate string
}

// An argument is a flag of the command line with its value, if it has one.
type argument struct {
	flag     cli.Flag
	written  string // as the user wrote it, without the value
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
	var args []string
	for _, a := range c.flags {
		word := "-" + flagNames(a.flag)[0]
		if a.hasValue {
			word += "=" + a.value
		}
		args = append(args, word)
	}
	if err := set.Parse(append(append(args, "--"), c.rest...)); err != nil {
		return failure.Usagef("%w", err).WithHint("see oacp help " + c.name())
	}
	context := cli.NewContext(&cli.App{}, set, nil)
	context.Context, context.Command = ctx, c.command
	return c.command.Action(context)
}

// parse finds the command, its flags, which may stand anywhere, and its other arguments. What
// follows a "--" is not a flag. Unknown commands and flags are errors, and so is a flag in place of
// the value of another one.
func (p *Program) parse(args []string, s *Streams) (*call, error) {
	parser := parser{program: p, streams: s}
	for all := args; len(args) > 0 && args[0] != "--"; {
		rest, err := parser.next(args)
		if err != nil {
			return nil, err
		}
		if parser.separate != "" {
			return parser.separateCall(all[:len(all)-len(args)], rest), nil
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
	help        bool
	separate    string
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
	for _, f := range c.Flags {
		if f, ok := f.(*cli.BoolFlag); ok {
			f.DisableDefaultText = true // every one of them would show "default: false"
		}
	}
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
	case (word == "-V" || word == "--version") && p.command == nil:
		return append([]string{"version"}, args[1:]...), nil
	case len(word) > 1 && word[0] == '-':
		return p.flag(args)
	case len(p.positionals) == 0 && p.enter(word):
	case p.command != nil:
		p.positionals = append(p.positionals, word)
	case p.program.isSeparate(word):
		p.separate = word
	default:
		return nil, p.program.unknownCommand(word)
	}
	return args[1:], nil
}

// enter goes to the command or subcommand of the name.
func (p *parser) enter(name string) bool {
	if p.command == nil && name == "help" {
		p.help = true
		return true
	}
	if p.command == nil && p.all == nil {
		at := slices.IndexFunc(p.program.Commands, func(e Entry) bool { return e.Name == name })
		if at < 0 {
			return false
		}
		p.command = prepared(p.program.Commands[at].New(p.streams), "oacp")
		return true
	}
	commands := p.commands()
	at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.Name == name })
	if at >= 0 {
		p.command = commands[at]
	}
	return at >= 0
}

// flag takes a flag with its value. Before the command is known, the flag of any command is
// accepted; finish checks whether it belongs to the command.
func (p *parser) flag(args []string) (rest []string, err error) {
	written, value, hasValue := strings.Cut(args[0], "=")
	known := p.find(strings.TrimLeft(written, "-"))
	taken := argument{flag: known, written: written, value: value, hasValue: hasValue}
	switch {
	case known == nil:
		return nil, p.unknownFlag(written)
	case !hasValue && len(args) > 1 && mayTake(known, args[1]):
		taken.value, taken.hasValue = args[1], true
		args = args[1:]
	case hasValue || !takesValue(known):
	case len(args) == 1:
		return nil, p.usage("%s needs a value", written)
	default:
		next, long := strings.CutPrefix(args[1], "--")
		if long && (next == "" || p.find(next) != nil) {
			return nil, p.usage("%s needs a value", written).
				WithHint("if " + args[1] + " is the value, write " + written + "=" + args[1])
		}
		taken.value, taken.hasValue = args[1], true
		args = args[1:]
	}
	p.flags = append(p.flags, taken)
	return args[1:], nil
}

// find looks for a flag of the command at hand, or of one below it.
func (p *parser) find(name string) cli.Flag {
	if p.command != nil {
		if f := commandFlag(p.command, name); f != nil {
			return f
		}
	}
	return anyFlag(p.commands(), name)
}

func anyFlag(commands []*cli.Command, name string) cli.Flag {
	for _, c := range commands {
		if f := commandFlag(c, name); f != nil {
			return f
		}
		if f := anyFlag(c.Subcommands, name); f != nil {
			return f
		}
	}
	return nil
}

func commandFlag(c *cli.Command, name string) cli.Flag {
	for _, f := range c.Flags {
		if slices.Contains(flagNames(f), name) {
			return f
		}
	}
	return nil
}

// flagNames returns the name of a flag and then its aliases. The library's own method runs a regular
// expression for each.
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

// An OptionalValue is the value of a flag that may also stand without one.
type OptionalValue interface {
	IsBoolFlag() bool
	// Accepts reports whether the word after the flag is its value.
	Accepts(word string) bool
}

// takesValue reports whether a flag without "=" is followed by its value.
func takesValue(f cli.Flag) bool {
	switch f := f.(type) {
	case *cli.BoolFlag:
		return false
	case *cli.GenericFlag:
		_, optional := f.Value.(OptionalValue)
		return !optional
	}
	return true
}

// mayTake reports whether the word is the value of a flag that may also stand without one.
func mayTake(f cli.Flag, word string) bool {
	generic, ok := f.(*cli.GenericFlag)
	if !ok {
		return false
	}
	value, ok := generic.Value.(OptionalValue)
	return ok && value.Accepts(word)
}

// finish returns the call. dashed begins with "--" or is empty.
func (p *parser) finish(dashed []string) (*call, error) {
	c := &call{command: p.command, flags: p.flags, rest: append(p.positionals, dashed...)}
	c.help = p.help || p.command == nil && len(p.flags)+len(dashed) == 0
	if c.help {
		return c, nil
	}
	for i, taken := range c.flags {
		name := strings.TrimLeft(taken.written, "-")
		if p.command == nil {
			return nil, p.unknownFlag(taken.written)
		}
		if c.flags[i].flag = commandFlag(p.command, name); c.flags[i].flag == nil {
			return nil, p.unknownFlag(taken.written)
		}
	}
	return c, nil
}

// separateCall returns the call of another program, whose arguments are everything but its name.
func (p *parser) separateCall(before, after []string) *call {
	c := &call{separate: p.separate, rest: append(slices.Clone(before), after...)}
	if p.help {
		c.rest = []string{"--help"}
	}
	return c
}

// path returns the command as the user types it, with the program.
func (p *parser) path() string {
	if p.command == nil {
		return "oacp"
	}
	return p.command.HelpName
}

func (p *parser) usage(format string, args ...any) *failure.Error {
	if p.command != nil {
		format = strings.ReplaceAll(strings.TrimPrefix(p.path(), "oacp "), "%", "%%") + ": " + format
	}
	return failure.Usagef(format, args...)
}

func (p *parser) unknownFlag(written string) error {
	commands := []*cli.Command{p.command}
	if p.command == nil {
		commands = p.commands()
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
	help := "oacp help" + strings.TrimPrefix(p.path(), "oacp")
	return e.WithHint("see " + help + "; arguments that begin with a hyphen go behind --")
}

func (p *Program) unknownCommand(word string) error {
	names := p.separateNames()
	for _, entry := range p.Commands {
		names = append(names, entry.Name)
	}
	return UnknownCommand(names, word, "oacp")
}

// UnknownCommand returns the error that the parent, oacp or one of its commands, has no such command.
func UnknownCommand(names []string, word, parent string) error {
	hint := "see oacp help" + strings.TrimPrefix(parent, "oacp")
	if near := spelling.Nearest(word, names); near != "" {
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
	if rest := Positionals(c); len(rest) > 0 {
		return failure.Usagef("unexpected argument %s", visible.Quote(rest[0]))
	}
	return nil
}

// wantsJSON reports whether the command line asks for JSON, also if it cannot be parsed.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "--":
			return false
		case "--json", "--json=true", "-json", "--format=json":
			return true
		case "--format":
			if i+1 < len(args) && args[i+1] == "json" {
				return true
			}
		}
	}
	return false
}
