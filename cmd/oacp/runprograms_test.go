package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/turn"
)

// A programScene is a workspace and the real claude or codex, with a scripted model behind it.
type programScene struct {
	t                    *testing.T
	oacp, workspace, dir string
	// own is the user's own file with settings.
	own string
	env []string
}

func newProgramScene(t *testing.T, name string, script modelstub.Script) *programScene {
	t.Helper()
	program := modelstub.Program(t, name)
	oacp, err := exec.LookPath("oacp")
	if err != nil {
		t.Fatal(err)
	}
	scratch, home := t.TempDir(), t.TempDir()
	scene := &programScene{t: t, oacp: oacp, workspace: filepath.Join(scratch, "workspace"), dir: filepath.Join(scratch, "work"), own: filepath.Join(scratch, "home", "config.yaml")}
	for _, folder := range []string{scene.workspace, scene.dir} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	server := modelstub.Start(t, script)
	environment := server.ClaudeEnv(home)
	switch name {
	case "codex":
		environment = server.CodexEnv(t, home)
	case "gemini":
		environment = server.GeminiEnv(t, home)
	}
	path := filepath.Dir(program) + string(os.PathListSeparator) + os.Getenv("PATH")
	scene.env = append(append(os.Environ(), environment...), "PATH="+path, "OACP_WORKSPACE="+scene.workspace, "OACP_HOME="+filepath.Dir(scene.own))
	scene.must("init", "--dir", scene.workspace, "--agents", "asker,worker")
	return scene
}

// command is oacp with the arguments, in the working folder.
func (s *programScene) command(arguments ...string) *exec.Cmd {
	command := exec.Command(s.oacp, arguments...)
	command.Dir, command.Env = s.dir, s.env
	return command
}

// must runs oacp and returns its standard output.
func (s *programScene) must(arguments ...string) string {
	s.t.Helper()
	command := s.command(arguments...)
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		s.t.Fatalf("oacp %s: %v\n%s%s", strings.Join(arguments, " "), err, out, complaints.String())
	}
	return string(out)
}

// ask sends a question to the worker and returns its id.
func (s *programScene) ask(text string) string {
	s.t.Helper()
	var sent struct {
		ID string `json:"id"`
	}
	out := s.must("send", "--from", "asker", "--to", "worker", "--type", "question", "--subject", "A question", "--body", text, "--json")
	if err := json.Unmarshal([]byte(out), &sent); err != nil {
		s.t.Fatalf("reading %s: %v", out, err)
	}
	return sent.ID
}

