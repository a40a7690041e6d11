package agent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/orphans"
)

// fakeClaude plays the claude program in cases that the real one cannot reproduce. Its first
// argument selects the behavior.
func fakeClaude(args []string) int {
	if args[0] == "old" {
		fmt.Fprintln(os.Stderr, "error: unknown option '--permission-prompt-tool'")
		return 1
	}
	if args[0] == "hangs again" && !hangsAgain(args[1]) {
		return 1
	}
	f := &fake{args: args, out: bufio.NewWriterSize(os.Stdout, 1<<20)}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		m := readClaude(line)
		if m == nil {
			return 2
		}
		f.again = bytes.Contains(line, []byte("ended unexpectedly"))
		if code := f.answer(m); code >= 0 {
			return code
		}
		if f.out.Flush() != nil {
			return 1
		}
	}
}

// fake is the state of a fake claude program.
type fake struct {
	args []string
	out  *bufio.Writer
	// prompt is the id of the prompt that has no result yet.
	prompt string
	turns  int
	// first is the id of the first prompt.
	first string
	// again reports whether an earlier program died of the same prompt.
	again bool
}

func (f *fake) say(format string, args ...any) { fmt.Fprintf(f.out, format+"\n", args...) }

func (f *fake) result(prompt, text string) {
	f.say(`{"type":"result","subtype":"success","result":%q,"session_id":"fake","user_message_uuids":[%q],"total_cost_usd":1}`, text, prompt)
}

// answer answers a line and returns the exit status, or -1 to continue.
func (f *fake) answer(m *claudeMessage) int {
	switch m.Type {
	case "control_request":
		if m.Request.Subtype == "initialize" {
			f.say(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":{}}}`, m.RequestID)
		}
	case "control_response":
		f.result(f.prompt, "answered: "+m.Response.Error)
	case "user":
		f.prompt = m.UUID
		f.say(`{"type":"system","subtype":"init","session_id":"fake","user_message_uuids":[%q]}`, m.UUID)
		return f.turn()
	}
	return -1
}

func (f *fake) turn() int {
	switch f.args[0] {
	case "long":
		f.say(`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"%s"}]}}`, strings.Repeat("x", 30<<20))
		f.result(f.prompt, "that was long")
	case "hangs again":
		return 7
	case "says why":
		f.say("Credit balance is too low")
		f.out.WriteString("no newline at the end")
		f.out.Flush()
		return 1
	case "busy": // between turns, too
		f.turns++
		f.say(`{"type":"result","subtype":"success","result":"mine","user_message_uuids":[%q],"total_cost_usd":%d,"usage":{"input_tokens":10,"output_tokens":1}}`, f.prompt, 3*f.turns-2)
		f.say(`{"type":"assistant","message":{"role":"assistant","content":"in between"}}`)
		f.say(`{"type":"result","subtype":"success","result":"not mine","user_message_uuids":["x"],"total_cost_usd":%d,"usage":{"input_tokens":5,"output_tokens":2}}`, 3*f.turns)
	case "steered", "steered, fails": // the second prompt becomes a turn of its own
		if f.turns++; f.turns == 1 {
			f.first = f.prompt
			return -1
		}
		if f.args[0] == "steered, fails" {
			f.say(`{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":1,"user_message_uuids":[%q]}`, f.first)
			return -1
		}
		f.say(`{"type":"result","subtype":"success","result":"one","user_message_uuids":[%q],"permission_denials":[{"tool_name":"Bash","tool_use_id":"x","tool_input":{"command":"ls"}}],"usage":{"input_tokens":10}}`, f.first)
		f.say(`{"type":"user","isReplay":true,"uuid":%q}`, f.prompt)
		f.say(`{"type":"result","subtype":"success","result":"two","user_message_uuids":[%q],"usage":{"input_tokens":5}}`, f.prompt)
	case "mark":
		f.result(f.prompt, os.Getenv(orphans.Variable))
	case "dies":
		f.say(`{"type":"assistant","message":{"role":"assistant","content":"half"}}`)
		f.out.WriteString(`{"type":"result","subtype":"succ`)
		f.out.Flush()
		fmt.Fprintln(os.Stderr, "out of memory")
		return 7
	case "strange":
		f.say("a warning that is no JSON")
		f.say(`{"type":"something_new","error":{"a":[1]},"result":5}`)
		f.say(`[1,2]`)
		f.result("somebody else", "of something in the background")
		f.result(f.prompt, "mine")
	case "asks":
		f.say(`{"type":"control_request","request_id":"r1","request":{"subtype":"pick_a_colour"}}`)
	case "dies once": // and says nothing
		if !f.again {
			f.say(`{"type":"assistant","message":{"role":"assistant","content":"I could not finish: PASS"}}`)
			f.out.Flush()
			return 7
		}
		f.say(`{"type":"result","subtype":"success","result":"","session_id":"fake","user_message_uuids":[%q],"total_cost_usd":3}`, f.prompt)
	}
	return -1
}

func newFakeClaude(t testing.TB, args ...string) *resident {
	t.Helper()
	return NewClaude(Options{Command: helperCommand(t, "claude", args...)}).(*resident)
}

func TestClaudeUnavailable(t *testing.T) {
	tests := []struct {
		name    string
		options Options
		want    string
	}{
		{"missing", Options{Command: []string{"no-such-claude"}}, "npm install -g @anthropic-ai/claude-code"},
		{"too old", Options{Command: helperCommand(t, "claude", "old")}, "unknown option '--permission-prompt-tool'; at least " + claudeRelease.oldest},
		{"fails", Options{Command: helperCommand(t, "fail")}, "it broke"},
		{"working folder missing", Options{Command: helperCommand(t, "claude", "long"), Dir: "/no/such/folder"}, "/no/such/folder"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			driver := NewClaude(test.options)
			defer stopped(t, driver)
			if err := driver.Start(impatient(t)); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Start = %v, want ErrUnavailable and %q", err, test.want)
			}
		})
	}
	if _, err := NewClaude(Options{}).Turn(t.Context(), Request{}, nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Turn of a driver that was not started = %v, want ErrUnavailable", err)
	}
}

