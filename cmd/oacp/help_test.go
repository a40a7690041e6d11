package main

import (
	"bufio"
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/cmd/oacp-contract/judge"
	"github.com/oacp-go/oacp/cmd/oacp-dashboard/dashboard"
	"github.com/oacp-go/oacp/cmd/oacp-gascity/provider"
	"github.com/oacp-go/oacp/cmd/oacp-mcp/mcpserver"
	"github.com/oacp-go/oacp/cmd/oacp-web/web"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/guide"
	"github.com/oacp-go/oacp/schema"
)

// TestCommands checks the parts that every command needs.
func TestCommands(t *testing.T) {
	commands := topCommands(newSession(t, "").Streams)
	// What hook prints is in the form of the programs that call it.
	printsNoJSON := map[string]bool{"completion": true, "demo": true, "help": true, "hook": true}
	for _, c := range allCommands(commands) {
		if c.Usage == "" || c.Action == nil && c.Name != "help" {
			t.Errorf("%s: wants a line of usage and an action", c.Name)
		}
		if c.Category == "" && !c.Hidden && slices.Contains(commands, c) {
			t.Errorf("%s: wants a category", c.Name)
		}
		if !hasFlag(c, "json") && !printsNoJSON[c.Name] {
			t.Errorf("%s: wants a flag --json", c.Name)
		}
		checkFlags(t, c)
	}
}

