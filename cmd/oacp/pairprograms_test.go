package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/pair"
)

// A pairScene is a repository with a test that fails, and the real claude and codex with a scripted
// model behind them.
type pairScene struct {
	t *testing.T
	// oacp is the program, home the user's home folder.
	oacp, home, repository string
	env                    []string
}

func newPairScene(t *testing.T, model func(file string, request modelstub.Request) modelstub.Reply) *pairScene {
	t.Helper()
	bin := filepath.Dir(modelstub.Program(t, "claude"))
	modelstub.Program(t, "codex")
	oacp, err := exec.LookPath("oacp")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	scene := &pairScene{t: t, oacp: oacp, home: home, repository: filepath.Join(t.TempDir(), "repository")}
	for name, text := range map[string]string{
		"go.mod":      "module example.com/sum\n\ngo 1.26\n",
		"sum.go":      "package sum\n\nfunc Sum(a, b int) int { return a - b }\n",
		"sum_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum(2, 2) != 4 {\n\t\tt.Fatal(\"want 4\")\n\t}\n}\n",
	} {
		if err := os.MkdirAll(scene.repository, 0o700); err != nil {
			t.Fatal(err)
		}
		path, old := filepath.Join(scene.repository, name), time.Now().Add(-time.Hour) // older than the run
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	mustRun(t, scene.repository, "git", "init", "--quiet")
	server := modelstub.Start(t, func(_ context.Context, request modelstub.Request) modelstub.Reply {
		return model(filepath.Join(scene.repository, "sum.go"), request)
	})
	goCache := strings.TrimSpace(mustRun(t, ".", "go", "env", "GOCACHE"))
	scene.env = append(append(append(os.Environ(), server.ClaudeEnv(home)...), server.CodexEnv(t, home)...), "GOCACHE="+goCache,
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return scene
}

// command is oacp with the arguments, in the repository.
func (s *pairScene) command(arguments ...string) *exec.Cmd {
	command := exec.Command(s.oacp, arguments...)
	command.Dir, command.Env = s.repository, s.env
	return command
}

// task is the task of the pair, as a user would write it.
func (s *pairScene) task(more ...string) []string {
	return append([]string{
		"pair", "--agent", "codex", "--review", "claude", "--allow", "all", "--max-iterations", "3",
		"--proof", "go test ./...", "Fix the failing test",
	}, more...)
}

// TestPairPrograms runs the command as a user would: codex repairs a failing test, and claude
// rejects the change once for its style and then passes it, with the tools of oacp mcp.
func TestPairPrograms(t *testing.T) {
	t.Parallel()
	scene := newPairScene(t, pairModel)
	out, err := scene.command(scene.task()...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"codex says DONE", "the proof has succeeded", "claude says FAIL", "claude says PASS", "run 1 is completed in iteration 2"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	for arguments, want := range map[string]string{
		"bridge --json": `"pass_count": 1`, "bridge drain --agent codex --json": "sent with a tool", "dashboard --once": "completed",
	} {
		if out, err := scene.command(strings.Fields(arguments)...).CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("oacp %s: %v, want %s in\n%s", arguments, err, want, out)
		}
	}
}

// TestPairBoth lets the real claude and codex review at the same time: each waits until the other
// has asked its model.
func TestPairBoth(t *testing.T) {
	t.Parallel()
	asked := map[string]chan bool{modelstub.Messages: make(chan bool, 100), modelstub.Responses: make(chan bool, 100)}
	other := map[string]string{modelstub.Messages: modelstub.Responses, modelstub.Responses: modelstub.Messages}
	scene := newPairScene(t, func(file string, request modelstub.Request) modelstub.Reply {
		switch {
		case !strings.Contains(request.Prompt, "and review how"):
			return pairModel(file, request)
		case strings.Contains(request.Prompt, "iteration 1 of"):
			asked[request.API] <- true
			<-asked[other[request.API]]
			return modelstub.Reply{Text: request.API + " wants: add a comment\nFAIL"}
		}
		return modelstub.Reply{Text: "Fine.\nPASS"}
	})
	out, err := scene.command("pair", "--allow", "all", "--proof", "go test ./...", "Fix the failing test").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"codex says FAIL\n    responses wants: add a comment\n", "claude says FAIL\n    messages wants: add a comment\n",
		"run 1 is completed in iteration 2\n", "    used     6 turns in ",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

// TestPairService runs claude alone, which may edit but not run commands. Its service is busy at
// first. It repairs the test and runs the proof, and no other command.
func TestPairService(t *testing.T) {
	t.Parallel()
	asked := 0
	scene := newPairScene(t, func(file string, request modelstub.Request) modelstub.Reply {
		call := func(name string, input map[string]any) modelstub.Reply {
			return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: name, Input: input}}}
		}
		switch asked++; asked {
		case 1, 2:
			return modelstub.Reply{Failure: &modelstub.Failure{Status: 529, Type: "overloaded_error", Message: "busy"}}
		case 3:
			return call("Read", map[string]any{"file_path": file})
		case 4:
			return call("Edit", map[string]any{"file_path": file, "old_string": "a - b", "new_string": "a + b"})
		case 5:
			return call("Bash", map[string]any{"command": "go test ./... && touch more", "description": "more than the proof"})
		case 6:
			if len(request.Results) != 1 || !strings.Contains(request.Results[0].Output, "nobody is there to allow this") {
				t.Errorf("more than the proof came to %+v, want a refusal", request.Results)
			}
			return call("Bash", map[string]any{"command": "go test ./...", "description": "the proof"})
		case 7:
			if len(request.Results) != 1 || !strings.Contains(request.Results[0].Output, "example.com/sum") {
				t.Errorf("the proof came to %+v, want the output of the test", request.Results)
			}
		}
		return modelstub.Reply{Text: "Mended.\nDONE"}
	})
	scene.env = append(scene.env, "CLAUDE_CODE_MAX_RETRIES=5")
	out, err := scene.command("pair", "--agent", "claude", "--review", "none", "--verbose", "--proof", "go test ./...", "Fix the failing test").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"claude: the model's service failed (overloaded, status 529); claude tries again\n", "claude tries again (2 times so far)\n",
		"    claude  > Read: ", "    claude  > Edit: ", "    claude  > Bash: go test ./... && touch more\n", "    claude  > Bash: go test ./...\n",
		"; refused Bash \"go test ./... && touch more\" (needs --allow all)\n", "the proof runs: go test ./...\n", "the proof has succeeded after ", "run 1 is completed in iteration 1\n",
		"    changed  sum.go (untracked)\n", "    used     1 turn in ", " tokens, <$0.01\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(scene.repository, "more")); err == nil {
		t.Error("claude has run more than the proof")
	}
}

