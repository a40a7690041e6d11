//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/guide"
)

// commandsOn returns the commands of a page of Markdown: those in blocks, with the lines that they read, and those
// between backticks, of which single words only name a command.
var commandsOn = regexp.MustCompile("(?m)^ *(oacp .*<<'EOF'.*\n(?:.*\n)*?) *EOF$|^ *(oacp [^-].*)|`(oacp [a-z]+ [^`]*)`")

const filledHandoff = `source_agent: codex
target_agent: claude
intent: Go on
artifacts_to_review: [a.go]
definition_of_done: [green]
context_bundle: {files_touched: [a.go], decisions_made: [none], blockers_hit: [none], suggested_next_steps: [test]}
`

// TestPages runs the commands of the page for agents and of the README in a shell. Before each, claude sends codex
// what ID then stands for.
func TestPages(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	beforeHelp, _, _ := strings.Cut(string(readme), "<!-- oacp help")
	for name, page := range map[string]string{"the page for agents": guide.Agent, "README.md": beforeHelp} {
		c := newSession(t, "claude,codex")
		home, count := t.TempDir(), 0
		for _, match := range commandsOn.FindAllStringSubmatch(page, -1) {
			line := match[2] + match[3]
			if match[1] != "" {
				line = strings.ReplaceAll(match[1], "\n    ", "\n") + "EOF\n"
			}
			kind := "question"
			if strings.Contains(line, "review_lgtm") {
				kind = "review_request"
			}
			id := strings.TrimSpace(c.must(t, "send", "--from", "claude", "--to", "codex", "--type", kind, "--subject", "s", "--body", "x", "-q"))
			want := failure.ExitDone
			switch {
			case strings.Contains(line, "--wait"):
				line, want = strings.Replace(line, "--wait=reply", "--wait=reply --timeout 1ms", 1), failure.ExitTimeout
			case strings.HasPrefix(line, "oacp recall"): // of a message of its own
				id = strings.TrimSpace(c.must(t, "send", "--from", "codex", "--to", "claude", "--type", kind, "--subject", "s", "--body", "x", "-q"))
			case strings.HasPrefix(line, "oacp run"):
				line = strings.Replace(line, "oacp run", "oacp run --once", 1)
			case strings.HasPrefix(line, "oacp mirror"):
				line = strings.Replace(line, " --follow", "", 1)
			case strings.HasPrefix(line, "oacp pair") || strings.HasPrefix(line, "oacp dashboard"):
				line = strings.Replace(line, "oacp", "oacp --help", 1) // it needs programs, or a terminal
			case strings.HasPrefix(line, "oacp web"): // a signal ends it
				line = strings.Replace(line, "oacp web", "oacp web --help", 1)
			}
			shell := exec.CommandContext(t.Context(), "sh", "-c", strings.NewReplacer("ID", id, "NAME", "claude", "COMMAND", "inbox").Replace(line))
			shell.Dir = c.Dir
			shell.Env = append(os.Environ(), "HOME="+home, "OACP_AGENT=codex")
			out, err := shell.CombinedOutput()
			exit := new(exec.ExitError)
			if errors.As(err, &exit); exit.ProcessState != nil && exit.ExitCode() != want || exit.ProcessState == nil && want != 0 {
				t.Errorf("%s: %s ends with %v, want exit status %d:\n%s", name, line, err, want, out)
			}
			if strings.Contains(line, "oacp reply ID") && strings.Contains(c.must(t, "inbox", "--agent", "codex", "--json"), id) {
				t.Errorf("%s: %s leaves the message in the inbox", name, line)
			}
			if strings.HasSuffix(line, "> h.yaml") { // to be filled in
				if err := os.WriteFile(filepath.Join(c.Dir, "h.yaml"), []byte(filledHandoff), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			count++
		}
		if count < 15 {
			t.Errorf("%s has %d commands, want at least 15", name, count)
		}
	}
}
