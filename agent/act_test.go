package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// acts runs a turn and returns what the agent did.
func acts(t *testing.T, driver Driver) (seen []Act, err error) {
	t.Helper()
	_, err = driver.Turn(impatient(t), Request{Prompt: "hello"}, func(e Event) { seen = append(seen, e.Acts...) })
	return seen, err
}

// retryingCodex lets the codex program repeat failed requests.
func retryingCodex(t *testing.T, script modelstub.Script) *resident {
	t.Helper()
	driver, _ := realCodex(t, script, nil)
	config := filepath.Join(driver.options.lookupVariable("CODEX_HOME"), "config.toml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "stream_max_retries = 0", "stream_max_retries = 3", 1)
	if changed == string(text) {
		t.Fatalf("%s does not say how often to try again:\n%s", config, text)
	}
	if err := os.WriteFile(config, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return driver
}

func retryingClaude(t *testing.T, script modelstub.Script) *resident {
	t.Helper()
	driver, _ := realClaude(t, script, func(o *Options) { o.Env = append(o.Env, "CLAUDE_CODE_MAX_RETRIES=5") })
	return driver
}

// retrying returns a driver of each program that repeats failed requests.
var retrying = map[string]func(*testing.T, modelstub.Script) *resident{"claude": retryingClaude, "codex": retryingCodex}

// TestRetryActs checks that a turn shows each time that the program asks the model again, and then
// continues.
func TestRetryActs(t *testing.T) {
	t.Parallel()
	for name, start := range retrying {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver := start(t, modelstub.Answers(t, refusal(529, "overloaded_error"), refusal(529, "overloaded_error"), modelstub.Reply{Text: "at last"}))
			started(t, driver)
			var seen []Act
			result, err := driver.Turn(impatient(t), Request{Prompt: "hello"}, func(e Event) {
				seen = append(seen, e.Acts...)
				if len(e.Acts) > 0 && (e.Text == "" || !e.Error) {
					t.Errorf("event %+v, want the retry as a text of the error output", e)
				}
			})
			if err != nil || result.Text != "at last" {
				t.Errorf("answer %q (%v), want that of the third request", result.Text, err)
			}
			if len(seen) != 2 || seen[0].Kind != Retry || !strings.Contains(seen[0].Text, "529") || !strings.HasSuffix(seen[0].Text, "; "+name+" tries again") {
				t.Errorf("acts %+v, want two retries after status 529", seen)
			}
		})
	}
}

// TestRejectedLogin checks that a turn ends when the service rejects the login again, although the
// program would continue to ask, and that the next turn runs.
func TestRejectedLogin(t *testing.T) {
	t.Parallel()
	for name, start := range retrying {
		t.Run(name, func(t *testing.T) {
			asked, rejected := 0, true
			driver := start(t, func(context.Context, modelstub.Request) modelstub.Reply {
				if asked++; rejected {
					return refusal(401, "authentication_error")
				}
				return modelstub.Reply{Text: "welcome"}
			})
			started(t, driver)
			seen, err := acts(t, driver)
			var failure *APIError
			if !errors.As(err, &failure) || failure.Kind != NotLoggedIn || !strings.Contains(failure.Advice, "log in once with") {
				t.Errorf("error %v, want a rejected login and how to log in", err)
			}
			if len(seen) != 1 || asked > 3 {
				t.Errorf("acts %+v after %d requests, want one retry", seen, asked)
			}
			rejected = false
			if result := turn(t, driver, "hello"); result.Text != "welcome" {
				t.Errorf("the next turn answers %q, want welcome", result.Text)
			}
		})
	}
}

// TestMayRun checks that an agent may run the named commands, and no longer command that contains one.
func TestMayRun(t *testing.T) {
	t.Parallel()
	const proof = "dd if=/dev/null of=made && true"
	commands := []string{proof + " && dd if=/dev/null of=more", "dd if=/dev/null of=made", "dd if=/dev/null of=made && true; dd if=/dev/null of=more", proof}
	script := func(t *testing.T, call func(command string) modelstub.ToolCall) modelstub.Script {
		var replies []modelstub.Reply
		for _, command := range commands {
			replies = append(replies, modelstub.Reply{Calls: []modelstub.ToolCall{call(command)}}, modelstub.Reply{Text: "done"})
		}
		return modelstub.Answers(t, replies...)
	}
	set := func(o *Options) { o.Allow, o.MayRun = PermitEdits, []string{proof} }
	t.Run("claude", func(t *testing.T) {
		driver, _ := realClaude(t, script(t, func(command string) modelstub.ToolCall {
			return modelstub.ToolCall{Name: "Bash", Input: map[string]any{"command": command, "description": "check"}}
		}), set)
		started(t, driver)
		for _, command := range commands {
			checkMayRun(t, driver, driver.options.Dir, "Bash: "+command, command == proof)
		}
	})
	t.Run("codex", func(t *testing.T) {
		driver, _ := realCodex(t, script(t, func(command string) modelstub.ToolCall {
			return modelstub.ToolCall{Name: "exec_command", Input: map[string]any{
				"cmd": command, "sandbox_permissions": "require_escalated", "justification": "the sandbox is in the way",
			}}
		}), set)
		started(t, driver)
		for _, command := range commands {
			checkMayRun(t, driver, driver.options.Dir, "command: "+command, command == proof)
		}
	})
}

// checkMayRun runs a turn that calls a tool, which makes the file named made if it is allowed.
func checkMayRun(t *testing.T, driver Driver, dir, call string, allowed bool) {
	t.Helper()
	seen, err := acts(t, driver)
	if err != nil || !slices.Contains(seen, Act{ToolCall, call}) {
		t.Errorf("acts %+v (%v), want %s", seen, err, call)
	}
	for deadline := time.Now().Add(time.Minute); allowed; { // codex does not wait for a short command
		if _, err := os.Stat(filepath.Join(dir, "made")); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); (err == nil) != allowed {
		t.Errorf("the command has run: %v; want %v", err == nil, allowed)
	}
	if _, err := os.Stat(filepath.Join(dir, "more")); err == nil {
		t.Error("more than the command has run")
	}
}

// TestMainArgument checks what is shown of a tool's input.
func TestMainArgument(t *testing.T) {
	long := strings.Repeat("ä", 300)
	for input, want := range map[string]string{
		`{"description":"d","command":"go test\n\t./..."}`: "x: go test ./...",
		`{"todos":[1,2]}`:         `x: {"todos":[1,2]}`,
		`{}`:                      "x",
		`null`:                    "x",
		``:                        "x",
		`{"command":7}`:           `x: {"command":7}`,
		`{"path":"` + long + `"}`: "x: " + long[:200] + "…",
	} {
		if got := describeTool("x", mainArgument([]byte(input))); got != want {
			t.Errorf("%s is shown as %q, want %q", input, got, want)
		}
	}
}
