package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/orphans"
)

// fakeCodex plays the codex program in cases that the real one cannot reproduce. Its first argument
// selects the behavior.
func fakeCodex(args []string) int {
	kind, args := args[0], args[1:]
	if kind == "ancient" {
		fmt.Fprintln(os.Stderr, "error: unrecognized subcommand 'app-server'")
		return 2
	}
	if kind == "hangs again" && !hangsAgain(args[0]) {
		return 1
	}
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		if code := answerAsCodex(kind, readRPC(line), out); code >= 0 {
			return code
		}
		if out.Flush() != nil {
			return 1
		}
	}
}

// answerAsCodex answers a line and returns the exit status, or -1 to continue.
func answerAsCodex(kind string, m *rpcMessage, out *bufio.Writer) int {
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	switch m.Method {
	case "initialize":
		say(`{"id":%s,"result":{}}`, m.ID)
	case "account/login/start":
		say(`{"id":%s,"error":{"code":1,"message":"wrong key"}}`, m.ID)
	case "account/read":
		say(`{"id":%s,"result":{"account":null,"requiresOpenaiAuth":%v}}`, m.ID, kind == "logged out")
	case "thread/start", "thread/resume":
		say(`{"id":%s,"result":{"thread":{"id":"t"}}}`, m.ID)
	case "turn/start":
		say(`{"id":%s,"result":{"turn":{"id":"u","status":"inProgress"}}}`, m.ID)
		if kind == "dies once" && bytes.Contains(m.Params, []byte("ended unexpectedly")) {
			kind = "has nothing to say"
		}
		return turnAsCodex(kind, out, say)
	case "":
		say(`{"method":"item/completed","params":{"threadId":"t","item":{"type":"agentMessage","text":%q}}}`, m.Error.Message)
		say(`{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed"}}}`)
	}
	return -1
}

func turnAsCodex(kind string, out *bufio.Writer, say func(string, ...any)) int {
	switch kind {
	case "hangs again":
		return 7
	case "says why":
		fmt.Fprint(out, "Credit balance is too low\nno newline at the end")
		out.Flush()
		return 1
	case "mark":
		say(`{"method":"item/completed","params":{"threadId":"t","item":{"type":"agentMessage","text":%q}}}`, os.Getenv(orphans.Variable))
		say(`{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed"}}}`)
		return -1
	case "dies once":
		say(`{"method":"item/completed","params":{"threadId":"t","item":{"type":"agentMessage","text":"I could not finish: PASS"}}}`)
		say(`{"method":"thread/tokenUsage/updated","params":{"threadId":"t","turnId":"u","tokenUsage":{"total":{"inputTokens":1000,"outputTokens":10},"last":{"inputTokens":1000,"outputTokens":10}}}}`)
		out.Flush()
		return 7
	case "has nothing to say":
		say(`{"method":"thread/tokenUsage/updated","params":{"threadId":"t","turnId":"u","tokenUsage":{"total":{"inputTokens":1200,"outputTokens":12},"last":{"inputTokens":200,"outputTokens":2}}}}`)
		say(`{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed"}}}`)
		return -1
	case "long":
		say(`{"method":"item/completed","params":{"threadId":"t","item":{"type":"fileChange","diff":"%s"}}}`, strings.Repeat("x", 30<<20))
	case "strange":
		say("a warning that is no JSON")
		say(`{"method":"something/new","params":[1,2]}`)
		say(`{"method":"turn/completed","params":{"threadId":"another","turn":{"id":"u","status":"failed"}}}`)
		say(`{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"another","status":"failed"}}}`)
	case "ignores steering": // and does not end its turn
		say(`{"method":"item/completed","params":{"threadId":"t","item":{"type":"agentMessage","text":"half"}}}`)
		return -1
	case "asks":
		say(`{"id":"a1","method":"item/colour/pick","params":{}}`)
		return -1
	case "dies":
		say(`{"method":"item/completed","params":{"threadId":"t","item":{"type":"agentMessage","text":"half"}}}`)
		fmt.Fprint(out, `{"method":"turn/compl`)
		out.Flush()
		fmt.Fprintln(os.Stderr, "out of memory")
		return 7
	}
	say(`{"method":"item/completed","params":{"threadId":"t","item":{"type":"agentMessage","text":"mine"}}}`)
	say(`{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed"}}}`)
	return -1
}

