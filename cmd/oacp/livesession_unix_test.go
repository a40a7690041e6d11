//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// claudeAgent is the agent that claude acts for. No program has this name, so commands get it from the session.
const claudeAgent = "ada"

// A liveScene is a workspace with the agents ada and codex in the folder of a project, and the real claude
// with a scripted model behind it.
type liveScene struct {
	t testing.TB
	// oacp and claude are programs.
	oacp, claude string
	home, folder string
	// env is added to the environment of the test.
	env    []string
	w      *mailbox.Workspace
	server *modelstub.Server
}

// newLiveScene makes a scene. Its claude is not set up yet.
func newLiveScene(t testing.TB, script modelstub.Script) *liveScene {
	t.Helper()
	if testing.Short() {
		t.Skip("sessions in terminals take long")
	}
	s := &liveScene{t: t, oacp: filepath.Join(pacedFolder, "oacp"), claude: modelstub.Program(t, "claude"), home: t.TempDir(), folder: t.TempDir()}
	s.server = modelstub.Start(t, script)
	s.env = append(s.server.ClaudeTerminalEnv(t, s.home, s.folder), testPace+"=4s",
		"PATH="+pacedFolder+string(os.PathListSeparator)+os.Getenv("PATH"))
	s.run("init", "--dir", s.folder, "--agents", claudeAgent+",codex")
	var err error
	if s.w, err = mailbox.Open(s.folder, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.w.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// command is oacp with the arguments, in the project.
func (s *liveScene) command(arguments ...string) *exec.Cmd {
	command := exec.CommandContext(s.t.Context(), s.oacp, arguments...)
	command.Dir, command.Env = s.folder, append(os.Environ(), s.env...)
	return command
}

// run runs oacp and returns what it prints.
func (s *liveScene) run(arguments ...string) string {
	s.t.Helper()
	out, err := s.command(arguments...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("oacp %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

// ask sends questions from codex to claude's agent at once, one with each subject.
func (s *liveScene) ask(subjects ...string) []*mailbox.Receipt {
	s.t.Helper()
	var drafts []schema.Message
	for _, subject := range subjects {
		drafts = append(drafts, schema.Message{Type: schema.Question, Subject: subject, Body: schema.TextValue("Please say.")})
	}
	return s.send(drafts...)
}

// send sends messages from codex to claude's agent at once.
func (s *liveScene) send(drafts ...schema.Message) (receipts []*mailbox.Receipt) {
	s.t.Helper()
	for i := range drafts {
		drafts[i].From, drafts[i].To = "codex", []schema.AgentName{claudeAgent}
	}
	for _, result := range s.w.SendAll(s.t.Context(), drafts, nil) {
		if result.Err != nil {
			s.t.Fatal(result.Err)
		}
		receipts = append(receipts, result.Receipt)
	}
	return receipts
}

// open opens claude in a terminal.
func (s *liveScene) open(arguments ...string) *terminal.Terminal {
	s.t.Helper()
	term := terminal.Start(s.t, terminal.Options{Dir: s.folder, Env: s.env, Command: append([]string{s.claude}, arguments...)})
	term.Await("for shortcuts")
	return term
}

// awaitSessions waits until the sessions of claude are as wanted.
func (s *liveScene) awaitSessions(what string, done func([]live.Session) bool) {
	s.t.Helper()
	s.awaitFolder(what, filepath.Join(s.w.Dir(), "state", "live", claudeAgent), func() (bool, error) {
		sessions, err := live.Sessions(s.w, claudeAgent)
		return err == nil && done(sessions), err
	})
}

// awaitFolder waits until a condition holds. It looks when the folder has changed.
func (s *liveScene) awaitFolder(what, folder string, done func() (bool, error)) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	if err := watch.Await(ctx, []string{folder}, done); err != nil {
		s.t.Fatalf("waiting until %s: %v\n%s", what, err, s.report())
	}
}

// report describes the sessions and what the model was asked.
func (s *liveScene) report() string {
	var out strings.Builder
	for _, r := range s.server.Requests() {
		fmt.Fprintf(&out, "prompt %.60q, results %q\n", r.Prompt, r.Results)
	}
	files, _ := filepath.Glob(filepath.Join(s.w.Dir(), "state", "live", "*", "*.json"))
	for _, file := range append(files, filepath.Join(s.w.Dir(), "state", "live", "errors.log")) {
		data, _ := os.ReadFile(file)
		fmt.Fprintf(&out, "%s: %s\n", filepath.Base(file), data)
	}
	return out.String()
}

// awaitIdle waits until no turn of a session runs, and returns the sessions.
func (s *liveScene) awaitIdle() (idle []live.Session) {
	s.t.Helper()
	s.awaitSessions("claude is idle", func(sessions []live.Session) bool {
		idle = sessions
		return len(sessions) > 0 && !slices.ContainsFunc(sessions, func(l live.Session) bool { return l.Working })
	})
	return idle
}

// awaitShown waits until all of the messages were shown to a session.
func (s *liveScene) awaitShown(receipts ...*mailbox.Receipt) {
	s.t.Helper()
	s.awaitSessions("claude has them", func(sessions []live.Session) bool {
		for _, r := range receipts {
			if !slices.ContainsFunc(sessions, func(l live.Session) bool { return isShown(l, r) }) {
				return false
			}
		}
		return true
	})
}

func isShown(l live.Session, r *mailbox.Receipt) bool {
	return slices.ContainsFunc(l.Shown, func(t live.Shown) bool { return t.File == filepath.Base(r.Inboxes[0]) })
}

// awaitDecision waits until a hook has decided what to do about mail in the idle session.
func (s *liveScene) awaitDecision(deliver func()) {
	s.t.Helper()
	file := filepath.Join(s.w.Dir(), "state", "live", claudeAgent, s.awaitIdle()[0].ID+".json")
	before, err := os.Open(file) // the number of an open file is not given to another
	if err != nil {
		s.t.Fatal(err)
	}
	defer before.Close()
	info, err := before.Stat()
	if err != nil {
		s.t.Fatal(err)
	}
	deliver()
	s.awaitFolder("a hook has decided", filepath.Dir(file), func() (bool, error) {
		after, err := os.Stat(file)
		return err == nil && !os.SameFile(info, after), nil
	})
}

// awaitPrompt waits for the first request whose newest prompt ends with the text.
func (s *liveScene) awaitPrompt(text string) modelstub.Request {
	s.t.Helper()
	return s.server.Await(s.t, func(r modelstub.Request) bool { return strings.HasSuffix(r.Prompt, text) })
}

// awaitText waits for the first request that has the text anywhere.
func (s *liveScene) awaitText(text string) modelstub.Request {
	s.t.Helper()
	return s.server.Await(s.t, func(r modelstub.Request) bool { return strings.Contains(string(r.Body), text) })
}

// wantCount checks how often a request has each of the texts.
func wantCount(t testing.TB, r modelstub.Request, want int, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if got := strings.Count(string(r.Body), text); got != want {
			t.Errorf("the request with the prompt %q has %q %d times, want %d", r.Prompt, text, got, want)
		}
	}
}

// wantNoErrors checks that no hook of a session in the workspace has recorded an error.
func wantNoErrors(t testing.TB, w *mailbox.Workspace) {
	t.Helper()
	if data, err := os.ReadFile(filepath.Join(w.Dir(), "state", "live", "errors.log")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the hooks recorded errors (%v):\n%s", err, data)
	}
}
