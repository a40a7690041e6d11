package terminal

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// hooks is a file with a hook that tells the model a word with each prompt.
const hooks = `{"hooks":{"UserPromptSubmit":[{"hooks":[{"type":"command","command":"echo '{\"hookSpecificOutput\":{\"hookEventName\":\"UserPromptSubmit\",\"additionalContext\":\"the <word> & is zebra\"}}'"}]}]}}`

// addHooks adds the hook to the settings of claude.
func addHooks(t *testing.T, home string) {
	t.Helper()
	path := filepath.Join(home, ".claude", "settings.json")
	settings := make(map[string]any)
	data, err := os.ReadFile(path)
	for _, text := range [][]byte{data, []byte(hooks)} {
		if err == nil {
			err = json.Unmarshal(text, &settings)
		}
	}
	if err == nil {
		data, err = json.Marshal(settings)
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestPrograms checks that claude and codex start in a terminal without a question and run hooks, that
// a typed prompt reaches the model together with what the hook adds, and that the screen shows the
// answers and the programs quit.
func TestPrograms(t *testing.T) {
	programs := map[string]struct {
		ready, quit string
		tool        modelstub.ToolCall
		prepare     func(t *testing.T, s *modelstub.Server, home, folder string) []string
	}{
		"claude": {
			ready: "for shortcuts", quit: "/exit",
			tool: modelstub.ToolCall{Name: "Bash", Input: map[string]any{"command": "echo $((40+2))", "description": "adds"}},
			prepare: func(t *testing.T, s *modelstub.Server, home, folder string) []string {
				env := s.ClaudeTerminalEnv(t, home, folder)
				addHooks(t, home)
				return env
			},
		},
		"codex": {
			ready: "stub-model default", quit: "/quit",
			tool: modelstub.ToolCall{Name: "exec_command", Input: map[string]any{"cmd": "echo $((40+2))"}},
			prepare: func(t *testing.T, s *modelstub.Server, home, folder string) []string {
				env := s.CodexTerminalEnv(t, home, folder)
				path := filepath.Join(home, ".codex", "hooks.json")
				if err := os.WriteFile(path, []byte(hooks), 0o600); err != nil {
					t.Fatal(err)
				}
				modelstub.TrustCodexHooks(t, home, path)
				return env
			},
		},
	}
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			path := modelstub.Program(t, name)
			home, folder := t.TempDir(), t.TempDir()
			server := modelstub.Start(t, modelstub.Answers(t,
				modelstub.Reply{Calls: []modelstub.ToolCall{program.tool}}, modelstub.Reply{Text: "all is well"}, modelstub.Reply{Text: "goodbye then"},
			))
			term := Start(t, Options{Dir: folder, Env: program.prepare(t, server, home, folder), Command: []string{path}})
			term.Await(program.ready)
			term.Say("what is the sum?")
			request := server.Await(t, func(r modelstub.Request) bool { return r.Prompt == "what is the sum?" })
			if !slices.ContainsFunc(request.Context, func(text string) bool { return strings.Contains(text, "the <word> & is zebra") }) {
				t.Errorf("the context lacks what the hook adds: %q", request.Context)
			}
			server.Await(t, func(r modelstub.Request) bool {
				return len(r.Results) == 1 && strings.Contains(r.Results[0].Output, "42")
			})
			term.Await("all is well")
			term.Say("thanks for that")
			term.Await("goodbye then")
			term.Say(program.quit)
			if status := term.Wait(); status != 0 {
				t.Errorf("the program ended with status %d, want 0", status)
			}
		})
	}
}
