package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// realCodex returns a driver for the real codex program, whose model is the script. The changes
// apply to its options.
func realCodex(t testing.TB, script modelstub.Script, change func(*Options)) (*resident, *modelstub.Server) {
	t.Helper()
	program := modelstub.Program(t, "codex")
	server := modelstub.Start(t, script)
	options := Options{Command: []string{program}, Dir: t.TempDir(), Env: server.CodexEnv(t, t.TempDir())}
	if change != nil {
		change(&options)
	}
	return NewCodex(options).(*resident), server
}

func TestCodexTurns(t *testing.T) {
	t.Parallel()
	driver, server := realCodex(t, modelstub.Answers(t, modelstub.Reply{Text: "first answer"}, modelstub.Reply{Text: "second answer"}), nil)
	started(t, driver)
	if got := driver.SessionID(); got != "" {
		t.Errorf("session %q before the first turn, want none", got)
	}
	for i, want := range []string{"first answer", "second answer"} {
		var text string
		result, err := driver.Turn(impatient(t), Request{Prompt: fmt.Sprintf("prompt %d\nof two lines", i)}, func(e Event) {
			if !e.Error && !json.Valid(e.Raw) {
				t.Errorf("event %+v, want JSON", e)
			}
			if !e.Error {
				text += e.Text
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if result.Text != want || text != want || result.SessionID == "" || result.SessionID != driver.SessionID() || result.Duration <= 0 {
			t.Errorf("turn %d: result %+v, events %q, want the text %q, a duration and the session %q", i, result, text, want, driver.SessionID())
		}
		if want := (Usage{InputTokens: modelstub.InputTokens, OutputTokens: modelstub.OutputTokens}); result.Usage != want {
			t.Errorf("turn %d: usage %+v, want %+v", i, result.Usage, want)
		}
	}
	asked := server.Requests()
	if got := asked[len(asked)-1].Prompts; len(got) != 2 || got[0] != "prompt 0\nof two lines" {
		t.Errorf("the model was shown the prompts %q, want both turns'", got)
	}
}

func TestCodexUnknownSession(t *testing.T) {
	driver, _ := realCodex(t, modelstub.Answers(t), func(o *Options) { o.Session = newUUID() })
	defer stopped(t, driver)
	if err := driver.Start(impatient(t)); !errors.Is(err, ErrUnknownSession) || errors.Is(err, ErrUnavailable) {
		t.Errorf("Start = %v, want ErrUnknownSession", err)
	}
}

// TestCodexTools checks that a command that needs permission runs only if it is allowed.
func TestCodexTools(t *testing.T) {
	t.Parallel()
	tests := []struct {
		allow   Permission
		allowed bool
	}{
		{PermitOwn, false},
		{PermitAll, true},
	}
	for _, test := range tests {
		t.Run(string(test.allow), func(t *testing.T) {
			script := modelstub.Answers(t, modelstub.Reply{Text: "I will", Calls: []modelstub.ToolCall{
				{Name: "exec_command", Input: map[string]any{"cmd": "touch there", "sandbox_permissions": "require_escalated", "justification": "a test"}},
			}}, modelstub.Reply{Text: "done"})
			driver, server := realCodex(t, script, func(o *Options) {
				o.Allow, o.Args = test.allow, []string{"-c", `sandbox_mode="read-only"`, "-c", `approval_policy="on-request"`}
			})
			started(t, driver)
			result := turn(t, driver, "make a file")
			_, err := os.Stat(filepath.Join(driver.options.Dir, "there"))
			if got := err == nil; got != test.allowed {
				t.Errorf("the file exists: %v (%v), want %v; the tool reported %+v", got, err, test.allowed, server.Requests()[1].Results)
			}
			if want := (Usage{InputTokens: 2 * modelstub.InputTokens, OutputTokens: 2 * modelstub.OutputTokens}); result.Text != "done" || result.Usage != want {
				t.Errorf("result %+v, want the last answer and the usage %+v", result, want)
			}
			var refused []Refusal
			if !test.allowed {
				refused = []Refusal{{Tool: "command", What: "touch there", Count: 1, Allow: PermitAll}}
			}
			if !reflect.DeepEqual(result.Refused, refused) {
				t.Errorf("refused %+v, want %+v", result.Refused, refused)
			}
		})
	}
}

func TestCodexNotLoggedIn(t *testing.T) {
	driver, _ := realCodex(t, modelstub.Answers(t), func(o *Options) { o.Args = []string{"-c", `model_provider="openai"`} })
	defer stopped(t, driver)
	err := driver.Start(impatient(t))
	var failure *APIError
	if !errors.As(err, &failure) || failure.Kind != NotLoggedIn || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "codex login") {
		t.Errorf("Start = %v, want an error that says that it is not logged in and how to log in", err)
	}
}

// TestCodexKey checks that the key from the environment logs the program in and is not stored.
func TestCodexKey(t *testing.T) {
	t.Parallel()
	driver, _ := realCodex(t, modelstub.Answers(t, modelstub.Reply{Text: "hello yourself"}), func(o *Options) {
		address := o.lookupVariable("HTTP_PROXY") // the model is the proxy, too
		o.Env = append(o.Env, "CODEX_API_KEY=not-a-real-key")
		o.Args = []string{"-c", `model_provider="openai"`, "-c", "openai_base_url=" + tomlString(address+"/v1")}
	})
	started(t, driver)
	if result := turn(t, driver, "hello"); result.Text != "hello yourself" {
		t.Errorf("answer %q, want that of the model", result.Text)
	}
	login := filepath.Join(driver.options.lookupVariable("CODEX_HOME"), "auth.json")
	if _, err := os.Stat(login); err == nil {
		t.Errorf("the program has stored the key in %s", login)
	}
}

func TestCodexRefusesArguments(t *testing.T) {
	driver, _ := realCodex(t, modelstub.Answers(t), func(o *Options) { o.Args = []string{"--no-such-flag"} })
	defer stopped(t, driver)
	if err := driver.Start(impatient(t)); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "exit status 2") {
		t.Errorf("Start = %v, want ErrUnavailable and the exit status", err)
	}
}

// parrots is a script that calls the parrot tool and repeats its answer.
func parrots(_ context.Context, request modelstub.Request) modelstub.Reply {
	if len(request.Results) > 0 {
		return modelstub.Reply{Text: request.Results[0].Output}
	}
	return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "mcp__parrot.say", Input: map[string]any{"text": "hello"}}}}
}

