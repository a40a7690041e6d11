package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/modelstub"
)

// TestPairPrograms runs the command as a user would, with the real claude and
// codex in the path and a scripted model behind them: codex mends a test that
// fails, claude fails that once for its looks, and passes it then, with the tools of oacp mcp.
func TestPairPrograms(t *testing.T) {
	bin := filepath.Dir(modelstub.Program(t, "claude"))
	modelstub.Program(t, "codex")
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	scratch, home := t.TempDir(), t.TempDir()
	oacp := filepath.Join(scratch, "oacp")
	mustRun(t, ".", "go", "build", "-o", oacp, ".")
	repository := filepath.Join(scratch, "repository")
	for name, text := range map[string]string{
		"go.mod":      "module example.com/sum\n\ngo 1.26\n",
		"sum.go":      "package sum\n\nfunc Sum(a, b int) int { return a - b }\n",
		"sum_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum(2, 2) != 4 {\n\t\tt.Fatal(\"want 4\")\n\t}\n}\n",
	} {
		if err := os.MkdirAll(repository, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(repository, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustRun(t, repository, "git", "init", "--quiet")

	server := modelstub.Start(t, func(_ context.Context, request modelstub.Request) modelstub.Reply {
		return pairModel(filepath.Join(repository, "sum.go"), request)
	})
	goCache := strings.TrimSpace(mustRun(t, ".", "go", "env", "GOCACHE"))
	command := exec.Command(oacp, "pair", "--agent", "codex", "--review", "claude", "--allow", "all", "--max-iterations", "3", "--proof", "go test ./...", "Fix the failing test")
	command.Dir = repository
	command.Env = append(append(append(os.Environ(), server.ClaudeEnv(home)...), server.CodexEnv(t, home)...), "GOCACHE="+goCache)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"codex says DONE", "the proof has succeeded", "claude says FAIL", "claude says PASS", "run 1 is completed in iteration 2"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	for arguments, want := range map[string]string{"bridge --json": `"pass_count": 1`, "bridge drain --agent codex --json": "sent with a tool"} {
		look := exec.Command(oacp, strings.Fields(arguments)...)
		look.Dir, look.Env = repository, command.Env
		if out, err := look.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("oacp %s: %v, want %s in\n%s", arguments, err, want, out)
		}
	}
}

// pairModel is the model behind both programs.
func pairModel(file string, request modelstub.Request) modelstub.Reply {
	reviewed := strings.Contains(request.Prompt, "add a comment")
	switch {
	case request.API == modelstub.Messages && len(request.Results) == 0:
		return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "Read", Input: map[string]any{"file_path": file}}}}
	case request.API == modelstub.Messages && strings.Contains(request.Results[0].Output, "// Sum"):
		return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "mcp__oacp__send_to_agent", Input: map[string]any{
			"to": "codex", "message_type": "signal", "signal": "PASS", "content": "sent with a tool",
		}}}}
	case request.API == modelstub.Messages && !strings.Contains(request.Results[0].Output, "package sum"):
		return modelstub.Reply{Text: "I sent my verdict."}
	case request.API == modelstub.Messages:
		return modelstub.Reply{Text: "It works, but add a comment.\nFAIL"}
	case len(request.Results) > 0:
		return modelstub.Reply{Text: "Mended.\nDONE"}
	}
	edit := "sed 's/a - b/a + b/' sum.go > new && mv new sum.go"
	if reviewed {
		edit = "sed 's/^func/\\/\\/ Sum adds.\\n&/' sum.go > new && mv new sum.go"
	}
	return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "exec_command", Input: map[string]any{"cmd": edit}}}}
}

func mustRun(t *testing.T, dir string, words ...string) string {
	t.Helper()
	command := exec.Command(words[0], words[1:]...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}
