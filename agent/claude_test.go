package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// realClaude returns a driver for the real claude program, whose model is the script. The changes
// apply to its options.
func realClaude(t testing.TB, script modelstub.Script, change func(*Options)) (*resident, *modelstub.Server) {
	t.Helper()
	program := modelstub.Program(t, "claude")
	server := modelstub.Start(t, script)
	options := Options{Command: []string{program}, Dir: t.TempDir(), Env: server.ClaudeEnv(t.TempDir())}
	if change != nil {
		change(&options)
	}
	return NewClaude(options).(*resident), server
}

// turn runs a turn that must succeed.
func turn(t testing.TB, driver Driver, prompt string) Result {
	t.Helper()
	result, err := RunTurn(t.Context(), driver, Request{Prompt: prompt}, nil, nil)
	if err != nil {
		t.Fatalf("turn %q: %v; the end of the output is %q", prompt, err, result.Tail)
	}
	return result
}

func TestClaudeTurns(t *testing.T) {
	t.Parallel()
	driver, server := realClaude(t, modelstub.Answers(t, modelstub.Reply{Text: "first answer"}, modelstub.Reply{Text: "second answer"}), nil)
	started(t, driver)
	if got := driver.SessionID(); got != "" {
		t.Errorf("session %q before the first turn, want none", got)
	}
	var cost float64
	for i, want := range []string{"first answer", "second answer"} {
		var events []Event
		result, err := driver.Turn(impatient(t), Request{Prompt: fmt.Sprintf("prompt %d\nof two lines", i)}, func(e Event) { events = append(events, e) })
		if err != nil {
			t.Fatal(err)
		}
		if result.Text != want || result.SessionID == "" || result.SessionID != driver.SessionID() || result.Duration <= 0 {
			t.Errorf("turn %d: result %+v, want the text %q, a duration and the session %q", i, result, want, driver.SessionID())
		}
		wantUsage := Usage{Turns: 1, InputTokens: modelstub.InputTokens, OutputTokens: modelstub.OutputTokens, CostUSD: result.Usage.CostUSD}
		if result.Usage != wantUsage || result.Usage.CostUSD <= 0 {
			t.Errorf("turn %d: usage %+v, want %+v and a cost", i, result.Usage, wantUsage)
		}
		if i > 0 && !near(result.Usage.CostUSD, cost) {
			t.Errorf("turn %d costs %v, want its own cost only, %v as the turn before", i, result.Usage.CostUSD, cost)
		}
		cost = result.Usage.CostUSD
		checkClaudeEvents(t, events, want)
	}
	asked := server.Requests()
	if got := asked[len(asked)-1].Prompts; len(got) != 2 {
		t.Errorf("the model was shown the prompts %q, want both turns'", got)
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

// checkClaudeEvents checks that the events are unchanged messages and include the answer.
func checkClaudeEvents(t *testing.T, events []Event, want string) {
	t.Helper()
	types := make(map[string]bool)
	var text string
	for _, e := range events {
		if e.Error {
			continue
		}
		var m claudeMessage
		if err := json.Unmarshal(e.Raw, &m); err != nil {
			t.Errorf("event %q is not a message: %v", e.Raw, err)
		}
		types[m.Type] = true
		text += e.Text
	}
	if !types["system"] || !types["assistant"] || !types["result"] || types["control_request"] || types["control_response"] {
		t.Errorf("events of types %v, want system, assistant and result, and none of control", types)
	}
	if text != want {
		t.Errorf("the events show %q, want %q", text, want)
	}
}

func TestClaudeUnknownSession(t *testing.T) {
	driver, _ := realClaude(t, modelstub.Answers(t), func(o *Options) { o.Session = newUUID() })
	defer stopped(t, driver)
	if err := driver.Start(impatient(t)); !errors.Is(err, ErrUnknownSession) || errors.Is(err, ErrUnavailable) {
		t.Errorf("Start = %v, want ErrUnknownSession", err)
	}
}

func stopped(t *testing.T, driver Driver) {
	t.Helper()
	if err := driver.Stop(context.Background()); err != nil {
		t.Errorf("Stop = %v, want no error", err)
	}
}

// TestClaudeTools makes the model write a file, with and without permission.
func TestClaudeTools(t *testing.T) {
	t.Parallel()
	tests := []struct {
		allow   Permission
		written bool
		denied  string // the tool's result for the model
	}{
		{PermitOwn, false, "unattended"},
		{PermitEdits, true, ""},
		{PermitAll, true, ""},
	}
	for _, test := range tests {
		t.Run(string(test.allow), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "note.txt")
			script := func(_ context.Context, request modelstub.Request) modelstub.Reply {
				if len(request.Results) > 0 {
					return modelstub.Reply{Text: "the tool said: " + request.Results[0].Output}
				}
				return modelstub.Reply{Text: "writing", Calls: []modelstub.ToolCall{
					{Name: "Write", Input: map[string]any{"file_path": file, "content": "hello\n"}},
				}}
			}
			driver, _ := realClaude(t, script, func(o *Options) {
				o.Dir, o.Allow = filepath.Dir(file), test.allow
			})
			started(t, driver)
			result := turn(t, driver, "write a note")
			data, err := os.ReadFile(file)
			if got := err == nil && string(data) == "hello\n"; got != test.written {
				t.Errorf("the file holds %q (%v), want it written: %v", data, err, test.written)
			}
			if !strings.Contains(result.Text, test.denied) {
				t.Errorf("answer %q, want it to mention %q", result.Text, test.denied)
			}
			var refused []Refusal
			if !test.written {
				refused = []Refusal{{Tool: "Write", What: file, Count: 1, Allow: PermitEdits}}
			}
			if !reflect.DeepEqual(result.Refused, refused) {
				t.Errorf("refused %+v, want %+v", result.Refused, refused)
			}
		})
	}
}

