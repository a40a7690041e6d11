package agent

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// realACP returns a driver for a real program, whose model is the script. The changes apply to its options.
func realACP(t testing.TB, path string, arguments []string, script modelstub.Script, env func(*modelstub.Server, string) []string, change func(*Options)) (*resident, *modelstub.Server) {
	t.Helper()
	server := modelstub.Start(t, script)
	options := Options{Command: append([]string{path}, arguments...), Dir: t.TempDir(), Env: env(server, t.TempDir())}
	if change != nil {
		change(&options)
	}
	return NewACP(options).(*resident), server
}

func realGemini(t testing.TB, script modelstub.Script, change func(*Options)) (*resident, *modelstub.Server) {
	env := func(s *modelstub.Server, home string) []string { return s.GeminiEnv(t, home) }
	return realACP(t, modelstub.Program(t, "gemini"), []string{"--acp"}, script, env, change)
}

func realCodexACP(t testing.TB, script modelstub.Script, change func(*Options)) (*resident, *modelstub.Server) {
	env := func(s *modelstub.Server, home string) []string { return s.CodexEnv(t, home) }
	return realACP(t, modelstub.Program(t, "codex-acp"), nil, script, env, change)
}

func realClaudeACP(t testing.TB, script modelstub.Script, change func(*Options)) (*resident, *modelstub.Server) {
	env := func(s *modelstub.Server, home string) []string { return append(s.ClaudeEnv(home), "IS_SANDBOX=1") }
	return realACP(t, modelstub.OptionalProgram(t, "claude-agent-acp", "@agentclientprotocol/claude-agent-acp"), nil, script, env, change)
}

func realQwen(t testing.TB, script modelstub.Script, change func(*Options)) (*resident, *modelstub.Server) {
	env := func(s *modelstub.Server, home string) []string { return s.QwenEnv(t, home) }
	return realACP(t, modelstub.OptionalProgram(t, "qwen", "@qwen-code/qwen-code"), []string{"--acp"}, script, env, change)
}

func realOpenCode(t testing.TB, script modelstub.Script, change func(*Options)) (*resident, *modelstub.Server) {
	env := func(s *modelstub.Server, home string) []string {
		return append(s.OpenCodeEnv(t, home), `OPENCODE_PERMISSION={"bash":"ask","edit":"ask"}`)
	}
	return realACP(t, modelstub.OptionalProgram(t, "opencode", "opencode-ai"), []string{"acp"}, script, env, change)
}

// runShellCommand is a model's request that gemini or qwen run a command.
func runShellCommand(command string) modelstub.Reply {
	return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "run_shell_command", Input: map[string]any{"command": command, "description": "a test", "is_background": false}}}}
}

// openCodeBash is a model's request that opencode run a command.
func openCodeBash(command string) modelstub.Reply {
	return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "bash", Input: map[string]any{"command": command, "description": "a test"}}}}
}

// acpWriters are the models' requests to write a file.
var acpWriters = map[string]func(path string) modelstub.ToolCall{
	"gemini": func(path string) modelstub.ToolCall {
		return modelstub.ToolCall{Name: "write_file", Input: map[string]any{"file_path": path, "content": "hello"}}
	},
	"qwen": func(path string) modelstub.ToolCall {
		return modelstub.ToolCall{Name: "write_file", Input: map[string]any{"file_path": path, "content": "hello"}}
	},
	"claude-agent-acp": func(path string) modelstub.ToolCall {
		return modelstub.ToolCall{Name: "Write", Input: map[string]any{"file_path": path, "content": "hello"}}
	},
	"opencode": func(path string) modelstub.ToolCall {
		return modelstub.ToolCall{Name: "write", Input: map[string]any{"filePath": path, "content": "hello"}}
	},
	"codex-acp": func(path string) modelstub.ToolCall {
		return execCommand("apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: " + filepath.Base(path) + "\n+hello\n*** End Patch\nEOF\n").Calls[0]
	},
}

