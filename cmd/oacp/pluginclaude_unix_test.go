//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// copyMarketplace copies what a clone of the repository has of the plugin into a folder.
func copyMarketplace(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for _, name := range []string{".agents", ".claude-plugin", "plugin"} {
		if err := os.CopyFS(filepath.Join(folder, name), os.DirFS(filepath.Join("..", "..", name))); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// runProgram runs a program in a folder, and returns what it prints.
func runProgram(t *testing.T, folder string, env []string, name string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, arguments...)
	command.Dir, command.Env = folder, append(os.Environ(), env...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

// wantTools checks which server brings claude the tools: a session in a terminal may begin before they are there.
func (s *liveScene) wantTools(t *testing.T, want, not string) {
	t.Helper()
	out := runProgram(t, s.folder, s.env, s.claude, "-p", "which tools", "--output-format", "stream-json", "--verbose")
	if !strings.Contains(out, want+"list_inbox") || strings.Contains(out, not+"list_inbox") {
		t.Errorf("claude says\n%s\nwant tools %s… and none %s…", out, want, not)
	}
}

// TestClaudePlugin checks that the plugin brings mail and tools into the real claude, that it wakes the idle session, and
// that it leaves both to oacp setup.
func TestClaudePlugin(t *testing.T) {
	t.Parallel()
	s := newLiveScene(t, func(context.Context, modelstub.Request) modelstub.Reply { return modelstub.Reply{Text: "Well."} })
	s.env = append(s.env, "OACP_AGENT="+claudeAgent)
	from := copyMarketplace(t)
	runProgram(t, s.folder, s.env, s.claude, "plugin", "validate", from)
	runProgram(t, s.folder, s.env, s.claude, "plugin", "validate", filepath.Join(from, "plugin"))
	runProgram(t, s.folder, s.env, s.claude, "plugin", "marketplace", "add", from)
	runProgram(t, s.folder, s.env, s.claude, "plugin", "install", "oacp@oacp")

	const ofPlugin, ofSetup = "mcp__plugin_oacp_oacp__", "mcp__oacp__"
	s.wantTools(t, ofPlugin, ofSetup)

	s.ask("Alpha waits")
	term := s.open()
	term.Say("good morning")
	r := s.awaitPrompt("good morning")
	wantCount(t, r, 1, "You are oacp agent ada", "Alpha waits", "- oacp:oacp: ")
	s.awaitIdle()
	s.ask("Beta wakes")
	if r := s.awaitText("Beta wakes"); r.Prompt != "good morning" {
		t.Errorf("the request with the message has the prompt %q, want that of the turn before", r.Prompt)
	}
	s.awaitIdle()
	term.Say("/exit")
	term.Wait()

	if out := s.run("setup", "claude", "--agent", claudeAgent); !strings.Contains(out, "it leaves these sessions to this setup") {
		t.Errorf("the setup does not name the plugin:\n%s", out)
	}
	s.wantTools(t, ofSetup, ofPlugin)
	term = s.open()
	term.Say("good evening")
	r = s.awaitPrompt("good evening")
	wantCount(t, r, 1, "You are oacp agent ada", "Alpha waits", "Beta wakes")
	s.awaitIdle()
	s.ask("Gamma in both")
	wantCount(t, s.awaitText("Gamma in both"), 1, "Gamma in both")
	s.awaitIdle()
	wantNoErrors(t, s.w)
	if !slices.ContainsFunc(strings.Split(s.run("doctor"), "\n"), func(line string) bool {
		return strings.Contains(line, "claude (plugin)") && strings.Contains(line, "leaves the sessions to oacp setup")
	}) {
		t.Errorf("doctor does not name the plugin:\n%s", s.run("doctor"))
	}
}