// TestClaudePermitsNothing checks that no setting of the program's own, and no hook of its folder, permits what PermitNothing does not.
func TestClaudePermitsNothing(t *testing.T) {
	t.Parallel()
	const generous = `{"permissions":{"allow":["Bash","Write","Edit","Bash(touch *)"],"defaultMode":"bypassPermissions"}}`
	hooked := strings.TrimSuffix(generous, "}") + `,"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"touch hooked"}]}]}}`
	for _, allow := range []Permission{PermitOwn, PermitNothing} {
		t.Run(string(allow), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			script := modelstub.Answers(t, modelstub.Reply{Calls: []modelstub.ToolCall{
				{Name: "Bash", Input: map[string]any{"command": "touch ran", "description": "make a file"}},
				{Name: "Write", Input: map[string]any{"file_path": filepath.Join(dir, "written"), "content": "x"}},
			}}, modelstub.Reply{Text: "done"})
			driver, _ := realClaude(t, script, func(o *Options) {
				o.Dir, o.Allow = dir, allow
				o.Env = append(o.Env, "IS_SANDBOX=1") // without it, root has no such mode
				for _, folder := range []string{o.lookupVariable("CLAUDE_CONFIG_DIR"), filepath.Join(dir, ".claude")} {
					text := generous
					if folder == filepath.Join(dir, ".claude") {
						text = hooked
					}
					if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "settings.json"), []byte(text), 0o644)); err != nil {
						t.Fatal(err)
					}
				}
			})
			started(t, driver)
			result := turn(t, driver, "make two files")
			for _, name := range []string{"ran", "written", "hooked"} {
				if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != (allow == PermitOwn) {
					t.Errorf("%s: %v, refused %+v", name, err, result.Refused)
				}
			}
		})
	}
}

// TestClaudeCommand makes the model run a command.
func TestClaudeCommand(t *testing.T) {
	t.Parallel()
	script := modelstub.Answers(t, modelstub.Reply{Calls: []modelstub.ToolCall{
		{Name: "Bash", Input: map[string]any{"command": "touch there", "description": "make a file"}},
	}}, modelstub.Reply{Text: "done"})
	driver, _ := realClaude(t, script, func(o *Options) { o.Allow = PermitAll })
	started(t, driver)
	turn(t, driver, "make a file")
	if _, err := os.Stat(filepath.Join(driver.options.Dir, "there")); err != nil {
		t.Errorf("the command did not run: %v", err)
	}
}

// nowhere is an address without a listener.
const nowhere = "http://127.0.0.1:1"

func TestClaudeUnreachable(t *testing.T) {
	t.Parallel()
	driver, _ := realClaude(t, modelstub.Answers(t), func(o *Options) { o.Env = append(o.Env, "ANTHROPIC_BASE_URL="+nowhere) })
	started(t, driver)
	_, err := driver.Turn(impatient(t), Request{Prompt: "hello"}, nil)
	var failure *APIError
	if !errors.As(err, &failure) || failure.Kind != Failing || !errors.Is(err, ErrUnavailable) {
		t.Errorf("Turn = %v, want an APIError of kind %s", err, Failing)
	}
}