// TestClaudeStartCancelled checks that Start returns if its context ends before the program
// answers.
func TestClaudeStartCancelled(t *testing.T) {
	driver := NewClaude(Options{Command: helperCommand(t, "polite")})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := driver.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Start = %v, want context.DeadlineExceeded", err)
	}
}

// TestClaudeLongLine checks that a line of 30 MB arrives. A fake program prints it, because the
// real one would need a model that says as much.
func TestClaudeLongLine(t *testing.T) {
	t.Parallel()
	driver := newFakeClaude(t, "long")
	started(t, driver)
	longest := 0
	result, err := driver.Turn(impatient(t), Request{Prompt: "go"}, func(e Event) { longest = max(longest, len(e.Raw)) })
	if err != nil || result.Text != "that was long" || longest < 30<<20 {
		t.Errorf("error %v, text %.50q, longest event of %d bytes, want an event of 30 MB and the answer after it", err, result.Text, longest)
	}
}

func TestClaudeStrangeLines(t *testing.T) {
	driver := newFakeClaude(t, "strange")
	started(t, driver)
	var raw []string
	result, err := driver.Turn(impatient(t), Request{Prompt: "go"}, func(e Event) {
		if e.Raw != nil {
			raw = append(raw, string(e.Raw))
		}
	})
	if err != nil || result.Text != "mine" {
		t.Errorf("error %v, text %q, want the result of this turn", err, result.Text)
	}
	if want := `{"type":"something_new","error":{"a":[1]},"result":5}`; len(raw) != 4 || raw[1] != want {
		t.Errorf("events %q, want four, the second %s", raw, want)
	}
}

// TestClaudeBackground checks that a turn includes the usage since the turn before.
func TestClaudeBackground(t *testing.T) {
	driver := newFakeClaude(t, "busy")
	started(t, driver)
	want := []Usage{{InputTokens: 10, OutputTokens: 1, CostUSD: 1}, {InputTokens: 15, OutputTokens: 3, CostUSD: 3}, {InputTokens: 15, OutputTokens: 3, CostUSD: 3}}
	for i := range want {
		result, err := driver.Turn(impatient(t), Request{Prompt: "go"}, nil)
		if err != nil || result.Text != "mine" || result.Usage != want[i] {
			t.Errorf("turn %d: result %+v (%v), want the usage %+v", i, result, err, want[i])
		}
		awaitBackground(t, driver.running.Load().protocol.(*claude))
	}
}

