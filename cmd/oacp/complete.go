package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// A candidate is a word that may come next.
type candidate struct{ text, description string }

// files asks the shell to complete file names.
var files = []candidate{{text: ":files"}}

// complete returns what the last of the words may become. A command takes
// part by its flags and by the placeholders in its help text: a value called
// AGENT is completed with agents, ID with the ids of pending messages, and so
// on. Errors leave the list empty: nobody could read them.
func complete(ctx context.Context, words []string, s *streams) []candidate {
	if len(words) == 0 {
		return nil
	}
	app := newApp(s)
	app.Setup()
	c := completer{ctx: ctx, s: s, parser: argumentParser{app: app, commands: app.Commands, path: []string{app.Name}}}
	current := words[len(words)-1]
	rest, ok := c.parse(words[:len(words)-1])
	if !ok {
		return nil
	}
	return matching(c.candidates(rest, current), current)
}

type completer struct {
	ctx    context.Context
	s      *streams
	parser argumentParser
}

// parse takes the finished words, and returns a flag whose value is next, or
// a "--" with what follows.
func (c *completer) parse(words []string) (rest []string, ok bool) {
	for len(words) > 0 && words[0] != "--" {
		if len(words) == 1 && strings.HasPrefix(words[0], "-") && !strings.Contains(words[0], "=") {
			f := c.parser.findFlag(strings.TrimLeft(words[0], "-"))
			if f != nil && takesValue(f) {
				return words, true
			}
		}
		var err error
		if words, err = c.parser.next(words); err != nil {
			return nil, false
		}
	}
	return words, true
}

func (c *completer) candidates(rest []string, current string) []candidate {
	switch {
	case len(rest) == 1 && rest[0] != "--":
		return c.values(placeholder(c.parser.findFlag(strings.TrimLeft(rest[0], "-"))), current)
	case len(rest) == 0 && strings.HasPrefix(current, "-"):
		return c.flags(current)
	case len(rest) == 0 && len(c.parser.positionals) == 0 && len(c.parser.commands) > 0:
		if names := commandNames(c.parser.commands); c.parser.command == nil || c.parser.command.ArgsUsage == "" {
			return names
		}
		return append(commandNames(c.parser.commands), c.positional(0, current)...)
	case c.parser.command == nil:
		return nil
	case len(rest) > 0 && strings.Contains(c.parser.command.ArgsUsage, "[-- "):
		// What follows is a command line of its own.
		return files
	}
	return c.positional(len(c.parser.positionals)+max(0, len(rest)-1), current)
}

func commandNames(commands []*cli.Command) []candidate {
	var found []candidate
	for _, c := range commands {
		if !c.Hidden {
			found = append(found, candidate{c.Name, c.Usage})
		}
	}
	return found
}

// flags returns the flags of the command, or the values of the flag that
// stands before "=".
func (c *completer) flags(current string) []candidate {
	if name, value, ok := strings.Cut(current, "="); ok {
		f := c.parser.findFlag(strings.TrimLeft(name, "-"))
		if f == nil {
			return nil
		}
		found := c.values(placeholder(f), value)
		for i := range found {
			if found[i].text != files[0].text {
				found[i].text = name + "=" + found[i].text
			}
		}
		return found
	}
	if c.parser.command == nil {
		return []candidate{{"--help", "explain oacp"}, {"--version", "print the version"}}
	}
	found := []candidate{{"--help", "explain " + c.parser.command.Name}}
	for _, f := range c.parser.command.Flags {
		documented, ok := f.(cli.DocGenerationFlag)
		if visible, canHide := f.(cli.VisibleFlag); !ok || canHide && !visible.IsVisible() {
			continue
		}
		found = append(found, candidate{"--" + f.Names()[0], strings.ReplaceAll(documented.GetUsage(), "`", "")})
	}
	return found
}

// placeholder returns the name that a flag's help gives its value.
func placeholder(f cli.Flag) string {
	documented, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return ""
	}
	_, rest, _ := strings.Cut(documented.GetUsage(), "`")
	name, _, _ := strings.Cut(rest, "`")
	return name
}

// positional returns candidates for an argument that is no flag, by its
// placeholder. The last placeholder holds for all arguments that follow.
func (c *completer) positional(index int, current string) []candidate {
	var names []string
	repeated := false
	for word := range strings.FieldsSeq(c.parser.command.ArgsUsage) {
		if strings.Contains(word, "--") {
			break
		}
		repeated = strings.Contains(word, "…")
		names = append(names, strings.Trim(word, "[]…"))
	}
	if index >= len(names) && !repeated {
		return nil
	}
	return c.values(names[min(index, len(names)-1)], current)
}

