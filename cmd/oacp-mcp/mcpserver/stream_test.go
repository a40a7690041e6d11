package mcpserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/cmd/oacp-mcp/mcpserver"
)

// An output collects what a server writes.
type output struct{ bytes.Buffer }

func (*output) Close() error { return nil }

// serveText serves a client that sends all its input at once, and returns the lines it gets.
func serveText(t testing.TB, s *mcpserver.Server, text string) (lines []string, err error) {
	t.Helper()
	var out output
	err = s.ServeStream(t.Context(), io.NopCloser(strings.NewReader(text)), &out)
	if out.Len() == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"), err
}

// TestBadFrames checks that input that is not a message ends the server with an error.
func TestBadFrames(t *testing.T) {
	s := newRoom(t, "claude", "codex").server(t, "claude")
	for _, bad := range []string{
		"garbage\n", `{"jsonrpc":"2.0","id":7,` + "\n", "5\n", "[]\n", `{"jsonrpc":"2.0"}` + "\n",
		strings.Repeat("[", 100_000) + "\n", `"` + strings.Repeat("x", 9<<20) + `"` + "\n",
	} {
		if _, err := serveText(t, s, initialize+bad); err == nil {
			t.Errorf("after %.40q the server ended without an error", bad)
		}
	}
}

// TestCallsAtTheEnd checks that the server answers all calls before the end of the input, even if
// the last line has no newline.
func TestCallsAtTheEnd(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	const calls = 50
	var text strings.Builder
	text.WriteString(initialize + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	for i := range calls {
		fmt.Fprintf(&text, `{"jsonrpc":"2.0","id":"call %d","method":"tools/call","params":{"name":"send_to_agent","arguments":{"to":"codex","message_type":"chat","content":"part %d"}}}`+"\n", i, i)
	}
	lines, err := serveText(t, r.server(t, "claude"), strings.TrimSuffix(text.String(), "\n"))
	if err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if len(lines) != calls+1 {
		t.Fatalf("got %d answers, want %d: %q", len(lines), calls+1, lines)
	}
	for i := range calls {
		id := fmt.Sprintf(`"id":"call %d"`, i)
		if !strings.Contains(strings.Join(lines, "\n"), id) {
			t.Errorf("no answer has %s", id)
		}
	}
	if got := r.client(t, "codex").receiveAll(t); len(got) != calls {
		t.Errorf("the log holds %d messages, want %d", len(got), calls)
	}
}

// TestEndWithSubscription checks that neither a subscription nor a call with the id of a running
// call delays the end.
func TestEndWithSubscription(t *testing.T) {
	s := newRoom(t, "claude", "codex").server(t, "claude")
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	begin := time.Now()
	_, err := serveText(t, s, `{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+meta+`}}`+"\n"+
		`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{`+meta+`}}`+"\n")
	if took := time.Since(begin); err != nil || took > 20*time.Second {
		t.Errorf("the server ended after %v with %v, want it to end at once", took, err)
	}
}

// FuzzStream checks that the server ends with its input, whatever a client sends.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"", "garbage", "[]", `{"id":1}`, initializeIn("2025-03-26") + `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`,
		initialize + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bridge_status"}}`,
		initialize + `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		initializeIn("2026-07-28") + `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
	} {
		f.Add([]byte(seed))
	}
	s, err := mcpserver.New(mcpserver.Options{Agent: "claude", Bridge: &bridge.Location{Path: filepath.Join(f.TempDir(), "bridge.jsonl")}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, _ := serveText(t, s, string(text)+"\n") // an error says that there is a bad frame
		for _, line := range lines {
			if !json.Valid([]byte(line)) {
				t.Errorf("after %q came %q", text, line)
			}
		}
	})
}

func initializeIn(version string) string {
	return strings.Replace(initialize, "2025-06-18", version, 1)
}