// TestACPRealEdits makes the models of the real programs write a file, with and without permission.
func TestACPRealEdits(t *testing.T) {
	t.Parallel()
	withPrograms(t, func(t *testing.T, p realProgram) {
		write := acpWriters[p.name]
		if write == nil {
			t.Skip("has tests of its own")
		}
		for _, allow := range []Permission{PermitOwn, PermitEdits, PermitAll} {
			dir := t.TempDir()
			file := filepath.Join(dir, "note.txt")
			script := modelstub.Answers(t, modelstub.Reply{Text: "I will", Calls: []modelstub.ToolCall{write(file)}}, modelstub.Reply{Text: "done"}, modelstub.Reply{Text: "done"})
			driver, server := p.create(t, script, func(o *Options) { o.Dir, o.Allow = dir, allow })
			started(t, driver)
			result := turn(t, driver, "write a note")
			_, err := os.Stat(file)
			if got := err == nil; got != (allow != PermitOwn) {
				t.Errorf("permission %s: the file exists: %v; the result is %+v, the last request %+v", allow, got, result, server.Requests()[len(server.Requests())-1].Results)
			}
			t.Logf("permission %s: answer %q, usage %+v, refused %+v", allow, result.Text, result.Usage, result.Refused)
			if got := len(result.Refused) == 1 && result.Refused[0].What == file && result.Refused[0].Allow == PermitEdits; got != (allow == PermitOwn) {
				t.Errorf("permission %s: refused %+v", allow, result.Refused)
			}
			stopped(t, driver)
		}
	})
}

// TestACPRealTurns checks answers, which have none of a program's warnings, and usage.
func TestACPRealTurns(t *testing.T) {
	t.Parallel()
	withPrograms(t, func(t *testing.T, p realProgram) {
		if acpWriters[p.name] == nil {
			t.Skip("has tests of its own")
		}
		driver, _ := p.create(t, modelstub.Answers(t, modelstub.Reply{Text: "first answer"}, modelstub.Reply{Text: "second answer"}), nil)
		started(t, driver)
		for _, want := range []string{"first answer", "second answer"} {
			result := turn(t, driver, "hello")
			t.Logf("usage %+v", result.Usage)
			usage := Usage{InputTokens: modelstub.InputTokens, OutputTokens: modelstub.OutputTokens, CostUSD: result.Usage.CostUSD}
			if result.Text != want || !reflect.DeepEqual(result.Usage, usage) {
				t.Errorf("result %+v, want the answer %q and the usage %+v", result, want, usage)
			}
		}
	})
}

// TestACPRealMCP checks that the real programs use the tools of a given server without asking.
func TestACPRealMCP(t *testing.T) {
	t.Parallel()
	tools := map[string]string{"gemini": "mcp_parrot_say", "qwen": "mcp__parrot__say", "claude-agent-acp": "mcp__parrot__say", "opencode": "parrot_say", "codex-acp": "mcp__parrot.say"}
	withPrograms(t, func(t *testing.T, p realProgram) {
		if tools[p.name] == "" {
			t.Skip("has tests of its own")
		}
		script := modelstub.Answers(t, modelstub.Reply{Calls: []modelstub.ToolCall{{Name: tools[p.name], Input: map[string]any{"text": "hello"}}}}, modelstub.Reply{Text: "done"})
		driver, server := p.create(t, script, func(o *Options) {
			o.MCP = map[string]MCPServer{"parrot": {Command: helperCommand(t, "mcp", "Polly")}}
		})
		started(t, driver)
		result := turn(t, driver, "let the parrot speak")
		asked := server.Requests()
		if said := asked[len(asked)-1].Results; len(said) != 1 || !strings.Contains(said[0].Output, "Polly says hello") {
			t.Errorf("the tool said %+v, result %+v; tools %v", said, result, asked[0].Tools)
		}
	})
}