// values returns what a value of the placeholder's name may be, or of the names
// that a bar stands between.
func (c *completer) values(placeholder, current string) []candidate {
	var found []candidate
	for name := range strings.SplitSeq(strings.Trim(placeholder, "[]…"), "|") {
		found = append(found, c.valuesOf(name, current)...)
	}
	return found
}

func (c *completer) valuesOf(name, current string) []candidate {
	switch name {
	case "AGENT":
		return c.agents(current)
	case "PROJECT":
		projects, _ := c.workspace().place(c.s).Projects()
		return words(projects)
	case "ID", "CONVERSATION-OR-ID":
		return c.messages(current)
	case "TYPE":
		return words(schema.Types())
	case "PRIORITY":
		return words(schema.Priorities())
	case "RUNTIME":
		return words(project.Runtimes)
	case "FORMAT":
		return words(validateFormats)
	case "SCHEMA":
		return words(schemaNames())
	case "SHELL":
		return words(shells)
	case "COMMAND":
		return commandNames(c.parser.app.Commands)
	case "KIND":
		return words(bridge.Types())
	case "SIGNAL":
		return words(bridge.Signals())
	case "WAY":
		return words(convert.Directions())
	case "FORM":
		return words([]string{toBridge, toMailbox})
	case "NUMBER":
		return c.runNumbers()
	case "DRIVER":
		return driverCandidates()
	case "PERMISSION":
		return words(agent.Permissions())
	case "INPUT":
		return words(inputs)
	case "WHAT":
		return words([]waitFor{waitForAck, waitForReply})
	case "FILE", "DIR", "PATH":
		return files
	}
	return nil
}

func driverCandidates() []candidate {
	var found []candidate
	for _, kind := range agent.Kinds() {
		found = append(found, candidate{kind.Name, kind.Summary})
	}
	return found
}

func words[Word ~string](all []Word) []candidate {
	found := make([]candidate, len(all))
	for i, word := range all {
		found[i].text = string(word)
	}
	return found
}

// workspace returns what the flags so far say of the workspace.
func (c *completer) workspace() workspaceOptions {
	var o workspaceOptions
	for _, f := range c.parser.flags {
		switch f.name {
		case "dir":
			o.dir = f.value()
		case "project":
			o.project = f.value()
		case "oacp-dir":
			o.home = f.value()
		}
	}
	if command := c.parser.command; o.project == "" && command != nil && strings.HasPrefix(command.ArgsUsage, "[PROJECT") && len(c.parser.positionals) > 0 {
		o.project = c.parser.positionals[0]
	}
	return o
}

// runNumbers returns the numbers of the repository's runs.
func (c *completer) runNumbers() []candidate {
	root, repository, err := c.log().runs(c.s)
	if err != nil {
		return nil
	}
	id, err := bridge.RepositoryID(repository)
	if err != nil {
		return nil
	}
	runs, _ := bridge.Runs(root, id)
	found := make([]candidate, len(runs))
	for i, run := range runs {
		found[i].text = strconv.Itoa(run.ID)
	}
	return found
}

// log returns what the flags so far say of the bridge log.
func (c *completer) log() logOptions {
	var o logOptions
	for _, f := range c.parser.flags {
		switch f.name {
		case "repo":
			o.repository = f.value()
		case "runs-dir":
			o.runsDir = f.value()
		}
	}
	return o
}

// agents completes a name, or the last one of a list.
func (c *completer) agents(current string) []candidate {
	before := current[:strings.LastIndexByte(current, ',')+1]
	var found []candidate
	_ = c.workspace().with(c.s, nil, func(w *mailbox.Workspace) error {
		agents, err := w.Agents()
		for _, agent := range agents {
			if !slices.Contains(strings.Split(before, ","), string(agent)) {
				found = append(found, candidate{text: before + string(agent)})
			}
		}
		return err
	})
	return found
}

// messages returns the ids of pending messages: in full where one began to
// type so, and else the part by which they are known.
func (c *completer) messages(current string) []candidate {
	var found []candidate
	_ = c.workspace().with(c.s, nil, func(w *mailbox.Workspace) error {
		agents, err := w.Agents()
		for _, agent := range agents {
			entries, err := w.Inbox(c.ctx, agent)
			if err != nil {
				return err
			}
			for i, short := range shortIDs(entries) {
				m := entries[i].Message
				if m == nil {
					continue
				}
				if strings.HasPrefix(current, "m") && !strings.HasPrefix(short, current) {
					short = string(m.ID)
				}
				found = append(found, candidate{short, string(m.From) + " to " + joinNames(m.To) + ": " + m.Subject})
			}
		}
		return err
	})
	return found
}

func matching(candidates []candidate, prefix string) []candidate {
	return slices.DeleteFunc(candidates, func(c candidate) bool {
		return c.text != files[0].text && !strings.HasPrefix(c.text, prefix)
	})
}
