package mcpserver_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/cmd/oacp-mcp/mcpserver"
)

// answerOf is what a line of output says.
type answerOf struct {
	ID    any `json:"id"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Result json.RawMessage `json:"result"`
}

// serveText serves a client that says all it has to say at once, and returns the lines it gets.
func serveText(t testing.TB, s *mcpserver.Server, text string) []string {
	t.Helper()
	var out bytes.Buffer
	if err := s.ServeStream(t.Context(), io.NopCloser(strings.NewReader(text)), &out); err != nil {
		t.Errorf("serving %.200q: %v", text, err)
	}
	if out.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func initializeIn(version string) string {
	return strings.Replace(initialize, "2025-06-18", version, 1)
}

const lastPing = `{"jsonrpc":"2.0","id":"last","method":"ping"}`

// TestBadFrames: whatever a client sends, it is told what is wrong with it and answered afterwards.
func TestBadFrames(t *testing.T) {
	s := newRoom(t, "claude", "codex").server(t, "claude")
	call := func(content string) string {
		return `{"jsonrpc":"2.0","id":95,"method":"tools/call","params":{"name":"send_to_agent","arguments":{"to":"codex","message_type":"chat","content":"` + content + `"}}}`
	}
	for _, test := range []struct {
		name, version, line string
		want                []string // what the answer holds; nothing where there is none
	}{
		{"garbage", "2025-06-18", `garbage`, []string{`"id":null`, "-32700"}},
		{"half a message", "2025-06-18", `{"jsonrpc":"2.0","id":7,`, []string{`"id":null`, "-32700"}},
		{"two messages", "2025-06-18", lastPing + lastPing, []string{`"id":null`, "-32700"}},
		{"blank", "2025-06-18", "  ", nil},
		{"number", "2025-06-18", `5`, []string{`"id":null`, "-32600", "a JSON object"}},
		{"null", "2025-06-18", `null`, []string{`"id":null`, "-32600"}},
		{"empty batch", "2025-06-18", `[]`, []string{`"id":null`, "-32600"}},
		{"id that is an object", "2025-06-18", `{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`, []string{`"id":null`, "-32600", "whole number"}},
		{"id with a fraction", "2025-06-18", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, []string{`"id":null`, "-32600"}},
		{"large id", "2025-06-18", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, []string{`"id":null`, "-32600"}},
		{"id that is null", "2025-06-18", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, []string{`"id":null`, "-32600"}},
		{"no version", "2025-06-18", `{"id":89,"method":"ping"}`, []string{`"id":89`, "-32600"}},
		{"method that is a number", "2025-06-18", `{"jsonrpc":"2.0","id":"x","method":5}`, []string{`"id":"x"`, "-32600"}},
		{"neither method nor id", "2025-06-18", `{"jsonrpc":"2.0"}`, []string{`"id":null`, "-32600"}},
		{"unknown method", "2025-06-18", `{"jsonrpc":"2.0","id":77,"method":"nope"}`, []string{`"id":77`, "-32601"}},
		{"answer that nobody asked for", "2025-06-18", `{"jsonrpc":"2.0","id":1,"result":{}}`, nil},
		{"deep", "2025-06-18", strings.Repeat("[", 100_000), []string{`"id":null`, "-32700"}},
		{"params that are an array", "2025-06-18", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":[]}`, []string{`"id":3`, `"error"`}},
		{"9 MB", "2025-06-18", call(strings.Repeat("x", 9_000_000)), []string{`"id":null`, "-32600", "at most 8388608 bytes"}},
		{"bytes that are no UTF-8", "2025-06-18", call("bad \xff"), []string{`"id":95`, "usage: the arguments are not UTF-8"}},
		{"batch where there is none", "2025-06-18", `[` + lastPing + `]`, []string{`"id":null`, "-32600", "no batches"}},
		{"batch where there is none yet", "2025-11-25", `[` + lastPing + `]`, []string{`"id":null`, "-32600", "no batches"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			lines := serveText(t, s, initializeIn(test.version)+test.line+"\n"+lastPing)
			var got []string
			for _, line := range lines {
				if !strings.Contains(line, `"serverInfo"`) && !strings.Contains(line, `"id":"last"`) {
					got = append(got, line)
				}
			}
			if len(lines)-len(got) != 2 {
				t.Errorf("got %.300q, want answers to initialize and to the last ping", lines)
			}
			if len(got) != min(1, len(test.want)) {
				t.Fatalf("got %.300q, want %d answers", got, min(1, len(test.want)))
			}
			if len(got) == 1 {
				wantText(t, "the answer", got[0], test.want...)
			}
		})
	}
}