// answer returns the one message that the asker has got.
func (s *programScene) answer() string {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.workspace, "agents", "asker", "inbox", "*.yaml"))
	if err != nil || len(found) != 1 {
		s.t.Fatalf("the asker has %q (%v), want one message", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// serve starts a bridge with the driver, and stops it when the test ends.
func (s *programScene) serve(driver string, arguments ...string) (socket string) {
	s.t.Helper()
	command := s.command(append([]string{"ash", "serve", "--driver", driver, "--json"}, arguments...)...)
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			s.t.Error(err)
		}
		if err := command.Wait(); err != nil {
			s.t.Errorf("ash serve: %v\n%s", err, complaints.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_, _ = io.Copy(io.Discard, out) // it says on standard error why
		s.t.Fatalf("ash serve printed no address: %v", err)
	}
	var listening struct {
		Socket string `json:"socket"`
	}
	if err := json.Unmarshal([]byte(line), &listening); err != nil {
		s.t.Fatalf("reading %s: %v", line, err)
	}
	return listening.Socket
}

// TestRunPrograms gives only the names of the programs, and has them do what the settings allow:
// run a command, which prints its folder, use a tool of oacp mcp, and answer. Then a host asks them
// through a bridge.
func TestRunPrograms(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, arguments string
		shell, tool     modelstub.ToolCall
	}{
		{
			name: "claude", arguments: `[--append-system-prompt, Speak softly.]`,
			shell: modelstub.ToolCall{Name: "Bash", Input: map[string]any{"command": `echo "$OACP_AGENT in $OACP_WORKSPACE" >where.txt`, "description": "look"}},
			tool:  modelstub.ToolCall{Name: "mcp__oacp__list_inbox", Input: map[string]any{}},
		},
		{
			name: "codex", arguments: `[-c, 'developer_instructions="Speak softly."']`,
			shell: modelstub.ToolCall{Name: "exec_command", Input: map[string]any{"cmd": `echo "$OACP_AGENT in $OACP_WORKSPACE" >where.txt`}},
			tool:  modelstub.ToolCall{Name: "mcp__oacp.list_inbox", Input: map[string]any{}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			requests := make(chan modelstub.Request, 4)
			replies := modelstub.Answers(t, modelstub.Reply{Calls: []modelstub.ToolCall{test.shell}},
				modelstub.Reply{Calls: []modelstub.ToolCall{test.tool}}, modelstub.Reply{Text: "Port 8080."}, modelstub.Reply{Text: "Host seven."})
			scene := newProgramScene(t, test.name, func(ctx context.Context, request modelstub.Request) modelstub.Reply {
				requests <- request
				return replies(ctx, request)
			})
			config := fmt.Sprintf("run:\n  model: stub-9\n  allow: all\n  args: %s\n  reply: true\n  max_attempts: 1\n", test.arguments)
			check.WriteFile(t, scene.own, config)
			scene.ask("Do something useful.")
			scene.must("run", "--agent", "worker", "--once", "--driver", test.name)
			if got := scene.answer(); !strings.Contains(got, "Port 8080.") {
				t.Errorf("the answer is\n%s\nwant Port 8080.", got)
			}
			first := <-requests
			if first.Model != "stub-9" || !strings.Contains(string(first.Body), "Speak softly.") {
				t.Errorf("the model %s was asked\n%s\nwant stub-9 and the argument", first.Model, first.Body)
			}
			where, err := os.ReadFile(filepath.Join(scene.dir, "where.txt"))
			if want := "worker in " + scene.workspace + "\n"; err != nil || string(where) != want {
				t.Errorf("the command saw %q (%v), want %q; it said %q", where, err, want, (<-requests).Results)
			} else {
				<-requests
			}
			if last := <-requests; len(last.Results) != 1 || !strings.Contains(last.Results[0].Output, "A question") {
				t.Errorf("the tool gave %q, want the message in the inbox", last.Results)
			}
			scene.env = append(scene.env, "OACP_AGENT=worker")
			socket := scene.serve(test.name)
			if got := scene.must("ash", "query", "Which host?", "--socket", socket); got != "Host seven.\n" {
				t.Errorf("ash query printed %q, want Host seven.", got)
			}
			if bridged := <-requests; !strings.Contains(string(bridged.Body), "list_inbox") {
				t.Errorf("through the bridge the agent has the tools %q, want those of oacp mcp, too", bridged.Tools)
			}
		})
	}
}

// TestRunRefused has the real programs try what they may not do, and checks what run says of it and
// of the cost.
func TestRunRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		calls []modelstub.ToolCall
		line  string
		event turn.Event
	}{
		{
			name: "claude",
			calls: []modelstub.ToolCall{
				{Name: "Write", Input: map[string]any{"file_path": "note.txt", "content": "hello\n"}},
				{Name: "Bash", Input: map[string]any{"command": "touch there", "description": "look"}},
				{Name: "Bash", Input: map[string]any{"command": "touch there", "description": "look again"}},
			},
			line: `A question  (4 model turns, 428 tokens, <$0.01); refused Write "DIR/note.txt" (needs --allow edits), Bash "touch there" 2 times (needs --allow all)`,
			event: turn.Event{
				Usage: agent.Usage{Turns: 4, InputTokens: 400, OutputTokens: 28},
				Refused: []agent.Refusal{
					{Tool: "Write", What: "DIR/note.txt", Count: 1, Allow: agent.PermitEdits},
					{Tool: "Bash", What: "touch there", Count: 2, Allow: agent.PermitAll},
				},
			},
		},
		{
			name: "codex",
			calls: []modelstub.ToolCall{
				{Name: "exec_command", Input: map[string]any{"cmd": "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: note.txt\n+hello\n*** End Patch\nEOF\n"}},
				{Name: "exec_command", Input: map[string]any{"cmd": "touch there", "sandbox_permissions": "require_escalated", "justification": "a test"}},
			},
			line: `A question  (321 tokens); refused file change "DIR/note.txt" (needs --allow edits), command "touch there" (needs --allow all)`,
			event: turn.Event{
				Usage: agent.Usage{InputTokens: 300, OutputTokens: 21},
				Refused: []agent.Refusal{
					{Tool: "file change", What: "DIR/note.txt", Count: 1, Allow: agent.PermitEdits},
					{Tool: "command", What: "touch there", Count: 1, Allow: agent.PermitAll},
				},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var replies []modelstub.Reply
			runs := 1
			if *thorough { // then also with --json
				runs = 2
			}
			for range runs {
				for _, call := range test.calls {
					replies = append(replies, modelstub.Reply{Calls: []modelstub.ToolCall{call}})
				}
				replies = append(replies, modelstub.Reply{Text: "I may not."})
			}
			scene := newProgramScene(t, test.name, modelstub.Answers(t, replies...))
			dir, err := filepath.EvalSymlinks(scene.dir)
			if err != nil {
				t.Fatal(err)
			}
			scene.ask("Do something useful.")
			out := scene.must("run", "--agent", "worker", "--once", "--driver", test.name)
			if want := strings.ReplaceAll(test.line, "DIR", dir); !strings.Contains(out, want+"\n") {
				t.Errorf("run printed\n%s\nwant a line that ends in\n%s", out, want)
			}
			if !*thorough {
				return
			}
			scene.ask("Once more.")
			var done turn.Event
			for line := range strings.Lines(scene.must("run", "--agent", "worker", "--once", "--driver", test.name, "--json")) {
				var e turn.Event
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatalf("%v in %s", err, line)
				}
				if e.Kind == turn.EventSucceeded {
					done = e
				}
			}
			if test.name == "claude" && done.Usage.CostUSD <= 0 {
				t.Errorf("the turn cost %v, want a cost", done.Usage.CostUSD)
			}
			done.Usage.CostUSD = 0
			for i, r := range done.Refused {
				done.Refused[i].What = strings.ReplaceAll(r.What, dir, "DIR")
			}
			if done.Usage != test.event.Usage || !slices.Equal(done.Refused, test.event.Refused) {
				t.Errorf("the event has usage %+v and refused %+v, want %+v", done.Usage, done.Refused, test.event)
			}
		})
	}
}

