package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/internal/testing/check"
)

// A toolClient calls the tools of a real oacp process.
type toolClient struct{ session *mcp.ClientSession }

func connectTools(t *testing.T, transport mcp.Transport) toolClient {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatalf("connecting: %v", err)
	}
	return toolClient{session}
}

// call returns the text of an answer that must not be an error.
func (c toolClient) call(t *testing.T, tool string, arguments map[string]any) string {
	t.Helper()
	answer, err := c.session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	text := answer.Content[0].(*mcp.TextContent).Text
	if answer.IsError {
		t.Fatalf("%s: %s", tool, text)
	}
	return text
}

// TestMCP lets two agents talk through the processes that their clients would start.
func TestMCP(t *testing.T) {
	c := newSession(t, "claude,codex")
	home := t.TempDir()
	start := func(agent string) toolClient {
		command := exec.Command("oacp", "mcp", "--agent", agent)
		command.Dir, command.Stderr = c.Dir, os.Stderr
		command.Env = append(os.Environ(), "HOME="+home, "USERPROFILE="+home)
		return connectTools(t, &mcp.CommandTransport{Command: command})
	}
	// Before there is a run, a model can send mail only.
	before := start("claude")
	tools, err := before.session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) < 8 || slices.ContainsFunc(tools.Tools, func(tool *mcp.Tool) bool {
		return strings.Contains(tool.Name, "agent") || strings.Contains(tool.Name, "receive")
	}) {
		t.Errorf("the tools without a run are %v (%v), want those for mail", tools, err)
	}
	if err := before.session.Close(); err != nil {
		t.Error(err)
	}
	c.must(t, "bridge", "send", "--runs-dir", filepath.Join(home, ".agentpair", "runs"), "--from", "claude", "--to", "codex", "--type", "chat", "--content", "hi")
	claude, codex := start("claude"), start("codex")
	claude.call(t, "send_message", map[string]any{"to": "codex", "type": "question", "subject": "Which port?", "body": "?"})
	claude.call(t, "send_to_agent", map[string]any{"to": "codex", "message_type": "task", "content": "Implement login form"})
	if text := codex.call(t, "list_inbox", nil); !strings.Contains(text, "Which port?") {
		t.Errorf("codex's inbox is %q, want the question", text)
	}
	if text := codex.call(t, "receive_messages", nil); !strings.Contains(text, "Implement login form") {
		t.Errorf("codex received %q, want the task", text)
	}
	if out := c.must(t, "inbox", "--agent", "codex"); !strings.Contains(out, "Which port?") {
		t.Errorf("oacp inbox shows %q, want the question", out)
	}
	logs, err := filepath.Glob(filepath.Join(home, ".agentpair", "runs", "*", "1", "bridge.jsonl"))
	if err != nil || len(logs) != 1 {
		t.Errorf("found the logs %q (%v), want one of run 1", logs, err)
	}
	for _, client := range []toolClient{claude, codex} {
		if err := client.session.Close(); err != nil {
			t.Errorf("a server whose input ended: %v, want status 0", err)
		}
	}
}

// TestMCPOfPlugin checks for which agent the server of a plugin has tools, and that it has none, rather than to fail, where
// there is no agent or oacp setup has registered a server.
func TestMCPOfPlugin(t *testing.T) {
	c := newSession(t, "claude,codex")
	home, elsewhere := t.TempDir(), t.TempDir()
	other := newSession(t, "ada").Dir
	check.WriteFile(t, filepath.Join(home, "set up", "hooks.json"), `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "oacp hook codex"}]}]}}`)
	for name, test := range map[string]struct {
		program, dir string
		env          []string
		want         string // the agent, or empty
	}{
		"in the project":          {"codex", c.Dir, nil, "codex"},
		"in the plugin's folder":  {"claude", elsewhere, []string{"CLAUDE_PROJECT_DIR=" + c.Dir}, "claude"},
		"another agent":           {"claude", c.Dir, []string{"OACP_AGENT=codex"}, "codex"},
		"an unknown agent":        {"claude", c.Dir, []string{"OACP_AGENT=ada"}, "claude"},
		"no agent of the program": {"claude", other, nil, ""},
		"no workspace":            {"codex", elsewhere, nil, ""},
		"a setup":                 {"codex", c.Dir, []string{"CODEX_HOME=" + filepath.Join(home, "set up")}, ""},
		"a setup of codex":        {"claude", c.Dir, []string{"CODEX_HOME=" + filepath.Join(home, "set up")}, "claude"},
	} {
		t.Run(name, func(t *testing.T) {
			command := exec.Command("oacp", "mcp", "--agent", test.program, "--plugin")
			command.Dir, command.Stderr = test.dir, os.Stderr
			command.Env = append(append(os.Environ(), "HOME="+home, "USERPROFILE="+home, "OACP_AGENT=", "CODEX_HOME="), test.env...)
			client := connectTools(t, &mcp.CommandTransport{Command: command})
			tools, err := client.session.ListTools(t.Context(), nil)
			if err != nil || len(tools.Tools) > 0 != (test.want != "") {
				t.Errorf("there are %d tools (%v), want the agent %q", len(tools.Tools), err, test.want)
			}
			if text := client.session.InitializeResult().Instructions; !strings.HasPrefix(text, "You are the agent \""+test.want+"\"") && text != test.want {
				t.Errorf("the instructions are %q, want the agent %q", text, test.want)
			}
			if err := client.session.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// withBearer adds a token to every request.
type withBearer string

func (token withBearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(request)
}

// TestMCPOverHTTP takes the address from what the command prints, and ends it by a signal.
func TestMCPOverHTTP(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no signal that ends the command")
	}
	c := newSession(t, "claude,codex")
	const token = "a-token-of-our-own"
	command := exec.Command("oacp", "mcp", "--agent", "codex", "--listen", "127.0.0.1:0", "--bridge", "log.jsonl")
	command.Dir, command.Stderr = c.Dir, os.Stderr
	command.Env = append(os.Environ(), "OACP_MCP_TOKEN="+token)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var url string
	if _, err := fmt.Fscanf(out, "OK: %s\n", &url); err != nil {
		t.Fatalf("the command does not say where it listens: %v", err)
	}
	client := connectTools(t, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: withBearer(token)}})
	if text := client.call(t, "bridge_status", nil); !strings.Contains(text, filepath.Join(c.Dir, "log.jsonl")) {
		t.Errorf("the status is %q, want that of the log we named", text)
	}
	if err := client.session.Close(); err != nil {
		t.Error(err)
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("after SIGTERM the command ended with %v, want status 0", err)
	}
}

// TestMCPWithoutWorkspace offers the tools of a log alone.
func TestMCPWithoutWorkspace(t *testing.T) {
	dir := t.TempDir()
	command := exec.Command("oacp", "mcp", "--agent", "codex", "--bridge", "log.jsonl")
	command.Dir, command.Stderr = dir, os.Stderr
	client := connectTools(t, &mcp.CommandTransport{Command: command})
	var got []string
	for tool, err := range client.session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, tool.Name)
	}
	if want := []string{"bridge_status", "receive_messages", "send_to_agent"}; !slices.Equal(got, want) {
		t.Errorf("got the tools %q, want %q", got, want)
	}
	if err := client.session.Close(); err != nil {
		t.Error(err)
	}
}
