package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/spelling"
)

// An invocation is a command line taken apart.
type invocation struct {
	// command is nil where none is named.
	command *cli.Command
	// args is the command line in the order that the library understands:
	// the names of program and commands, the flags, "--", and the rest.
	args []string
	// help asks for an explanation instead.
	help bool
}

// name returns the command as one types it, without the program.
func (i *invocation) name() string {
	return strings.TrimPrefix(i.command.HelpName, "oacp ")
}

// parseArguments finds the command and puts its flags, which may stand
// anywhere, before its other arguments: the library stops at the first
// argument that is no flag. What follows a "--" is no flag.
//
// It also refuses what the library would misunderstand: unknown commands and
// flags, and a flag where the value of another one is missing.
func parseArguments(app *cli.App, args []string) (*invocation, error) {
	app.Setup()
	p := argumentParser{app: app, commands: app.Commands, path: []string{app.Name}}
	for len(args) > 0 && args[0] != "--" {
		var err error
		if args, err = p.next(args); err != nil {
			return nil, err
		}
	}
	return p.finish(args)
}

type argumentParser struct {
	app *cli.App
	// commands are those that the next argument may name.
	commands []*cli.Command
	command  *cli.Command
	path     []string

	flags       []argument
	positionals []string
	help        bool
}

// An argument is a flag as it was written, and its value if it stood apart.
type argument struct {
	name  string
	words []string
}

// value is the flag's value, if it has one.
func (a argument) value() string {
	if len(a.words) > 1 {
		return a.words[1]
	}
	_, value, _ := strings.Cut(a.words[0], "=")
	return value
}

// next takes one flag, command name or other argument.
func (p *argumentParser) next(args []string) (rest []string, err error) {
	word := args[0]
	switch {
	case word == "-h" || word == "--help" || word == "-help":
		p.help = true
	case (word == "-V" || word == "--version") && p.command == nil:
		return append([]string{"version"}, args[1:]...), nil
	case len(word) > 1 && word[0] == '-':
		return p.flag(args)
	case len(p.positionals) == 0 && p.enter(word):
	case p.command == nil:
		return nil, unknownCommand(p.app.Commands, word, p.app.Name)
	default:
		p.positionals = append(p.positionals, word)
	}
	return args[1:], nil
}

// enter goes to the command or subcommand of the name.
func (p *argumentParser) enter(name string) bool {
	for _, c := range p.commands {
		if !c.HasName(name) {
			continue
		}
		if c.Name == "help" && p.command == nil {
			p.help = true
			return true
		}
		p.command, p.commands = c, c.Subcommands
		p.path = append(p.path, c.Name)
		return true
	}
	return false
}

// flag takes a flag with its value. Before the command is known, any
// command's flag will do; finish checks whether it belongs there.
func (p *argumentParser) flag(args []string) (rest []string, err error) {
	name, _, hasValue := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	known := p.findFlag(name)
	if known == nil {
		return nil, p.unknownFlag(args[0])
	}
	if !hasValue && len(args) > 1 && mayTake(known, args[1]) {
		p.flags = append(p.flags, argument{name, []string{args[0] + "=" + args[1]}})
		return args[2:], nil
	}
	if hasValue || !takesValue(known) {
		p.flags = append(p.flags, argument{name, args[:1]})
		return args[1:], nil
	}
	if len(args) == 1 {
		return nil, p.usage("%s needs a value", args[0])
	}
	if value, ok := strings.CutPrefix(args[1], "--"); ok && (value == "" || p.findFlag(value) != nil) {
		return nil, p.usage("%s needs a value", args[0]).
			withHint("if " + args[1] + " is the value, write " + args[0] + "=" + args[1])
	}
	p.flags = append(p.flags, argument{name, args[:2]})
	return args[2:], nil
}

// findFlag looks for a flag of the command at hand or of one below it.
func (p *argumentParser) findFlag(name string) cli.Flag {
	if p.command != nil {
		if f := commandFlag(p.command, name); f != nil {
			return f
		}
	}
	return anyFlag(p.commands, name)
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
		for _, n := range f.Names() {
			if n == name {
				return f
			}
		}
	}
	return nil
}