func newFakeCodex(t testing.TB, kind string) *resident {
	t.Helper()
	return NewCodex(Options{Command: helperCommand(t, "codex", kind)}).(*resident)
}

func TestCodexUnavailable(t *testing.T) {
	tests := []struct {
		name    string
		options Options
		want    string
	}{
		{"missing", Options{Command: []string{"no-such-codex"}}, "npm install -g @openai/codex"},
		{"too old", Options{Command: helperCommand(t, "codex", "ancient")}, "unrecognized subcommand 'app-server'; at least " + codexRelease.oldest},
		{"wrong key", Options{Command: helperCommand(t, "codex", "logged out"), Env: []string{"CODEX_API_KEY=x"}}, "wrong key"},
		{"fails", Options{Command: helperCommand(t, "fail")}, "it broke"},
		{"working folder missing", Options{Command: helperCommand(t, "codex", "long"), Dir: "/no/such/folder"}, "/no/such/folder"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			driver := NewCodex(test.options)
			defer stopped(t, driver)
			if err := driver.Start(impatient(t)); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Start = %v, want ErrUnavailable and %q", err, test.want)
			}
		})
	}
	if _, err := NewCodex(Options{}).Turn(t.Context(), Request{}, nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Turn of a driver that was not started = %v, want ErrUnavailable", err)
	}
}

// TestCodexLongLine checks that a line of 30 MB arrives. A fake program prints it, because the real
// one would need a model that says as much.
func TestCodexLongLine(t *testing.T) {
	t.Parallel()
	driver := newFakeCodex(t, "long")
	started(t, driver)
	longest := 0
	result, err := driver.Turn(impatient(t), Request{Prompt: "go"}, func(e Event) { longest = max(longest, len(e.Raw)) })
	if err != nil || result.Text != "mine" || longest < 30<<20 {
		t.Errorf("error %v, text %.50q, longest event of %d bytes, want an event of 30 MB and the answer after it", err, result.Text, longest)
	}
}

func TestCodexStrangeLines(t *testing.T) {
	driver := newFakeCodex(t, "strange")
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
	if want := `{"method":"something/new","params":[1,2]}`; len(raw) != 5 || raw[0] != want {
		t.Errorf("events %q, want five, the first %s", raw, want)
	}
}

func TestCodexUnknownRequest(t *testing.T) {
	driver := newFakeCodex(t, "asks")
	started(t, driver)
	if result := turn(t, driver, "go"); !strings.Contains(result.Text, "item/colour/pick") {
		t.Errorf("the program received %q, want a refusal of its request", result.Text)
	}
}

// TestCodexDiesTwice checks that a prompt that kills the program is tried twice, and no more.
func TestCodexDiesTwice(t *testing.T) {
	driver := newFakeCodex(t, "dies")
	started(t, driver)
	result, err := RunTurn(impatient(t), driver, Request{Prompt: "go"}, nil, nil)
	if _, ok := died(err); !ok || !strings.Contains(err.Error(), "out of memory") || errors.Is(err, ErrUnavailable) {
		t.Errorf("Turn = %v, want an error that says that it died, and why", err)
	}
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 7 {
		t.Errorf("Turn = %v, want exit status 7", err)
	}
	if result.Text != "half" {
		t.Errorf("text %q, want what was said before the death", result.Text)
	}
}

func TestCodexArguments(t *testing.T) {
	options := Options{
		Command: []string{"codex"}, Args: []string{"-c", "a=1"}, Env: []string{"CODEX_API_KEY=x"},
		MCP: map[string]MCPServer{"oacp": {Command: []string{"oacp", "mcp", `--agent="x"`}}},
	}
	want := []string{
		"codex", "app-server", "-c", `cli_auth_credentials_store="ephemeral"`,
		"-c", `mcp_servers.oacp.command="oacp"`, "-c", `mcp_servers.oacp.args=["mcp","--agent=\"x\""]`,
		"-c", `mcp_servers.oacp.default_tools_approval_mode="approve"`, "-c", "a=1",
	}
	if got := codexArguments(&options); !slices.Equal(got, want) {
		t.Errorf("arguments %q, want %q", got, want)
	}
}