// TestCodexMCP checks that the program uses the tools of a given server without asking.
func TestCodexMCP(t *testing.T) {
	t.Parallel()
	driver, _ := realCodex(t, parrots, func(o *Options) {
		o.MCP = map[string]MCPServer{"parrot": {Command: helperCommand(t, "mcp", `Polly "the" = bird`)}}
	})
	started(t, driver)
	if result := turn(t, driver, "let the parrot speak"); !strings.Contains(result.Text, `Polly "the" = bird says hello`) {
		t.Errorf("answer %q, want the tool's text", result.Text)
	}
}

// TestCodexForeignMCP checks that tools of other servers need permission.
func TestCodexForeignMCP(t *testing.T) {
	t.Parallel()
	for _, allow := range []Permission{PermitOwn, PermitAll} {
		driver, _ := realCodex(t, parrots, func(o *Options) {
			command := helperCommand(t, "mcp", "Polly")
			o.Args = []string{"-c", "mcp_servers.parrot.command=" + tomlString(command[0]), "-c", `mcp_servers.parrot.args=["` + strings.Join(command[1:], `","`) + `"]`}
			o.Allow = allow
		})
		started(t, driver)
		result := turn(t, driver, "let the parrot speak")
		if got := strings.Contains(result.Text, "says hello"); got != (allow == PermitAll) {
			t.Errorf("permission %s: answer %q does not match it", allow, result.Text)
		}
		if got := len(result.Refused) == 1 && result.Refused[0] == (Refusal{"MCP server", "parrot", 1, PermitAll}); got != (allow == PermitOwn) {
			t.Errorf("permission %s: refused %+v", allow, result.Refused)
		}
	}
}