// An optionalValue is the value of a flag that may stand without one.
type optionalValue interface {
	IsBoolFlag() bool
	Accepts(word string) bool
}

// takesValue reports whether a flag without "=" is followed by its value.
func takesValue(f cli.Flag) bool {
	switch f := f.(type) {
	case *cli.BoolFlag:
		return false
	case *cli.GenericFlag:
		_, optional := f.Value.(optionalValue)
		return !optional
	}
	return true
}

// mayTake reports whether the word is the value of a flag that could stand
// without one.
func mayTake(f cli.Flag, word string) bool {
	generic, ok := f.(*cli.GenericFlag)
	if !ok {
		return false
	}
	value, ok := generic.Value.(optionalValue)
	return ok && value.Accepts(word)
}

// finish puts the command line together. dashed begins with "--" or is
// empty. A second "--" keeps apart what the user kept apart.
func (p *argumentParser) finish(dashed []string) (*invocation, error) {
	call := &invocation{command: p.command, help: p.help || p.command == nil && len(p.flags)+len(dashed) == 0}
	if call.help {
		return call, nil
	}
	call.args = append(call.args, p.path...)
	for _, flag := range p.flags {
		if p.command == nil || commandFlag(p.command, flag.name) == nil {
			return nil, p.unknownFlag(flag.words[0])
		}
		call.args = append(call.args, flag.words...)
	}
	call.args = append(call.args, "--")
	call.args = append(call.args, p.positionals...)
	call.args = append(call.args, dashed...)
	return call, nil
}

func (p *argumentParser) usage(format string, args ...any) *usageError {
	e := usageErrorf(format, args...)
	if p.command != nil {
		e.command = strings.Join(p.path[1:], " ")
	}
	return e
}

func (p *argumentParser) unknownFlag(word string) error {
	written, _, _ := strings.Cut(word, "=")
	var names []string
	collect := func(c *cli.Command) {
		for _, f := range c.Flags {
			for _, n := range f.Names() {
				if len(n) > 1 {
					names = append(names, n)
				}
			}
		}
	}
	if p.command != nil {
		collect(p.command)
	} else {
		for _, c := range p.app.Commands {
			collect(c)
		}
	}
	e := p.usage("there is no flag %s", written)
	if near := spelling.Nearest(strings.TrimLeft(written, "-"), names); near != "" {
		return e.withHint("did you mean --" + near + "?")
	}
	return e.withHint("see " + strings.Join(append([]string{"oacp help"}, p.path[1:]...), " ") +
		"; arguments that begin with a hyphen go behind --")
}

// unknownCommand says that the parent, oacp or one of its commands, has no such
// command.
func unknownCommand(commands []*cli.Command, word, parent string) error {
	var names []string
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	e := usageErrorf("there is no command %s", quote(word))
	if near := spelling.Nearest(word, names); near != "" {
		return e.withHint("did you mean " + parent + " " + near + "?")
	}
	return e.withHint("see oacp help" + strings.TrimPrefix(parent, "oacp"))
}

// positionals returns the arguments of a command that are no flags.
func positionals(c *cli.Context) []string {
	before, after := positionalsAndRest(c)
	return append(before, after...)
}

// positionalsAndRest returns the arguments before and behind the "--" that
// the user wrote.
func positionalsAndRest(c *cli.Context) (before, after []string) {
	args := c.Args().Slice()
	for i, arg := range args {
		if arg == "--" {
			return args[:i:i], args[i+1:]
		}
	}
	return args, nil
}

// noPositionals refuses arguments of a command that has none.
func noPositionals(c *cli.Context) error {
	if rest := positionals(c); len(rest) > 0 {
		return usageErrorf("unexpected argument %s", quote(rest[0]))
	}
	return nil
}

// wantsJSON reports whether the answer, and so an error too, is to be JSON.
// It is asked when the flags could not be parsed, too.
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
