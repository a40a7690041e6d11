package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/schema"
)

// newCodexPlugin makes a scene in which codex has the plugin instead of hooks, and the user has reviewed it.
func newCodexPlugin(t *testing.T, script modelstub.Script, folder string) *codexSession {
	t.Helper()
	oacp, err := exec.LookPath("oacp")
	if err != nil {
		t.Fatal(err)
	}
	s := &codexScene{t: t, codex: modelstub.Program(t, "codex"), oacp: oacp, home: t.TempDir(), server: modelstub.Start(t, script)}
	outlive(t, s.home)
	s.env = append(s.server.CodexTerminalEnv(t, s.home, folder), "OACP_AGENT=")
	s.server.AllowCodexPlugins(t, s.home)
	from := copyMarketplace(t)
	runProgram(t, folder, s.env, s.codex, "plugin", "marketplace", "add", from)
	runProgram(t, folder, s.env, s.codex, "plugin", "add", "oacp@oacp")
	modelstub.TrustCodexPlugin(t, s.home, filepath.Join(from, "plugin", "com.openai.codex", "hooks", "hooks.json"), "oacp@oacp")
	return s.in(folder)
}

// TestCodexPlugin checks that the plugin brings mail and tools into the real codex, that mail wakes the idle session, and
// that the plugin leaves the events to the hooks of oacp setup.
func TestCodexPlugin(t *testing.T) {
	t.Parallel()
	alpha := regexp.MustCompile(`- (\w+) question [^\n]*: Alpha waits`)
	s := newCodexPlugin(t, func(_ context.Context, r modelstub.Request) modelstub.Reply {
		if id := alpha.FindStringSubmatch(strings.Join(r.Context, "\n")); r.Prompt == "please acknowledge" && len(r.Results) == 0 && id != nil {
			return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "mcp__oacp.acknowledge_message", Input: map[string]any{"message_id": id[1]}}}}
		}
		return modelstub.Reply{Text: "Well."}
	}, t.TempDir())
	s.send(schema.Question, "Alpha waits")
	s.open()
	s.terminal.Say("good morning")
	r := s.awaitPrompt("good morning")
	wantCount(t, r, 1, "You are oacp agent codex", "The body of Alpha waits.", "- oacp:oacp: ")
	if !slices.Contains(r.Tools, "mcp__oacp.list_inbox") {
		t.Errorf("the tools are %q, want those of the plugin", r.Tools)
	}
	s.awaitIdle()
	s.send(schema.Question, "Beta wakes")
	s.server.Await(t, func(r modelstub.Request) bool { return strings.Contains(string(r.Body), "Beta wakes") })
	s.awaitIdle()
	s.terminal.Say("please acknowledge") // codex does not ask
	s.server.Await(t, func(r modelstub.Request) bool {
		return len(r.Results) > 0 && strings.Contains(r.Results[0].Output, `{"message_id":`)
	})
	s.awaitIdle()
	s.terminal.Say("/exit")
	s.terminal.Wait()

	out := runProgram(t, s.folder, s.env, s.oacp, "setup", "codex")
	if !strings.Contains(out, "it leaves these sessions to this setup") {
		t.Errorf("the setup does not name the plugin:\n%s", out)
	}
	modelstub.TrustCodexHooks(t, s.home, filepath.Join(s.folder, ".codex", "hooks.json"))
	s.open()
	s.terminal.Say("good evening")
	r = s.awaitPrompt("good evening")
	wantCount(t, r, 1, "You are oacp agent codex", "that you have seen: oacp inbox")
	wantCount(t, r, 0, "The body of Alpha waits.", "The body of Beta wakes.")
	s.awaitIdle()
	wantNoErrors(t, s.w)
}