// awaitBackground waits until something has been used up between turns.
func awaitBackground(t *testing.T, c *claude) {
	t.Helper()
	for ctx := impatient(t); ; runtime.Gosched() {
		var got Usage
		c.locked(func() { got = c.spent })
		switch {
		case got != Usage{}:
			return
		case ctx.Err() != nil:
			t.Fatal("nothing was used up between turns")
		}
	}
}

// died reports whether the error says that the program ended.
func died(err error) (*DiedError, bool) {
	var e *DiedError
	return e, errors.As(err, &e)
}

func TestClaudeUnknownRequest(t *testing.T) {
	driver := newFakeClaude(t, "asks")
	started(t, driver)
	if result := turn(t, driver, "go"); !strings.Contains(result.Text, "pick_a_colour") {
		t.Errorf("the program received %q, want a refusal of its request", result.Text)
	}
}

// TestClaudeDiesTwice checks that a prompt that kills the program is tried twice, and no more.
func TestClaudeDiesTwice(t *testing.T) {
	driver := newFakeClaude(t, "dies")
	started(t, driver)
	result, err := RunTurn(impatient(t), driver, Request{Prompt: "go"}, nil, nil)
	_, ok := died(err)
	if !ok || !strings.Contains(err.Error(), "out of memory") || errors.Is(err, ErrUnavailable) {
		t.Errorf("Turn = %v, want an error that says that it died twice, and why", err)
	}
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 7 {
		t.Errorf("Turn = %v, want exit status 7", err)
	}
	if result.Text != "half\n" {
		t.Errorf("text %q, want what was said before the last death", result.Text)
	}
	if strings.Count(result.Tail, "half") != 2 || !strings.Contains(result.Tail, "out of memory") {
		t.Errorf("tail %q, want what was said before both deaths, and the error output", result.Tail)
	}
}

func TestClaudeMCPArguments(t *testing.T) {
	options := Options{MCP: map[string]MCPServer{"oacp": {Command: []string{"oacp", "mcp", "--agent", "claude"}}}}
	args := claudeArguments(&options, "id")
	want := []string{"--resume=id", `--mcp-config={"mcpServers":{"oacp":{"type":"stdio","command":"oacp","args":["mcp","--agent","claude"]}}}`}
	if got := args[len(args)-2:]; !slices.Equal(got, want) {
		t.Errorf("arguments end in %q, want %q", got, want)
	}
}

// TestTrustedTools checks that only tools of trusted servers are trusted, even if names are
// similar.
func TestTrustedTools(t *testing.T) {
	servers := map[string]MCPServer{"oacp": {Command: []string{"oacp"}}}
	for tool, want := range map[string]bool{
		"mcp__oacp__send": true, "mcp__oacp__send_message": true, "mcp__oacp__send-2": true,
		"mcp__other__send": false, "Bash": false, "mcp__oacp": false, "mcp__oacp__": false, "mcp__oacp2__send": false,
		"mcp__oacp__evil__send": false, "mcp__oacp___send": false, "mcp____oacp__send": false,
	} {
		if got := ofServer(tool, servers); got != want {
			t.Errorf("tool %s is trusted: %v, want %v", tool, got, want)
		}
	}
}

func TestPlainPrompt(t *testing.T) {
	for prompt, want := range map[string]string{
		"/clear":                    " /clear",
		" /clear":                   " /clear",
		"and/or":                    "and/or",
		"read @/etc/passwd":         "read @ /etc/passwd",
		"@~/x (@../x) @a/../../x":   "@ ~/x (@ ../x) @ a/../../x",
		`@"/a b" @'c' @C:\x @\\h\x`: `@ "/a b" @ 'c' @ C:\x @ \\h\x`,
		"me@example.org @Override":  "me@example.org @Override",
		"@main.go, @scope/package.": "@main.go, @scope/package.",
	} {
		if got := plainPrompt(prompt); got != want {
			t.Errorf("prompt %q becomes %q, want %q", prompt, got, want)
		}
	}
}
