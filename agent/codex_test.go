package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/oacp-go/oacp/internal/modelstub"
)

// realCodex returns a driver for the real codex program, whose model is the
// script. Changes may be made to its options.
func realCodex(t testing.TB, script modelstub.Script, change func(*Options)) (*Codex, *modelstub.Server) {
	t.Helper()
	program := modelstub.Program(t, "codex")
	server := modelstub.Start(t, script)
	options := Options{Command: []string{program}, Dir: t.TempDir(), Env: server.CodexEnv(t, t.TempDir())}
	if change != nil {
		change(&options)
	}
	return NewCodex(options), server
}

// useExec has the driver run the exec command.
func useExec(o *Options) { o.exec = true }

func TestCodexTurns(t *testing.T) {
	for name, change := range map[string]func(*Options){"app server": nil, "exec": useExec} {
		t.Run(name, func(t *testing.T) {
			driver, server := realCodex(t, modelstub.Answers(t, modelstub.Reply{Text: "first answer"}, modelstub.Reply{Text: "second answer"}), change)
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
		})
	}
}

func TestCodexUnknownSession(t *testing.T) {
	driver, _ := realCodex(t, modelstub.Answers(t), func(o *Options) { o.Session = newUUID() })
	defer stopped(t, driver)
	if err := driver.Start(impatient(t)); !errors.Is(err, ErrUnknownSession) || errors.Is(err, ErrUnavailable) {
		t.Errorf("Start = %v, want ErrUnknownSession", err)
	}
	other := NewCodex(driver.options)
	other.options.exec = true
	started(t, other)
	if _, err := other.Turn(impatient(t), Request{Prompt: "hello"}, nil); !errors.Is(err, ErrUnknownSession) {
		t.Errorf("Turn of exec = %v, want ErrUnknownSession", err)
	}
}

// TestCodexTools has the model run a command that the program asks leave for.
func TestCodexTools(t *testing.T) {
	tests := []struct {
		name    string
		approve Approver
		allowed bool
	}{
		{"nobody to ask", nil, false},
		{"allowed", AllowAll, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			script := modelstub.Answers(t, modelstub.Reply{Text: "I will", Calls: []modelstub.ToolCall{
				{Name: "exec_command", Input: map[string]any{"cmd": "touch there"}},
			}}, modelstub.Reply{Text: "done"})
			var asked []Approval
			driver, server := realCodex(t, script, func(o *Options) {
				o.approvalPolicy, o.sandbox = "untrusted", "danger-full-access"
				o.approve = func(ctx context.Context, approval Approval) Decision {
					asked = append(asked, approval)
					return approve(ctx, test.approve, approval)
				}
			})
			started(t, driver)
			result := turn(t, driver, "make a file")
			if len(asked) != 1 || asked[0].Tool != "item/commandExecution/requestApproval" || !strings.Contains(asked[0].Detail, "touch there") || !json.Valid(asked[0].Raw) {
				t.Errorf("asked %+v, want the command line, once", asked)
			}
			_, err := os.Stat(filepath.Join(driver.options.Dir, "there"))
			if got := err == nil; got != test.allowed {
				t.Errorf("the file is there: %v (%v), want %v; the tool said %+v", got, err, test.allowed, server.Requests()[1].Results)
			}
			if want := (Usage{InputTokens: 2 * modelstub.InputTokens, OutputTokens: 2 * modelstub.OutputTokens}); result.Text != "done" || result.Usage != want {
				t.Errorf("result %+v, want the last answer and the usage %+v", result, want)
			}
		})
	}
}

// TestCodexUnreachable: the program waits for a network by itself, says so, and
// can be interrupted in it.
func TestCodexUnreachable(t *testing.T) {
	driver, _ := realCodex(t, modelstub.Answers(t), func(o *Options) {
		o.Args = []string{"-c", "model_providers.stub.base_url=" + quoted(nowhere+"/v1")}
	})
	started(t, driver)
	_, err := driver.Turn(impatient(t), Request{Prompt: "hello"}, whenSeen("waiting for network", func() { _ = driver.Interrupt(t.Context()) }))
	if !errors.Is(err, ErrInterrupted) {
		t.Errorf("Turn = %v, want ErrInterrupted", err)
	}
}

func TestCodexNotLoggedIn(t *testing.T) {
	driver, _ := realCodex(t, modelstub.Answers(t), func(o *Options) { o.Args = []string{"-c", `model_provider="openai"`} })
	defer stopped(t, driver)
	err := driver.Start(impatient(t))
	var failure *APIError
	if !errors.As(err, &failure) || failure.Kind != NotLoggedIn || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "codex login") {
		t.Errorf("Start = %v, want that it is not logged in, and how to", err)
	}
}

func TestCodexRefusesArguments(t *testing.T) {
	driver, _ := realCodex(t, modelstub.Answers(t), func(o *Options) { o.Args = []string{"--no-such-flag"} })
	defer stopped(t, driver)
	if err := driver.Start(impatient(t)); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "exit status 2") {
		t.Errorf("Start = %v, want ErrUnavailable and the exit status", err)
	}
}

