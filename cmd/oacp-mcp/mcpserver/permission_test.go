package mcpserver_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// TestPermissions checks that claude and codex use the tools unattended with the settings that
// docs/mcp.md names, and need them; and that what they show the model is the structured content.
func TestPermissions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "mcp.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range []string{`"mcp__oacp"`, `default_tools_approval_mode = "approve"`} {
		if !strings.Contains(string(page), setting) {
			t.Errorf("docs/mcp.md does not name the setting %s", setting)
		}
	}
	for _, allowed := range []bool{false, true} {
		t.Run(fmt.Sprint("claude ", allowed), func(t *testing.T) {
			t.Parallel()
			r := newRoom(t, "claude", "codex")
			id := r.pendingFor(t, "codex", "claude")
			model := modelstub.Start(t, modelstub.Answers(t,
				modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "mcp__oacp__acknowledge_message", Input: map[string]any{"message_id": id}}}},
				modelstub.Reply{Text: "done"}))
			home := t.TempDir()
			settings := `{}`
			if allowed {
				settings = `{"permissions":{"allow":["mcp__oacp"]}}`
			}
			child := r.child(t, "claude")
			servers := asJSON(t, map[string]any{"mcpServers": map[string]any{
				"oacp": map[string]any{"command": child.Path, "args": []string{}, "env": childEnv(child.Env)},
			}})
			writeFile(t, filepath.Join(home, ".claude", "settings.json"), settings)
			writeFile(t, filepath.Join(home, "servers.json"), servers)
			command := exec.CommandContext(t.Context(), modelstub.Program(t, "claude"), "-p", "hi", "--permission-mode", "default",
				"--mcp-config", filepath.Join(home, "servers.json"), "--strict-mcp-config")
			command.Dir, command.Env = t.TempDir(), append(os.Environ(), model.ClaudeEnv(home)...)
			r.checkAcknowledged(t, command, model, id, allowed)
		})
		t.Run(fmt.Sprint("codex ", allowed), func(t *testing.T) {
			t.Parallel()
			r := newRoom(t, "claude", "codex")
			id := r.pendingFor(t, "claude", "codex")
			model := modelstub.Start(t, modelstub.Answers(t,
				modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "mcp__oacp.acknowledge_message", Input: map[string]any{"message_id": id}}}},
				modelstub.Reply{Text: "done"}))
			home := t.TempDir()
			env := model.CodexEnv(t, home)
			child := r.child(t, "codex")
			var settings strings.Builder
			fmt.Fprintf(&settings, "\n[mcp_servers.oacp]\ncommand = %q\n", child.Path)
			if allowed {
				settings.WriteString("default_tools_approval_mode = \"approve\"\n")
			}
			settings.WriteString("[mcp_servers.oacp.env]\n")
			for name, value := range childEnv(child.Env) {
				fmt.Fprintf(&settings, "%s = %q\n", name, value)
			}
			config := filepath.Join(home, ".codex", "config.toml")
			before, err := os.ReadFile(config)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, config, string(before)+settings.String())
			command := exec.CommandContext(t.Context(), modelstub.Program(t, "codex"), "exec", "--skip-git-repo-check", "hi")
			command.Dir, command.Env = t.TempDir(), append(os.Environ(), env...)
			r.checkAcknowledged(t, command, model, id, allowed)
		})
	}
}

// pendingFor sends a message and returns its id.
func (r *room) pendingFor(t *testing.T, from, to schema.AgentName) string {
	t.Helper()
	var sent sentMessage
	r.client(t, from).call(t, "send_message", arguments{"to": to, "type": "question", "subject": "S", "body": "B"}, &sent)
	return sent.MessageID
}

// checkAcknowledged runs a program and checks whether it acknowledged the message.
func (r *room) checkAcknowledged(t *testing.T, command *exec.Cmd, model *modelstub.Server, id string, want bool) {
	t.Helper()
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("the program failed: %v: %s", err, out)
	}
	asked := model.Requests()
	results := asked[len(asked)-1].Results
	if len(results) != 1 {
		t.Fatalf("the model got the results %+v, want one", results)
	}
	structured := strings.Contains(results[0].Output, fmt.Sprintf(`{"message_id":%q}`, id))
	found, err := r.workspace.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if acknowledged := found[0].Box == mailbox.Archive; acknowledged != want || structured != want {
		t.Errorf("acknowledged: %t, want %t; the model got %q", acknowledged, want, results[0].Output)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