// TestManual checks that there is a page for man for each command, which describes all its flags and those of the
// commands below it, and has no line that man would take for a request of another kind.
func TestManual(t *testing.T) {
	s, folder := newSession(t, "").Streams, t.TempDir()
	if status := program().Run(t.Context(), []string{"__manual", folder}, s); status != 0 {
		t.Fatalf("got status %d", status)
	}
	request := regexp.MustCompile(`^\.(TH|SH|TP|PP|B|BR|br|nf|fi)( |$)`)
	pages, err := filepath.Glob(filepath.Join(folder, "oacp*.1"))
	if err != nil {
		t.Fatal(err)
	}
	visible := slices.DeleteFunc(topCommands(s), func(c *cli.Command) bool { return c.Hidden })
	if len(pages) != len(visible)+1 {
		t.Errorf("got %d pages, want one for each of %d commands and one for oacp", len(pages), len(visible))
	}
	read := func(page string) string {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, page := range pages {
		for line := range strings.Lines(read(page)) {
			if (line[0] == '.' || line[0] == '\'') && !request.MatchString(strings.TrimSpace(line)) {
				t.Errorf("%s: man takes %q for a request", page, line)
			}
		}
	}
	for _, c := range visible {
		page := read(filepath.Join(folder, "oacp-"+c.Name+".1"))
		for _, each := range allCommands([]*cli.Command{c}) {
			for _, f := range each.Flags {
				name := strings.ReplaceAll("--"+f.Names()[0], "-", `\-`)
				if f.(cli.VisibleFlag).IsVisible() && !strings.Contains(page, name) {
					t.Errorf("the page of %s has no flag %s", each.Name, name)
				}
			}
		}
	}
}

func topCommands(s *command.Streams) []*cli.Command {
	var commands []*cli.Command
	for _, entry := range program().Commands {
		commands = append(commands, entry.New(s))
	}
	return commands
}

// wholeProgram returns the program with the commands that are programs of their own.
func wholeProgram() *command.Program {
	p := program()
	p.Separate = nil
	p.Commands = append(p.Commands, command.Entry{Name: "mcp", New: mcpserver.NewCommand},
		command.Entry{Name: "dashboard", New: dashboard.NewCommand}, command.Entry{Name: "web", New: web.NewCommand},
		command.Entry{Name: "contract", New: judge.NewCommand}, command.Entry{Name: "gascity", New: provider.NewCommand})
	return p
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
		if !f.(cli.VisibleFlag).IsVisible() {
			continue
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

// maxPage is the most characters that a page of help has. Agents read whole pages.
const maxPage = 2000

// longPages may have more characters. The one without a name is the list of commands.
var longPages = map[string]int{"agent": 2700, "": 2100}

// TestHelpPages checks the size and width of each page of help, and that with --all it describes every flag.
func TestHelpPages(t *testing.T) {
	s, whole := newSession(t, "").Streams, wholeProgram()
	help := func(words ...string) string {
		var page bytes.Buffer
		s.Out = bufio.NewWriter(&page)
		p := whole
		if len(words) == 1 { // the list of all commands, which says nothing of oacp contract
			p = program()
		}
		if exit := p.Run(t.Context(), words, s); exit != failure.ExitDone {
			t.Errorf("oacp %s: exit status %d", strings.Join(words, " "), exit)
		}
		return page.String()
	}
	check := func(words ...string) {
		page, name := help(append([]string{"help"}, words...)...), strings.Join(words, " ")
		if size, most := utf8.RuneCountInString(page), cmp.Or(longPages[name], maxPage); size > most {
			t.Errorf("oacp help %s: %d characters, want at most %d", name, size, most)
		}
		for line := range strings.Lines(page) {
			if columns := utf8.RuneCountInString(line) - 1; columns > 80 && name != "agent" {
				t.Errorf("oacp help %s: %d columns, want at most 80: %s", name, columns, line)
			}
		}
	}
	check()
	for _, page := range guide.Pages() {
		check(page.Name)
	}
	var all func(commands []*cli.Command, parents ...string)
	all = func(commands []*cli.Command, parents ...string) {
		for _, c := range commands {
			words := append(slices.Clip(parents), c.Name)
			if words[0] == "help" {
				continue
			}
			check(words...)
			short, long := help(append([]string{"help"}, words...)...), help(append(words, "--help", "--all")...)
			if help(append(words, "--help")...) != short {
				t.Errorf("oacp %s --help differs from oacp help %[1]s", strings.Join(words, " "))
			}
			for _, f := range c.Flags {
				if name := "--" + f.Names()[0]; !strings.Contains(long, name) && f.(cli.VisibleFlag).IsVisible() {
					t.Errorf("oacp help %s --all says nothing of %s", strings.Join(words, " "), name)
				}
			}
			all(c.Subcommands, words...)
		}
	}
	var commands []*cli.Command
	for _, entry := range whole.Commands {
		commands = append(commands, entry.New(s))
	}
	all(commands)
}

// TestTypesTopic checks that the topic has every type of message with the types that answer it.
func TestTypesTopic(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^   (\w+) .*(\n {20}.*)*`).FindAllString(guide.Types, -1)
	for _, asked := range schema.Types() {
		at := slices.IndexFunc(rows, func(row string) bool { return strings.HasPrefix(row, "   "+string(asked)+" ") })
		if at < 0 {
			t.Errorf("oacp help types says nothing of %s", asked)
			continue
		}
		_, row, _ := strings.Cut(strings.TrimSpace(rows[at]), " ")
		words := strings.FieldsFunc(row, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' })
		for _, other := range schema.Types() {
			request := &schema.Message{ID: "msg-20260313T1430Z-a-0000", From: "a", To: []schema.AgentName{"b"}, Type: asked}
			answer := &schema.Message{ParentID: request.ID, From: "b", To: []schema.AgentName{"a"}, Type: other}
			listed := slices.Contains(words, string(other))
			if slices.Contains(words, "any") {
				listed = !listed
			}
			if answers := answer.Answers(request); answers != listed {
				t.Errorf("a %s answers a %s: %t; oacp help types says %s", other, asked, answers, strings.Join(words, " "))
			}
		}
	}
}

// TestAgentPage checks that the page for agents covers what an agent needs.
func TestAgentPage(t *testing.T) {
	for topic, want := range map[string]string{
		"the start": "oacp inbox ", "the loop": "oacp next ", "waiting with an open task": "while\na task is open", "what is open": "--again",
		"progress": "oacp working ID", "asking back": "--type question --wait=reply` to `oacp reply", "a person": "--choices", "the parties": "oacp status` ",
		"handing over": "--type handoff --in-reply-to ID", "a handoff's answer": "handoff_complete --in-reply-to", "a deadline": "--by ",
		"commits": "oacp commit", "the end": "oacp owed ", "finding": "oacp list --text", "taking back": "oacp recall",
	} {
		if !strings.Contains(guide.Agent, want) {
			t.Errorf("the page for agents says nothing of %s: it has no %q", topic, want)
		}
	}
}