// TestPairLoginRejected checks that a run whose login is rejected ends at once, and says how to log
// in and go on.
func TestPairLoginRejected(t *testing.T) {
	t.Parallel()
	asked := 0
	scene := newPairScene(t, func(string, modelstub.Request) modelstub.Reply {
		asked++
		return modelstub.Reply{Failure: &modelstub.Failure{Status: 401, Type: "authentication_error", Message: "invalid x-api-key"}}
	})
	scene.env = append(scene.env, "CLAUDE_CODE_MAX_RETRIES=10")
	out, err := scene.command("pair", "--agent", "claude", "--review", "none", "--proof", "go test ./...", "Fix the failing test").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || asked > 3 {
		t.Errorf("%v after %d requests, want exit status 1 after few\n%s", err, asked, out)
	}
	for _, want := range []string{
		"claude: the model's service failed with status 401", "run 1 has stopped in iteration 1 and can be continued\n",
		"hint: log in once with: claude /login (or set ANTHROPIC_API_KEY); then oacp pair --run-id 1 continues the run\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

// TestPairKilled kills the command at random entries, while claude and codex are at work, and
// resumes until the run is done. The run ends in the same state, and no record is there twice.
// PAIR_KILL_ROUNDS asks for more runs.
func TestPairKilled(t *testing.T) {
	t.Parallel()
	rounds := 1
	if text := os.Getenv("PAIR_KILL_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range uint64(rounds) {
		random := rand.New(rand.NewPCG(seed, 2))
		scene := newPairScene(t, pairModel)
		kills := 0
		for ; !scene.driveUntil(kills == 0, 2+random.IntN(40)); kills++ {
			if kills > 100 {
				t.Fatalf("seed %d: the run does not end", seed)
			}
		}
		if kills == 0 {
			t.Errorf("seed %d: the run was over before it was killed", seed)
		}
		scene.checkUndisturbed(fmt.Sprintf("seed %d, %d kills", seed, kills))
	}
}

// driveUntil starts or resumes the run, and kills it after the given number of entries. It reports
// whether the run was over before that.
func (s *pairScene) driveUntil(first bool, entries int) (done bool) {
	s.t.Helper()
	arguments := []string{"pair", "--run-id", "1", "--allow", "all", "--json", "--verbose"}
	if first {
		arguments = s.task("--json", "--verbose")
	}
	command := s.command(arguments...)
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for err == nil && entries > 0 {
		if _, err = lines.ReadSlice('\n'); errors.Is(err, bufio.ErrBufferFull) {
			err = nil // the rest of a long line
			continue
		}
		entries--
	}
	killed := err == nil
	if killed {
		err = command.Process.Kill()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, lines); err != nil {
		s.t.Fatal(err)
	}
	if err := command.Wait(); err != nil && !killed {
		s.t.Fatalf("%v\n%s", err, complaints.String())
	}
	return !killed
}

// checkUndisturbed compares a finished run with the result of a run that was not killed.
func (s *pairScene) checkUndisturbed(when string) {
	s.t.Helper()
	location, err := bridge.Selector{Root: filepath.Join(s.home, ".agentpair", "runs"), Repository: s.repository, RunID: 1}.Select()
	if err != nil {
		s.t.Fatal(err)
	}
	run := location.Run
	if m, err := pair.ReadManifest(run); err != nil || m.State != pair.Complete || m.CurrentIteration != 2 {
		s.t.Errorf("%s: %v, state %s in iteration %d, want completed in 2", when, err, m.State, m.CurrentIteration)
	}
	log, err := run.Open(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	var got []string
	for e, err := range log.Records(s.t.Context(), "") {
		if err != nil {
			s.t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %s %s>%s %s%s", e.Iteration, e.Type, e.From, e.To, strings.ReplaceAll(e.Content, "\n", "|"), e.Signal))
	}
	if err := log.Close(); err != nil {
		s.t.Error(err)
	}
	want := []string{
		"0 task user>codex Fix the failing test",
		"1 result codex>claude Mended.|DONE", "1 signal codex>claude DONE in iteration 1DONE",
		"1 review claude>codex It works, but add a comment.|FAIL", "1 signal claude>codex FAIL in iteration 1FAIL",
		"2 result codex>claude Mended.|DONE||(said 2 times)", "2 signal codex>claude DONE in iteration 2DONE",
		"0 signal claude>codex sent with a toolPASS", "2 review claude>codex I sent my verdict.",
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("%s: records\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	text, err := os.ReadFile(filepath.Join(s.repository, "sum.go"))
	if want := "package sum\n\n// Sum adds.\nfunc Sum(a, b int) int { return a + b }\n"; err != nil || string(text) != want {
		s.t.Errorf("%s: sum.go is %q, %v; want %q", when, text, err, want)
	}
}

// pairModel is the model behind both programs.
func pairModel(file string, request modelstub.Request) modelstub.Reply {
	reviewed := strings.Contains(request.Prompt, "add a comment")
	switch {
	case request.API == modelstub.Messages && len(request.Results) == 0:
		return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "Read", Input: map[string]any{"file_path": file}}}}
	case request.API == modelstub.Messages && strings.Contains(request.Results[0].Output, "// Sum"):
		return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "mcp__oacp__send_to_agent", Input: map[string]any{
			"to": "codex", "message_type": "signal", "signal": "PASS", "content": "sent with a tool",
		}}}}
	case request.API == modelstub.Messages && !strings.Contains(request.Results[0].Output, "package sum"):
		return modelstub.Reply{Text: "I sent my verdict."}
	case request.API == modelstub.Messages:
		return modelstub.Reply{Text: "It works, but add a comment.\nFAIL"}
	case len(request.Results) > 0:
		return modelstub.Reply{Text: "Mended.\nDONE"}
	}
	// Both edits change nothing the second time.
	edit := "sed 's/a - b/a + b/' sum.go > new && mv new sum.go"
	if reviewed {
		edit = "sed -e '/^\\/\\/ Sum/d' -e 's/^func/\\/\\/ Sum adds.\\n&/' sum.go > new && mv new sum.go"
	}
	return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "exec_command", Input: map[string]any{"cmd": edit}}}}
}

func mustRun(t *testing.T, dir string, words ...string) string {
	t.Helper()
	command := exec.Command(words[0], words[1:]...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}
