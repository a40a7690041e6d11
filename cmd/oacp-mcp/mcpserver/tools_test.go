package mcpserver_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/cmd/oacp-mcp/mcpserver"
	"github.com/oacp-go/oacp/internal/guide"
)

// TestListTools compares the list of tools that clients get with a golden file.
func TestListTools(t *testing.T) {
	c := newRoom(t, "claude", "codex").client(t, "codex")
	tools, err := c.session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	encoder := json.NewEncoder(&got)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(tools.Tools); err != nil {
		t.Fatal(err)
	}
	golden(t, "tools.json", got.Bytes())
}

// TestGuide checks that clients find the guide for agents.
func TestGuide(t *testing.T) {
	c := newRoom(t, "claude", "codex").client(t, "codex")
	list, err := c.session.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 1 {
		t.Fatalf("got %v, %v, want the guide", list, err)
	}
	page, err := c.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: list.Resources[0].URI})
	if err != nil || len(page.Contents) != 1 || page.Contents[0].Text != guide.Agent || !strings.Contains(guide.Agent, "oacp next") {
		t.Errorf("reading %s: got %v, %v", list.Resources[0].URI, page, err)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got:\n%s\nwant:\n%s\n(go test -run %s -update rewrites it)", path, got, want, t.Name())
	}
}

// TestToolsAreDescribed checks that every tool and argument has a description.
func TestToolsAreDescribed(t *testing.T) {
	c := newRoom(t, "claude", "codex").client(t, "codex")
	for tool, err := range c.session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if len(tool.Description) < 50 {
			t.Errorf("%s: the description is %q, want it to say what it does", tool.Name, tool.Description)
		}
		if mail := strings.Contains(tool.Description, "Not mail: that goes by send_message."); mail != slices.Contains(bridgeTools, tool.Name) {
			t.Errorf("%s: the description is %q; want exactly those of the bridge to say that they are not for mail", tool.Name, tool.Description)
		}
		if a := tool.Annotations; a == nil || !a.ReadOnlyHint && (a.DestructiveHint == nil || a.OpenWorldHint == nil || *a.OpenWorldHint) {
			t.Errorf("%s: annotations %+v, want all that mean something, in a closed world", tool.Name, a)
		}
		input := tool.InputSchema.(map[string]any)
		properties, _ := input["properties"].(map[string]any)
		for name, property := range properties {
			if property.(map[string]any)["description"] == nil {
				t.Errorf("%s: argument %s has no description", tool.Name, name)
			}
		}
		if tool.OutputSchema != nil {
			t.Errorf("%s: the schema of its result costs tokens", tool.Name)
		}
	}
}

var (
	bridgeTools = []string{"bridge_status", "receive_messages", "send_to_agent"}
	mailTools   = []string{
		"acknowledge_message", "list_inbox", "list_owed", "next_message", "read_message", "reply_message", "report_working", "send_message", "show_thread",
	}
)

// TestOffersWhatThereIs checks that a server without a workspace or a log leaves out the tools for
// it.
func TestOffersWhatThereIs(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	all := slices.Sorted(slices.Values(slices.Concat(bridgeTools, mailTools)))
	for _, test := range []struct {
		name    string
		options mcpserver.Options
		want    []string
	}{
		{"both", mcpserver.Options{Agent: "codex", Workspace: r.workspace, Bridge: &r.bridge}, all},
		{"mailboxes", mcpserver.Options{Agent: "codex", Workspace: r.workspace}, mailTools},
		{"bridge", mcpserver.Options{Agent: "codex", Bridge: &r.bridge}, bridgeTools},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := mcpserver.New(test.options)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for tool, err := range inMemory(t, s).session.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, tool.Name)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got the tools %v, want %v", got, test.want)
			}
		})
	}
}

// TestNewRefuses lists the options that New refuses.
func TestNewRefuses(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	for _, test := range []struct {
		options mcpserver.Options
		want    string
	}{
		{mcpserver.Options{Agent: "../x", Bridge: &r.bridge}, "agent name"},
		{mcpserver.Options{Workspace: r.workspace}, "agent name"},
		{mcpserver.Options{Agent: "codx", Workspace: r.workspace}, "codx"},
	} {
		if _, err := mcpserver.New(test.options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("New for %q gave %v, want an error that holds %q", test.options.Agent, err, test.want)
		}
	}
}

// TestIntroduction checks what the server says about itself when a client connects.
func TestIntroduction(t *testing.T) {
	r := newRoom(t, "claude", "codex", "gemini")
	hello := r.client(t, "codex").session.InitializeResult()
	if hello.ServerInfo.Name != "oacp" || hello.ServerInfo.Version != "1.2.3" {
		t.Errorf("the server says it is %+v, want oacp 1.2.3", hello.ServerInfo)
	}
	wantText(t, "instructions", hello.Instructions, `"codex"`, "claude, gemini", `"room"`, "list_inbox", "receive_messages")
}

func writeInboxFile(t *testing.T, r *room, agent, name, text string) {
	t.Helper()
	path := filepath.Join(r.workspace.Dir(), "agents", agent, "inbox", name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDocumentation checks that the page on the tools names every tool with all of its arguments.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "mcp.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(page)) {
		if name, row, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "`"); ok && strings.HasPrefix(line, "| `") {
			rows[name] = row
		}
	}
	for tool, err := range newRoom(t, "claude", "codex").client(t, "codex").session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		row, ok := rows[tool.Name]
		if !ok {
			t.Errorf("docs/mcp.md has no row for %s", tool.Name)
		}
		if strings.Contains(row, "*read*") != tool.Annotations.ReadOnlyHint {
			t.Errorf("docs/mcp.md on %s: want it marked as *read* if it changes nothing: %t", tool.Name, tool.Annotations.ReadOnlyHint)
		}
		properties, _ := tool.InputSchema.(map[string]any)["properties"].(map[string]any)
		for name := range properties {
			if !strings.Contains(row, "`"+name+"`") {
				t.Errorf("docs/mcp.md on %s: the argument %s is missing", tool.Name, name)
			}
		}
	}
}