// parrots is a script that has the parrot speak and repeats what it said.
func parrots(_ context.Context, request modelstub.Request) modelstub.Reply {
	if len(request.Results) > 0 {
		return modelstub.Reply{Text: request.Results[0].Output}
	}
	return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "mcp__parrot.say", Input: map[string]any{"text": "hello"}}}}
}

// TestCodexMCP gives the program a server, whose tools it may use without
// asking.
func TestCodexMCP(t *testing.T) {
	for name, change := range map[string]func(*Options){"app server": nil, "exec": useExec} {
		t.Run(name, func(t *testing.T) {
			driver, _ := realCodex(t, parrots, func(o *Options) {
				o.MCP = map[string]MCPServer{"parrot": {Command: helperCommand(t, "mcp"), Env: []string{`PARROT=Polly "the" = bird`}}}
				if change != nil {
					change(o)
				}
			})
			started(t, driver)
			if result := turn(t, driver, "let the parrot speak"); !strings.Contains(result.Text, `Polly "the" = bird says hello`) {
				t.Errorf("answer %q, want what the tool said", result.Text)
			}
		})
	}
}

// TestCodexForeignMCP: the tools of servers from elsewhere are asked for.
func TestCodexForeignMCP(t *testing.T) {
	for _, allow := range []bool{false, true} {
		var asked []Approval
		driver, _ := realCodex(t, parrots, func(o *Options) {
			command := helperCommand(t, "mcp")
			o.Args = []string{"-c", "mcp_servers.parrot.command=" + quoted(command[0]), "-c", `mcp_servers.parrot.args=["` + strings.Join(command[1:], `","`) + `"]`}
			o.approve = func(_ context.Context, approval Approval) Decision {
				asked = append(asked, approval)
				return Decision{Allow: allow}
			}
		})
		started(t, driver)
		result := turn(t, driver, "let the parrot speak")
		if got := strings.Contains(result.Text, "says hello"); got != allow || len(asked) != 1 || !strings.Contains(asked[0].Detail, "parrot") {
			t.Errorf("allowed %v: answer %q, asked %+v, want to be asked once, and an answer accordingly", allow, result.Text, asked)
		}
	}
}

// TestCodexAnswers: the program's requests are answered in the shapes that its
// own schema demands.
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
		{"execCommandApproval", `{"command":["rm","-r"]}`, "", "", ""}, // of another protocol, which the driver does not speak
	}
	for _, test := range tests {
		for approver, want := range map[*Approver]string{new(Approver(AllowAll)): test.allow, new(Approver(DenyAll)): test.deny} {
			line := readAsked(&rpcMessage{ID: json.RawMessage("7"), Method: test.method, Params: json.RawMessage(test.params)}, nil).decide(t.Context(), *approver, nil)
			got := readRPC(line)
			if want == "" {
				if got.Error == nil || got.Error.Code != rpcNoMethod {
					t.Errorf("%s: answer %s, want an error: nobody can answer this", test.method, line)
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

// TestCodexFileChange: who approves a change of files sees what it is.
func TestCodexFileChange(t *testing.T) {
	script := modelstub.Answers(t, execCommand("apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: note.txt\n+hello\n*** End Patch\nEOF\n"), modelstub.Reply{Text: "done"})
	var asked []Approval
	driver, _ := realCodex(t, script, func(o *Options) {
		o.approvalPolicy, o.sandbox = "untrusted", "read-only"
		o.approve = func(_ context.Context, approval Approval) Decision {
			asked = append(asked, approval)
			return Decision{Allow: true}
		}
	})
	started(t, driver)
	turn(t, driver, "write a note")
	file := filepath.Join(driver.options.Dir, "note.txt")
	if len(asked) != 1 || asked[0].Tool != "item/fileChange/requestApproval" || asked[0].Detail != "add "+file+"\nhello" {
		t.Errorf("asked %+v, want the file and what goes into it, once", asked)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "hello\n" {
		t.Errorf("the file holds %q (%v), want it written", data, err)
	}
}

func TestCodexDetails(t *testing.T) {
	changes := &codexItem{ID: "i"}
	if err := json.Unmarshal([]byte(`{"id":"i","type":"fileChange","changes":[{"path":"/a","kind":{"type":"delete"},"diff":""},{"path":"/b","kind":{"type":"update"},"diff":"@@"}]}`), changes); err != nil {
		t.Fatal(err)
	}
	for params, want := range map[string]string{
		`{"command":"ls","reason":"to see"}`: "ls",
		`{"reason":"to see"}`:                "to see",
		`{"itemId":"i","grantRoot":"/w"}`:    "delete /a\n\nupdate /b\n@@\nwrite below /w from now on",
		`{"itemId":"j"}`:                     "",
		`{"command":null,"networkApprovalContext":{"host":"h","protocol":"https"}}`: "connect to https h",
		`{"permissions":{"network":{"enabled":true}},"reason":"r"}`:                 `permissions {"network":{"enabled":true}}`,
	} {
		asked := readAsked(&rpcMessage{Params: json.RawMessage(params)}, map[string]*codexItem{"i": changes})
		if got := asked.request.detail(asked.item); got != want {
			t.Errorf("detail of %s is %q, want %q", params, got, want)
		}
	}
}

// codexSchemas has the installed program write the schemas of its protocol, and
// returns their folder.
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
