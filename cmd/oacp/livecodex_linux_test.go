package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/internal/testing/terminal"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

// A codexScene is the real codex with hooks and a scripted model.
type codexScene struct {
	t *testing.T
	// codex and oacp are programs. home has the settings of codex.
	codex, oacp, home string
	server            *modelstub.Server
	env               []string
	// options are those of codex.
	options []string
}

// newCodexScene makes a scene. Codex trusts the folders.
func newCodexScene(t *testing.T, script modelstub.Script, folders ...string) *codexScene {
	t.Helper()
	oacp, err := exec.LookPath("oacp")
	if err != nil {
		t.Fatal(err)
	}
	s := &codexScene{t: t, codex: modelstub.Program(t, "codex"), oacp: oacp, home: t.TempDir(), server: modelstub.Start(t, script)}
	outlive(t, s.home)
	s.env = s.server.CodexTerminalEnv(t, s.home, folders...)
	var groups []string
	for _, event := range []string{"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"} {
		groups = append(groups, fmt.Sprintf(`%q: [{"hooks": [{"type": "command", "command": %q}]}]`, event, oacp+" hook codex"))
	}
	hooks := filepath.Join(s.home, ".codex", "hooks.json")
	if err := os.WriteFile(hooks, []byte(`{"hooks": {`+strings.Join(groups, ", ")+`}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	modelstub.TrustCodexHooks(t, s.home, hooks)
	return s
}

// A codexSession is a session of a scene, in a folder with a workspace.
type codexSession struct {
	*codexScene
	folder   string
	w        *mailbox.Workspace
	terminal *terminal.Terminal
	// id is that of the session. It has one from its first prompt on.
	id string
}

// in makes a workspace in a folder. Its session is not open yet.
func (s *codexScene) in(folder string) *codexSession {
	s.t.Helper()
	mustRun(s.t, folder, s.oacp, "init", "--dir", folder, "--agents", "claude,codex")
	w, err := mailbox.Open(folder, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := w.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return &codexSession{codexScene: s, folder: folder, w: w}
}

// open opens codex in a terminal.
func (s *codexSession) open() {
	s.t.Helper()
	s.terminal = terminal.Start(s.t, terminal.Options{Dir: s.folder, Env: s.env, Command: append([]string{s.codex}, s.options...)})
	s.terminal.Await("stub-model default")
}

func startCodexSession(t *testing.T, script modelstub.Script) *codexSession {
	t.Helper()
	folder := t.TempDir()
	s := newCodexScene(t, script, folder).in(folder)
	s.open()
	return s
}

// await waits until the sessions of codex are as wanted.
func (s *codexSession) await(what string, done func([]live.Session) bool) {
	s.t.Helper()
	if err := awaitSessions(s.t, s.w, "codex", done); err != nil {
		s.t.Fatalf("waiting until %s: %v\n%s", what, err, s.terminal.Screen())
	}
}

// awaitSessions waits until the sessions of an agent are as wanted, for at most three minutes.
func awaitSessions(t *testing.T, w *mailbox.Workspace, agent schema.AgentName, done func([]live.Session) bool) error {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	folder := filepath.Join(w.Dir(), "state", "live", string(agent))
	return watch.Await(ctx, []string{folder}, func() (bool, error) {
		sessions, err := live.Sessions(w, agent)
		return err == nil && done(sessions), err
	})
}

// isIdle reports whether no turn of the only session runs.
func isIdle(sessions []live.Session) bool {
	return len(sessions) == 1 && sessions[0].Greeted && !sessions[0].Working
}

// awaitIdle waits until the session has ended as many turns as the model was asked for.
func (s *codexSession) awaitIdle() {
	s.t.Helper()
	s.await("codex is idle", func(sessions []live.Session) bool {
		if !isIdle(sessions) {
			return false
		}
		s.id = sessions[0].ID
		return true
	})
}

// awaitPrompt waits for a request with the prompt as the newest one.
func (s *codexSession) awaitPrompt(prompt string) modelstub.Request {
	s.t.Helper()
	return s.server.Await(s.t, func(r modelstub.Request) bool { return r.Prompt == prompt })
}

// send sends messages from claude to codex at once.
func (s *codexSession) send(kind schema.Type, subjects ...string) {
	s.t.Helper()
	var drafts []schema.Message
	for _, subject := range subjects {
		drafts = append(drafts, schema.Message{From: "claude", To: []schema.AgentName{"codex"}, Type: kind, Subject: subject, Body: schema.TextValue("The body of " + subject + ".")})
	}
	for _, result := range s.w.SendAll(s.t.Context(), drafts, nil) {
		if result.Err != nil {
			s.t.Fatal(result.Err)
		}
	}
}

// followerOf returns the number of the process that follows a session of codex.
func followerOf(t *testing.T, w *mailbox.Workspace, id string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.Dir(), "state", "live", "codex", id+".follower"))
	found := regexp.MustCompile(`"pid":(\d+)`).FindSubmatch(data)
	if err != nil || found == nil {
		t.Fatalf("the process that follows the session: %q, %v", data, err)
	}
	pid, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// outlive lets the test end only after all processes with the home folder have ended. The one that follows a session
// writes into the workspace when the session was killed.
func outlive(t *testing.T, home string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var running []string
		err := watch.Await(ctx, nil, func() (bool, error) {
			running = nil
			files, err := filepath.Glob("/proc/[0-9]*/environ")
			for _, file := range files {
				environment, _ := os.ReadFile(file) // the process may have ended
				if strings.Contains(string(environment), "HOME="+home+"\x00") {
					running = append(running, filepath.Dir(file))
				}
			}
			return len(running) == 0, err
		})
		for _, process := range running {
			arguments, _ := os.ReadFile(filepath.Join(process, "cmdline"))
			t.Errorf("waiting for the end of %s, which is %q: %v", process, arguments, err)
		}
	})
}

// isRunning reports whether a process has not ended.
func isRunning(t *testing.T, pid int) bool {
	t.Helper()
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return len(arguments) > 0 // nobody may wait for it
}

// hasContext reports whether what the program or its hooks added has the text.
func hasContext(r modelstub.Request, text string) bool {
	return slices.ContainsFunc(r.Context, func(context string) bool { return strings.Contains(context, text) })
}

// TestCodexIsRung checks with the real codex that mail wakes an idle session once, however many messages
// there are, that a notification does not, that mail in a turn comes in that turn, that a session that was
// cleared is not rung, and that nothing happens when codex was killed.
func TestCodexIsRung(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := startCodexSession(t, func(_ context.Context, r modelstub.Request) modelstub.Reply {
		if r.Prompt == "please take long" && !strings.Contains(string(r.Body), "hook_prompt") {
			return modelstub.Reply{Text: "It takes long.", Hold: release}
		}
		return modelstub.Reply{Text: "Well."}
	})
	s.terminal.Say("good morning")
	s.awaitPrompt("good morning")
	s.awaitIdle()
	cleared := s.id
	s.terminal.Await("Worked for")
	s.terminal.Say("/clear")
	s.terminal.Say("good morning again")
	s.awaitPrompt("good morning again")
	s.awaitIdle()
	if s.id == cleared {
		t.Error("the session is the same after /clear")
	}

	began := time.Now()
	s.send(schema.Question, "Which port")
	woken := s.awaitPrompt("oacp: 1 message waits for codex")
	t.Logf("a message reached the model after %v", time.Since(began).Round(10*time.Millisecond))
	if !hasContext(woken, "The body of Which port.") || len(woken.Prompts) != 2 {
		t.Errorf("want the digest in the session that is open, got the context %q after the prompts %q", woken.Context, woken.Prompts)
	}
	s.awaitIdle()

	s.send(schema.Notification, "For your information")
	s.terminal.Say("how is it")
	if r := s.awaitPrompt("how is it"); !hasContext(r, "For your information") {
		t.Errorf("the notification is not in the request: %q", r.Context)
	}
	s.awaitIdle()

	var subjects []string
	for i := range 10 {
		subjects = append(subjects, fmt.Sprintf("Matter %d", i))
	}
	s.send(schema.Question, subjects...)
	r := s.server.Await(t, func(r modelstub.Request) bool { return hasContext(r, "Matter 9") })
	for _, subject := range subjects {
		if !hasContext(r, subject) {
			t.Errorf("the digest does not name %s: %q", subject, r.Context)
		}
	}
	s.awaitIdle()

	s.terminal.Say("please take long")
	s.awaitPrompt("please take long")
	s.send(schema.Question, "In between")
	close(release)
	s.server.Await(t, func(r modelstub.Request) bool { return strings.Contains(string(r.Body), "The body of In between.") })
	s.awaitIdle()

	follower := followerOf(t, s.w, s.id)
	s.terminal.Kill()
	s.send(schema.Question, "Too late")
	s.await("the session is forgotten", func(sessions []live.Session) bool {
		_, err := os.Stat(filepath.Join(s.w.Dir(), "state", "live", "codex", s.id+".json"))
		return errors.Is(err, fs.ErrNotExist) && !isRunning(t, follower)
	})
	var prompts []string
	requests := s.server.Requests()
	wantCount(t, requests[len(requests)-1], 1, "You owe 1 answer (oacp reply ID --ack --body TEXT; if it goes on: oacp working ID TEXT)", "You owe 10 answers")
	for _, r := range requests {
		prompts = append(prompts, regexp.MustCompile(`^oacp: \d+ messages? waits? for codex$`).ReplaceAllString(r.Prompt, "(a ring)"))
	}
	// A reminder that an answer is owed follows the rings.
	want := []string{"good morning", "good morning again", "(a ring)", "(a ring)", "how is it", "(a ring)", "(a ring)", "please take long", "please take long"}
	if !slices.Equal(prompts, want) {
		t.Errorf("the prompts are %q, want %q", prompts, want)
	}
	wantNoErrors(t, s.w)
}

// TestCodexExec checks with the real codex that sessions without a terminal get no mail and are not live.
func TestCodexExec(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := newCodexScene(t, func(_ context.Context, r modelstub.Request) modelstub.Reply {
		if strings.Contains(r.Prompt, "please run") && len(r.Results) == 0 {
			return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "exec_command", Input: map[string]any{"cmd": "echo it runs"}}}}
		}
		return modelstub.Reply{Text: "Well."}
	}, folder).in(folder)
	mustRun(t, folder, "git", "init", "--quiet")
	s.send(schema.Question, "Which port")
	const hooksRan = "hook: UserPromptSubmit Completed" // which codex review does not say
	for line, want := range map[string]string{"exec": hooksRan, "-c model_reasoning_effort=low e": hooksRan, "review": "it runs"} {
		codex := exec.CommandContext(t.Context(), s.codex, append(strings.Fields(line), "please run it")...)
		codex.Dir, codex.Env = folder, append(os.Environ(), s.env...)
		if out, err := codex.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("codex %s: %v\n%s", line, err, out)
		}
	}
	for _, r := range s.server.Requests() {
		if strings.Contains(string(r.Body), "Which port") {
			t.Errorf("the request %q has the mail", r.Prompt)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "state", "live")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the hooks noted something: %v", err)
	}
}

// TestCodexSandbox checks with the real codex that commands of oacp that the model calls write into a workspace in
// the folder of the session or below it. Into one above, the sandbox lets them only look.
func TestCodexSandbox(t *testing.T) {
	t.Parallel()
	top, err := os.MkdirTemp("/tmp", "oacp") // commands of codex see no folder in /dev
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(top); err != nil {
			t.Error(err)
		}
	})
	oacp, folder := filepath.Join(top, "oacp"), filepath.Join(top, "project")
	below := filepath.Join(folder, "below")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`- (\w+) question P2 from claude, \d+[sm]: `)
	s := newCodexScene(t, func(_ context.Context, r modelstub.Request) modelstub.Reply {
		found := line.FindStringSubmatch(strings.Join(r.Context, "\n"))
		if found == nil || len(r.Results) > 0 {
			return modelstub.Reply{Text: "Well."}
		}
		command := fmt.Sprintf("%[1]s status %[2]s && %[1]s reply %[2]s --ack --body Merged.", oacp, found[1])
		return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "exec_command", Input: map[string]any{"cmd": command}}}}
	}, top, folder, below).in(folder)
	program, err := os.ReadFile(s.oacp)
	if err == nil {
		err = os.WriteFile(oacp, program, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.options = []string{"-c", "sandbox_workspace_write.exclude_slash_tmp=true", "-c", "sandbox_workspace_write.exclude_tmpdir_env_var=true"}
	s.env = append(s.env, "OACP_WORKSPACE="+folder)
	for _, test := range []struct{ folder, want string }{{top, "\nsent "}, {folder, "\nsent "}, {below, "read-only file system"}} {
		s.send(schema.Question, "In "+test.folder)
		s.folder = test.folder
		s.open()
		s.terminal.Say("good morning")
		r := s.server.Await(t, func(r modelstub.Request) bool { return len(r.Results) > 0 && hasContext(r, "In "+test.folder+"\n") })
		if output := r.Results[0].Output; !strings.Contains(output, "codex: waiting") || !strings.Contains(output, test.want) {
			t.Errorf("in %s, the commands print %q, want %q", test.folder, output, test.want)
		}
		s.awaitIdle()
		s.terminal.Say("/quit")
		s.terminal.Wait()
	}
	answers, err := s.w.Inbox(t.Context(), "claude")
	if err != nil || len(answers) != 2 {
		t.Errorf("claude has %+v, %v; want two answers", answers, err)
	}
}
