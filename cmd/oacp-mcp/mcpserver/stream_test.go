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
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
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

// TestBadFrames checks that a line that is not a message gets an error, and that the server answers what follows.
func TestBadFrames(t *testing.T) {
	s := newRoom(t, "claude", "codex").server(t, "claude")
	const ping = `{"jsonrpc":"2.0","id":"after","method":"ping"}` + "\n"
	for bad, want := range map[string]string{
		"garbage\n":                                    `"code":-32700,"message":"the line is not JSON"`,
		`{"jsonrpc":"2.0","id":7,` + "\n":              `"code":-32700`,
		"Content-Length: 40\r\n\r\n":                   `"code":-32700,"message":"each line is one message, without the headers of LSP"`,
		`{"jsonrpc":"2.0","id":7,"method":"ping"}{}\n`: `"code":-32700`,
		"5\n":  `"code":-32600`,
		"[]\n": `"code":-32600,"message":"batches are not supported; each line is one message"`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]` + "\n": `"code":-32600,"message":"batches are not supported; each line is one message"`,
		`{"jsonrpc":"2.0"}` + "\n":                          `"code":-32600`,
		strings.Repeat("[", 100_000) + "\n":                 `"code":-32700`,
		`"` + strings.Repeat("x", 9<<20) + `"` + "\n":       `"code":-32600,"message":"a message has at most 8388608 bytes"`,
	} {
		lines, err := serveText(t, s, initialize+strings.ReplaceAll(bad, `\n`, "\n")+ping)
		text := strings.Join(lines, "\n")
		if err != nil || len(lines) != 3 || !strings.Contains(text, `"id":null,"error":{`+want) || !strings.Contains(text, `"id":"after"`) {
			t.Errorf("after %.40q: %v, %q; want an error with %s, and the next answer", bad, err, lines, want)
		}
	}
	lines, err := serveText(t, s, "\ufeff"+initialize+"\n\r\n\ufeff\n"+ping)
	if err != nil || len(lines) != 2 || !strings.Contains(strings.Join(lines, ""), `"serverInfo"`) {
		t.Errorf("with byte order marks and empty lines: %v, %q; want two answers", err, lines)
	}
}

// TestInputEndsDuringWait closes the input while a call waits. The call ends, and a message that arrives later is new to the next
// server. A message that is there before is still handed out, to a script that writes its calls and closes the pipe.
func TestInputEndsDuringWait(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	const call = `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"%s","arguments":{"wait_seconds":300}}}` + "\n"
	for _, tool := range []string{"next_message", "receive_messages"} {
		begin := time.Now()
		lines, err := serveText(t, r.server(t, "codex"), initialize+fmt.Sprintf(call, tool))
		if took := time.Since(begin); err != nil || len(lines) != 2 || took > time.Minute {
			t.Fatalf("%s: %v, %q after %v; want an answer at once", tool, err, lines, took)
		}
	}
	in, send := io.Pipe()
	var out output
	served := make(chan error, 1)
	go func() { served <- r.server(t, "codex").ServeStream(t.Context(), in, &out) }()
	if _, err := io.WriteString(send, initialize+fmt.Sprintf(call, "next_message")); err != nil {
		t.Fatal(err)
	}
	r.awaitWaiting(t, "codex")
	if err := send.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil || !strings.Contains(out.String(), `"pending\":false`) {
		t.Errorf("the input ended: %v, %q; want that nothing is pending", err, out.String())
	}
	mailboxtest.Send(t, r.workspace, mailboxtest.Draft("codex"))
	lines, err := serveText(t, r.server(t, "codex"), initialize+fmt.Sprintf(call, "next_message"))
	if err != nil || !strings.Contains(strings.Join(lines, ""), `"pending\":true`) {
		t.Errorf("the next server: %v, %q; want the message", err, lines)
	}
}

// awaitWaiting waits until a call of an agent waits for a message.
func (r *room) awaitWaiting(t testing.TB, agent schema.AgentName) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, waiting := track.CommandsOf(r.workspace, agent); waiting != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no call waits")
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
