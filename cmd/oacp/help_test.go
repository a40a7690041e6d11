package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
)

// TestCommands checks the parts that every command needs.
func TestCommands(t *testing.T) {
	commands := topCommands(newSession(t, "").Streams)
	printsNoJSON := map[string]bool{"completion": true, "help": true}
	for _, c := range allCommands(commands) {
		if c.Usage == "" || c.Action == nil && c.Name != "help" {
			t.Errorf("%s: wants a line of usage and an action", c.Name)
		}
		if c.Category == "" && slices.Contains(commands, c) {
			t.Errorf("%s: wants a category", c.Name)
		}
		if !hasFlag(c, "json") && !printsNoJSON[c.Name] {
			t.Errorf("%s: wants a flag --json", c.Name)
		}
		for line := range strings.Lines(c.Description) {
			if len(line) > 100 {
				t.Errorf("%s: a line of the description has %d characters: %s", c.Name, len(line), line)
			}
		}
		checkFlags(t, c)
	}
}

func topCommands(s *command.Streams) []*cli.Command {
	var commands []*cli.Command
	for _, entry := range program().Commands {
		commands = append(commands, entry.New(s))
	}
	return commands
}

func hasFlag(c *cli.Command, name string) bool {
	return slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

// allCommands returns the commands and those below them.
func allCommands(commands []*cli.Command) []*cli.Command {
	all := slices.Clone(commands)
	for _, c := range commands {
		all = append(all, allCommands(c.Subcommands)...)
	}
	return all
}

func checkFlags(t *testing.T, c *cli.Command) {
	t.Helper()
	seen := make(map[string]bool)
	for _, f := range c.Flags {
		for _, name := range f.Names() {
			if seen[name] {
				t.Errorf("%s: the flag %s is there twice", c.Name, name)
			}
			seen[name] = true
		}
		documented, ok := f.(cli.DocGenerationFlag)
		if !ok || documented.GetUsage() == "" {
			t.Errorf("%s: the flag %s wants a usage", c.Name, f.Names()[0])
			continue
		}
		if takes, ok := f.(cli.DocGenerationFlag); ok && takes.TakesValue() && command.Placeholder(f) == "" && f.Names()[0] != "suffix" {
			t.Errorf("%s: the flag %s wants a name for its value", c.Name, f.Names()[0])
		}
	}
}

// TestExamples parses the examples of the help texts, and checks that every flag and command in
// them exists.
func TestExamples(t *testing.T) {
	session := newSession(t, "")
	commands := topCommands(session.Streams)
	example := regexp.MustCompile(`(?m)^   .*?\boacp (.*)$`)
	count := 0
	for _, c := range allCommands(commands) {
		for _, match := range example.FindAllStringSubmatch(c.Description, -1) {
			line, _, _ := strings.Cut(match[1], " | ")
			line, _, _ = strings.Cut(line, " > ")
			line, _, _ = strings.Cut(strings.TrimSpace(line), "   ")
			args := append([]string{"--help"}, strings.Fields(strings.Trim(line, ")"))...)
			if exit := session.run(t.Context(), args...); exit != failure.ExitDone {
				t.Errorf("%s: the example oacp %s: %s", c.Name, line, session.stderr.String())
			}
			count++
		}
	}
	if count < 15 {
		t.Errorf("there are %d examples, want at least 15", count)
	}
}
