package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// TestClaude lets the real Claude Code command line list the tools of a server that it starts and
// of one that it reaches over HTTP. It needs no account, as Claude Code lists the tools before it
// asks a model.
func TestClaude(t *testing.T) {
	t.Parallel()
	claude := modelstub.Program(t, "claude")
	r := newRoom(t, "claude", "codex")
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"type":"error","error":{"type":"authentication_error","message":"no account"}}`, http.StatusUnauthorized)
	}))
	t.Cleanup(model.Close)

	ctx, cancel := context.WithCancel(t.Context())
	command := exec.CommandContext(ctx, claude, "-p", "hi", "--output-format", "stream-json", "--verbose",
		"--mcp-config", r.claudeConfig(t), "--strict-mcp-config")
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), "HOME="+command.Dir, "CLAUDE_CONFIG_DIR="+filepath.Join(command.Dir, "config"),
		"ANTHROPIC_API_KEY=none", "ANTHROPIC_BASE_URL="+model.URL,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		// The test kills it once it has listed the tools.
		_ = command.Wait()
	})
	var hello struct {
		Subtype string
		Tools   []string
		Servers []struct{ Name, Status string } `json:"mcp_servers"`
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for hello.Subtype != "init" {
		if !lines.Scan() {
			t.Fatalf("claude ended before it listed the tools: %v", lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &hello); err != nil {
			t.Fatalf("claude printed %q: %v", lines.Text(), err)
		}
	}
	if len(hello.Servers) != 2 || slices.ContainsFunc(hello.Servers, func(s struct{ Name, Status string }) bool { return s.Status != "connected" }) {
		t.Errorf("claude says of the servers: %+v, want two that are connected", hello.Servers)
	}
	for _, server := range []string{"started", "reached"} {
		var got []string
		for _, name := range hello.Tools {
			if tool, ours := strings.CutPrefix(name, "mcp__"+server+"__"); ours {
				got = append(got, tool)
			}
		}
		slices.Sort(got)
		want := slices.Sorted(slices.Values(slices.Concat(bridgeTools, mailTools)))
		if !slices.Equal(got, want) {
			t.Errorf("claude lists the tools %v of the server %s, want %v", got, server, want)
		}
	}
}

// claudeConfig writes the file that names two servers for Claude Code.
func (r *room) claudeConfig(t *testing.T) string {
	t.Helper()
	child := r.child(t, "claude")
	started := map[string]any{"command": child.Path, "args": []string{}, "env": childEnv(child.Env)}
	reached := map[string]any{
		"type": "http", "url": r.listen(t, "claude"), "headers": map[string]string{"Authorization": "Bearer " + testToken},
	}
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"started": started, "reached": reached}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "servers.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// childEnv is the environment that a child process needs.
func childEnv(env []string) map[string]string {
	needed := map[string]string{}
	for _, variable := range env {
		if name, value, _ := strings.Cut(variable, "="); slices.Contains([]string{childAgent, childWorkspace, childBridge}, name) {
			needed[name] = value
		}
	}
	return needed
}
