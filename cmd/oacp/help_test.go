package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// TestCommands checks what every command has to have.
func TestCommands(t *testing.T) {
	app := newApp(newSession(t, "").streams)
	app.Setup()
	printsNoJSON := map[string]bool{"completion": true, "help": true, "__complete": true}
	for _, c := range allCommands(app.Commands) {
		if c.Usage == "" || c.Action == nil && c.Name != "help" {
			t.Errorf("%s: wants a line of usage and an action", c.Name)
		}
		if !c.Hidden && c.Category == "" && slices.Contains(app.Commands, c) {
			t.Errorf("%s: wants a category", c.Name)
		}
		if commandFlag(c, "json") == nil && !printsNoJSON[c.Name] {
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
		if takesValue(f) && placeholder(f) == "" && f.Names()[0] != "suffix" {
			t.Errorf("%s: the flag %s wants a name for its value", c.Name, f.Names()[0])
		}
	}
}

// TestExamples carries out what the help texts show as far as reading flags:
// every flag and command of every example exists.
func TestExamples(t *testing.T) {
	app := newApp(newSession(t, "").streams)
	app.Setup()
	example := regexp.MustCompile(`(?m)^   .*?\boacp (.*)$`)
	count := 0
	for _, c := range allCommands(app.Commands) {
		for _, match := range example.FindAllStringSubmatch(c.Description, -1) {
			line, _, _ := strings.Cut(match[1], " | ")
			line, _, _ = strings.Cut(line, " > ")
			line, _, _ = strings.Cut(strings.TrimSpace(line), "   ")
			if _, err := parseArguments(app, strings.Fields(strings.Trim(line, ")"))); err != nil {
				t.Errorf("%s: the example oacp %s: %v", c.Name, line, err)
			}
			count++
		}
	}
	if count < 15 {
		t.Errorf("there are %d examples, want at least 15", count)
	}
}