// TestCodexAnswers checks that the driver's answers to the program's requests match the program's
// own schemas.
func TestCodexAnswers(t *testing.T) {
	schemas := codexSchemas(t)
	tests := []struct {
		method, params string
		allow, deny    string
		schema         string
	}{
		{"item/commandExecution/requestApproval", `{"command":"rm -r"}`, `{"decision":"accept"}`, `{"decision":"decline"}`, "CommandExecutionRequestApproval"},
		{"item/fileChange/requestApproval", `{}`, `{"decision":"accept"}`, `{"decision":"decline"}`, "FileChangeRequestApproval"},
		{"item/fileChange/requestApproval", `["odd"]`, `{"decision":"accept"}`, `{"decision":"decline"}`, "FileChangeRequestApproval"},
		{"item/permissions/requestApproval", `{"permissions":{"network":{"enabled":true}}}`, `{"permissions":{"network":{"enabled":true}}}`, `{"permissions":{}}`, "PermissionsRequestApproval"},
		{"item/permissions/requestApproval", `{}`, `{"permissions":{}}`, `{"permissions":{}}`, "PermissionsRequestApproval"},
		{"mcpServer/elicitation/request", `{"serverName":"s","_meta":{"codex_approval_kind":"mcp_tool_call"}}`, `{"action":"accept","content":{}}`, `{"action":"decline"}`, "McpServerElicitationRequest"},
		{"mcpServer/elicitation/request", `{"serverName":"s"}`, `{"action":"decline"}`, `{"action":"decline"}`, "McpServerElicitationRequest"},
		{"item/tool/requestUserInput", `{}`, "", "", ""},
		{"item/tool/call", `{}`, "", "", ""},
		{"account/chatgptAuthTokens/refresh", `{}`, "", "", ""},
		{"execCommandApproval", `{"command":["rm","-r"]}`, "", "", ""}, // from a protocol that the driver does not support
	}
	for _, test := range tests {
		for denial, want := range map[string]string{"": test.allow, "no": test.deny} {
			request := &rpcMessage{ID: json.RawMessage("7"), Method: test.method, Params: json.RawMessage(test.params)}
			line := codexAnswer(request, func(string, string) string { return denial })
			got := readRPC(line)
			if want == "" {
				if got.Error == nil || got.Error.Code != rpcNoMethod {
					t.Errorf("%s: answer %s, want an error: this request has no answer", test.method, line)
				}
				continue
			}
			if string(got.ID) != "7" || string(got.Result) != want {
				t.Errorf("%s %s: answer %s, want %s", test.method, test.params, line, want)
			}
			var answer any
			if err := json.Unmarshal(got.Result, &answer); err != nil {
				t.Fatal(err)
			}
			schema, err := jsonschema.Compile(filepath.Join(schemas, test.schema+"Response.json"))
			if err == nil {
				err = schema.Validate(answer)
			}
			if err != nil {
				t.Errorf("%s: answer %s: %v", test.method, got.Result, err)
			}
		}
	}
}

// TestCodexFileChange checks that a file change that is denied does not happen.
func TestCodexFileChange(t *testing.T) {
	t.Parallel()
	script := modelstub.Answers(t, execCommand("apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: note.txt\n+hello\n*** End Patch\nEOF\n"), modelstub.Reply{Text: "done"})
	driver, server := realCodex(t, script, func(o *Options) {
		o.Args = []string{"-c", `sandbox_mode="read-only"`, "-c", `approval_policy="on-request"`}
	})
	started(t, driver)
	result := turn(t, driver, "write a note")
	file := filepath.Join(driver.options.Dir, "note.txt")
	if _, err := os.Stat(file); err == nil {
		t.Error("the file exists, want it not written")
	}
	if want := []Refusal{{Tool: "file change", What: file, Count: 1, Allow: PermitEdits}}; !reflect.DeepEqual(result.Refused, want) {
		t.Errorf("refused %+v, want %+v", result.Refused, want)
	}
	if got := server.Requests()[1].Results; len(got) != 1 || !strings.Contains(got[0].Output, "rejected") {
		t.Errorf("the tool reported %+v, want a denial", got)
	}
}

// codexSchemas makes the installed program write the schemas of its protocol and returns their
// folder.
func codexSchemas(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	program := modelstub.Program(t, "codex")
	command := exec.Command(program, "app-server", "generate-json-schema", "--out", folder)
	command.Env = append(os.Environ(), "CODEX_HOME="+t.TempDir())
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return folder
}