// TestBatches: where the version has them, the answers to a batch come in one line, notifications get none, and
// what is bad in it hides nothing else.
func TestBatches(t *testing.T) {
	s := newRoom(t, "claude", "codex").server(t, "claude")
	lines := serveTurns(t, s, initializeIn("2025-03-26"),
		`[{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","method":"notifications/x"},`+
			`{"jsonrpc":"2.0","id":1,"method":"ping"},7,{"jsonrpc":"2.0","id":1,"method":"ping"},`+
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bridge_status"}}]`+"\n",
		`[5]`+"\n")
	if len(lines) != 3 {
		t.Fatalf("got %q, want a line for each of three", lines)
	}
	var answers []answerOf
	if err := json.Unmarshal([]byte(lines[1]), &answers); err != nil {
		t.Fatalf("%s: %v", lines[1], err)
	}
	got := map[string]int{}
	for _, a := range answers {
		code := 0
		if a.Error != nil {
			code = a.Error.Code
		}
		got[fmt.Sprint(a.ID, " ", code)]++
	}
	if want := map[string]int{"1 0": 1, "2 0": 1, "<nil> -32600": 2}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got answers %v, want %v", got, want)
	}
	wantText(t, "a batch of garbage", lines[2], `[{"jsonrpc":"2.0","id":null,"error":{"code":-32600`)
}

// serveTurns says one thing after the other, each when the one before was answered with a line.
func serveTurns(t testing.TB, s *mcpserver.Server, turns ...string) (lines []string) {
	t.Helper()
	in, send := io.Pipe()
	receive, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeStream(t.Context(), in, out) }()
	answers := bufio.NewScanner(receive)
	answers.Buffer(nil, 1<<20)
	for _, turn := range turns {
		if _, err := io.WriteString(send, turn); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() {
			t.Fatalf("no answer to %q: %v", turn, answers.Err())
		}
		lines = append(lines, answers.Text())
	}
	if err := send.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Errorf("at the end of the input the server gave %v", err)
	}
	return lines
}

// TestCallsAtTheEnd: what came in before the end of the input is carried out and answered, in its order, the last
// line without a newline, too.
func TestCallsAtTheEnd(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	const calls = 50
	var text, want strings.Builder
	text.WriteString(initialize + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	for i := range calls {
		fmt.Fprintf(&text, `{"jsonrpc":"2.0","id":"call %d","method":"tools/call","params":{"name":"send_to_agent","arguments":{"to":"codex","message_type":"chat","content":"part %d"}}}`+"\n", i, i)
		fmt.Fprintf(&want, "part %d|", i)
	}
	lines := serveText(t, r.server(t, "claude"), strings.TrimSuffix(text.String(), "\n"))
	if len(lines) != calls+1 {
		t.Fatalf("got %d answers, want %d", len(lines), calls+1)
	}
	for i, line := range lines[1:] {
		wantText(t, "an answer", line, fmt.Sprintf(`"id":"call %d"`, i), fmt.Sprintf(`"line":%d,`, i+1))
	}
	var got received
	r.client(t, "codex").call(t, "receive_messages", arguments{"limit": 500}, &got)
	var order strings.Builder
	for _, m := range got.Messages {
		order.WriteString(m.Content + "|")
	}
	if order.String() != want.String() {
		t.Errorf("the log holds %s, want %s", order.String(), want.String())
	}
}

// FuzzStream: whatever a client sends, every line it gets is JSON, and its next message is answered.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"", "garbage", "[]", "5", `{"id":1}`, initialize, initializeIn("2025-03-26") + `[{"jsonrpc":"2.0","id":1,"method":"ping"},[]]`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bridge_status"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
	} {
		f.Add([]byte(seed))
	}
	s, err := mcpserver.New(mcpserver.Options{Agent: "claude", Bridge: &mcpserver.BridgeLog{Path: filepath.Join(f.TempDir(), "bridge.jsonl")}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Contains(text, []byte("subscriptions")) {
			return // these go on until the client is gone
		}
		lines := serveText(t, s, string(text)+"\n"+lastPing)
		answered := false
		for _, line := range lines {
			if !json.Valid([]byte(line)) {
				t.Errorf("after %q came %q", text, line)
			}
			answered = answered || strings.Contains(line, `"id":"last"`)
		}
		if !answered {
			t.Errorf("after %q came %q, and no answer to the ping", text, lines)
		}
	})
}