func TestClaudeNotLoggedIn(t *testing.T) {
	driver, _ := realClaude(t, modelstub.Answers(t), func(o *Options) { o.Env = append(o.Env, "ANTHROPIC_API_KEY=") })
	defer stopped(t, driver)
	err := driver.Start(impatient(t))
	var failure *APIError
	if !errors.As(err, &failure) || failure.Kind != NotLoggedIn || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "/login") {
		t.Errorf("Start = %v, want an error that says that it is not logged in and how to log in", err)
	}
}

func TestClaudeRefusesArguments(t *testing.T) {
	driver, _ := realClaude(t, modelstub.Answers(t), func(o *Options) { o.Args = []string{"--no-such-flag"} })
	defer stopped(t, driver)
	if err := driver.Start(impatient(t)); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "--no-such-flag") {
		t.Errorf("Start = %v, want ErrUnavailable with the unknown flag", err)
	}
}

// TestClaudeModel checks that the model and further arguments reach the program.
func TestClaudeModel(t *testing.T) {
	t.Parallel()
	driver, server := realClaude(t, modelstub.Answers(t, modelstub.Reply{Text: "yes"}), func(o *Options) {
		o.Model, o.Args = "claude-stub-9", []string{"--tools", "Read"}
	})
	started(t, driver)
	turn(t, driver, "hello")
	asked := server.Requests()[0]
	if asked.Model != "claude-stub-9" || !slices.Contains(asked.Tools, "Read") || slices.Contains(asked.Tools, "Bash") {
		t.Errorf("asked the model %s with the tools %q, want claude-stub-9 and Read without Bash", asked.Model, asked.Tools)
	}
}

// TestClaudeMCP checks that the program uses the tools of a given server without asking.
func TestClaudeMCP(t *testing.T) {
	script := modelstub.Answers(t, modelstub.Reply{Calls: []modelstub.ToolCall{
		{Name: "mcp__parrot__say", Input: map[string]any{"text": "hello"}},
	}}, modelstub.Reply{Text: "done"})
	driver, server := realClaude(t, script, func(o *Options) {
		o.MCP = map[string]MCPServer{"parrot": {Command: helperCommand(t, "mcp", "Polly")}}
	})
	started(t, driver)
	turn(t, driver, "let the parrot speak")
	if got := server.Requests()[1].Results; len(got) != 1 || got[0].Output != "Polly says hello" {
		t.Errorf("the tool reported %+v, want: Polly says hello", got)
	}
}

// TestClaudeForeignMCP checks that tools of a server whose name only begins like a trusted one are
// denied.
func TestClaudeForeignMCP(t *testing.T) {
	t.Parallel()
	script := modelstub.Answers(t, modelstub.Reply{Calls: []modelstub.ToolCall{
		{Name: "mcp__parrot__evil__say", Input: map[string]any{"text": "hello"}},
	}}, modelstub.Reply{Text: "done"})
	driver, server := realClaude(t, script, func(o *Options) {
		o.MCP = map[string]MCPServer{"parrot": {Command: helperCommand(t, "mcp", "Polly")}}
		o.Args = []string{"--mcp-config", claudeMCP(map[string]MCPServer{"parrot__evil": {Command: helperCommand(t, "mcp", "Polly")}})}
	})
	started(t, driver)
	turn(t, driver, "let the parrot speak")
	if got := server.Requests()[1].Results; len(got) != 1 || !strings.Contains(got[0].Output, "unattended") {
		t.Errorf("the tool reported %+v, want a denial", got)
	}
}

// TestClaudePrompts checks that a prompt is plain text: it cannot run the program's commands or
// attach files that the agent may not read.
func TestClaudePrompts(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(secret, []byte("the colour is green"), 0o600); err != nil {
		t.Fatal(err)
	}
	driver, server := realClaude(t, answerAtOnce, nil)
	started(t, driver)
	for i, prompt := range []string{"/cost", "tell me of @" + secret, "tell me of @\"" + secret + "\""} {
		turn(t, driver, prompt)
		asked := server.Requests()
		if len(asked) != i+1 {
			t.Fatalf("%q: the model was asked %d times, want %d", prompt, len(asked), i+1)
		}
		if strings.Contains(string(asked[i].Body), "the colour is green") {
			t.Errorf("%q: the model received the file, want its name only", prompt)
		}
	}
}
