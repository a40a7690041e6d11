package command

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// complete returns the flag of the command at hand that begins with what is written, if there is
// exactly one: --subject for --subj.
func (p *parser) complete(written string) (string, error) {
	name, long := strings.CutPrefix(written, "--")
	if !long || name == "" {
		return "", p.unknownFlag(written)
	}
	names := longFlags(p.command, name)
	switch len(names) {
	case 0:
		return "", p.unknownFlag(written)
	case 1:
		return "--" + names[0], nil
	}
	return "", p.usage("several flags begin with %s: --%s", written, strings.Join(names, ", --"))
}

// longFlags returns the names of a command's flags, more than a letter long, that begin with the
// prefix. Hidden flags must be written out.
func longFlags(c *cli.Command, prefix string) []string {
	if c == nil {
		return nil
	}
	var names []string
	for _, f := range c.Flags {
		if canHide, ok := f.(cli.VisibleFlag); ok && !canHide.IsVisible() {
			continue
		}
		matches := func(name string) bool { return len(name) > 1 && strings.HasPrefix(name, prefix) }
		if all := flagNames(f); slices.ContainsFunc(all, matches) {
			names = append(names, all[slices.IndexFunc(all, matches)])
		}
	}
	return names
}

// find looks for a flag of the command at hand, or of one below it.
func (p *parser) find(name string) cli.Flag {
	if f := commandFlag(p.command, name); f != nil {
		return f
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

// commandFlag returns the flag of a command, or nil if there is no such flag or no command.
func commandFlag(c *cli.Command, name string) cli.Flag {
	if c == nil {
		return nil
	}
	at := slices.IndexFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(flagNames(f), name) })
	if at < 0 {
		return nil
	}
	return c.Flags[at]
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
	case *cli.GenericFlag:
		return append([]string{f.Name}, f.Aliases...)
	}
	return f.Names()
}

// An OptionalValue is the value of a flag that can be given without a value.
type OptionalValue interface {
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
func optionalValue(f cli.Flag) OptionalValue {
	if generic, ok := f.(*cli.GenericFlag); ok {
		value, _ := generic.Value.(OptionalValue)
		return value
	}
	return nil
}