func TestCodexFailures(t *testing.T) {
	tests := []struct {
		failure string
		kind    APIErrorKind // "" for any other failure
		status  int
	}{
		{`{"message":"x","codexErrorInfo":"unauthorized"}`, NotLoggedIn, 0},
		{`{"message":"x","codexErrorInfo":"usageLimitExceeded"}`, RateLimited, 0},
		{`{"message":"x","codexErrorInfo":"serverOverloaded"}`, Failing, 0},
		{`{"message":"x","codexErrorInfo":"rateLimitExceeded"}`, RateLimited, 0},
		{`{"message":"x","codexErrorInfo":"flexUnavailable"}`, Failing, 0},
		{`{"message":"x","codexErrorInfo":"policyCapacityUnavailable"}`, Failing, 0},
		{`{"message":"x","codexErrorInfo":"internalServerError"}`, Failing, 0},
		{`{"message":"x","codexErrorInfo":"modelNotFound"}`, Misconfigured, 0},
		{`{"message":"x","codexErrorInfo":"contextWindowExceeded"}`, TooLong, 0},
		{`{"message":"x","codexErrorInfo":"cyberPolicy"}`, Declined, 0},
		{`{"message":"x","codexErrorInfo":"badRequest"}`, Refused, 0},
		{`{"message":"x","codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":401}}}`, NotLoggedIn, 401},
		{`{"message":"x","codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":null}}}`, Failing, 0},
		{`{"message":"x","codexErrorInfo":{"responseTooManyFailedAttempts":{"httpStatusCode":429}}}`, RateLimited, 429},
		{`{"message":"x","codexErrorInfo":{"responseStreamConnectionFailed":{"httpStatusCode":408}}}`, Failing, 408},
		{`{"message":"x","codexErrorInfo":{"responseStreamDisconnected":{"httpStatusCode":null}}}`, Failing, 0},
		{`{"message":"x","codexErrorInfo":{"responseTooManyFailedAttempts":{"httpStatusCode":null}}}`, Failing, 0},
		{`{"message":"x","codexErrorInfo":{"activeTurnNotSteerable":{"turnKind":"review"}}}`, "", 0},
		{`{"message":"stream disconnected before completion: error sending request","codexErrorInfo":"other"}`, Failing, 0},
		{`{"message":"stream disconnected before completion: Incomplete response returned, reason: content_filter"}`, Declined, 0},
		{`{"message":"We’re currently experiencing high demand, which may cause temporary errors."}`, Failing, 0},
		{`{"message":"Selected model is at capacity. Please try a different model."}`, Failing, 0},
		{`{"message":"You’ve hit your usage limit."}`, RateLimited, 0},
		{`{"message":"Codex ran out of room in the model's context window."}`, TooLong, 0},
		{`{"message":"exceeded retry limit, last status: 429 Too Many Requests"}`, RateLimited, 429},
		{`{"message":"unexpected status 401 Unauthorized: x","codexErrorInfo":"other"}`, NotLoggedIn, 401},
		{`{"message":"x","codexErrorInfo":"other"}`, "", 0},
		{`{"message":"x"}`, "", 0},
		{`{}`, "", 0},
		{`{"codexErrorInfo":"serverOverloaded"}`, Failing, 0},
		{`{"message":"x","codexErrorInfo":[1]}`, "", 0},
	}
	for _, test := range tests {
		var failure codexFailure
		if err := json.Unmarshal([]byte(test.failure), &failure); err != nil {
			t.Fatal(err)
		}
		err := failure.err()
		var api *APIError
		var kind APIErrorKind
		status := 0
		if errors.As(err, &api) {
			kind, status = api.Kind, api.Status
		}
		if kind != test.kind || status != test.status || !strings.Contains(err.Error(), reason(failure.Message)) {
			t.Errorf("failure %s is %v of kind %q, want kind %q with status %d", test.failure, err, kind, test.kind, test.status)
		}
	}
}

func TestCodexFailureInJSON(t *testing.T) {
	failure := codexFailure{Message: `{"type":"error","error":{"type":"invalid_request_error","message":"no such tool"}}` + "\n"}
	if got, want := failure.err().Error(), "the agent reported a failure: no such tool"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}
