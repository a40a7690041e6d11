package mcpserver_test

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

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