// TestRunMisconfigured gives the real programs no key, no credit and an address without a service. No
// message is to blame, so each stays in the inbox, and its sender gets no notice.
func TestRunMisconfigured(t *testing.T) {
	t.Parallel()
	noCredit := modelstub.Reply{Failure: &modelstub.Failure{
		Status: 400, Type: "invalid_request_error", Message: "Your credit balance is too low to access the API.",
	}}
	const elsewhere = "http://127.0.0.1:1"
	tests := []struct {
		what, program, args string
		env, want           string
	}{
		{what: "no key", program: "codex", args: `[-c, 'model_providers.stub.env_key="NO_SUCH_KEY"']`, want: "NO_SUCH_KEY"},
		{what: "no credit", program: "codex", want: "credit balance is too low"},
		{what: "no service", program: "codex", args: `[-c, 'model_providers.stub.base_url="` + elsewhere + `/v1"']`, want: "Connection failed"},
		{what: "no credit", program: "claude", want: "Credit balance is too low"},
		{what: "no service", program: "claude", env: "ANTHROPIC_BASE_URL=" + elsewhere, want: "Connection refused"},
	}
	for _, test := range tests {
		if test.what == "no service" && !*thorough { // agent.TestAPIErrors and TestWaitsForService check it
			continue
		}
		t.Run(test.program+", "+test.what, func(t *testing.T) {
			t.Parallel()
			scene := newProgramScene(t, test.program, func(context.Context, modelstub.Request) modelstub.Reply { return noCredit })
			if test.env != "" {
				scene.env = append(scene.env, test.env)
			}
			config := "run:\n  reply: true\n  timeout: 5s\n"
			if test.args != "" {
				config += "  args: " + test.args + "\n"
			}
			check.WriteFile(t, scene.own, config)
			scene.ask("Which port?")
			scene.ask("Which host?")
			out, err := scene.command("run", "--agent", "worker", "--once", "--driver", test.program, "--json").Output()
			exit := new(exec.ExitError)
			if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), `"code":"agent_unavailable"`) || !strings.Contains(string(out), test.want) {
				t.Errorf("run ended with %v and\n%swant agent_unavailable and %s", err, out, test.want)
			}
			for folder, want := range map[string]int{"worker/inbox": 2, "worker/dead_letter": 0, "asker/inbox": 0} {
				found, err := filepath.Glob(filepath.Join(scene.workspace, "agents", folder, "*.yaml"))
				if err != nil || len(found) != want {
					t.Errorf("%s has %q (%v), want %d messages", folder, found, err, want)
				}
			}
		})
	}
}

// TestRunRetries checks that run says that a program asks the model's service again.
func TestRunRetries(t *testing.T) {
	t.Parallel()
	busy := modelstub.Reply{Failure: &modelstub.Failure{Status: 529, Type: "overloaded_error", Message: "Overloaded"}}
	scene := newProgramScene(t, "claude", modelstub.Answers(t, busy, busy, busy, modelstub.Reply{Text: "Port 8080."}))
	scene.env = append(scene.env, "CLAUDE_CODE_MAX_RETRIES=3")
	scene.ask("Which port?")
	out := scene.must("run", "--agent", "worker", "--once", "--driver", "claude", "--reply")
	var said []string
	for line := range strings.Lines(out) {
		if _, text, ok := strings.Cut(line, "claude tries again "); ok && strings.Contains(line, "  warning ") {
			said = append(said, strings.TrimSpace(text))
		}
	}
	if want := []string{"(1 failure in this turn)", "(2 failures in this turn)"}; !slices.Equal(said, want) {
		t.Errorf("run says %q of the retries, want %q; it printed\n%s", said, want, out)
	}
}
