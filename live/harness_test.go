package live

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/internal/testing/memoryfolder"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

func TestMain(m *testing.M) {
	// Otherwise the race detector delays the exit of every process by a second.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	if os.Getenv(childRole) != "" {
		os.Exit(runChild())
	}
	if err := memoryfolder.Use(); err != nil {
		panic(err)
	}
	check.Overlap()
	os.Exit(m.Run())
}

// hooks calls the hooks of sessions of a program that act for the agent of the same name.
type hooks struct {
	testing.TB
	*Hook
	// now is the time of the hooks, and that at which files arrive.
	now time.Time
	// programs are the processes that sessions are in. The others are in this one.
	programs map[string]*exec.Cmd
}

// newHooks makes a workspace with claude and codex.
func newHooks(t testing.TB, program Program) *hooks {
	t.Helper()
	return hooksIn(t, mailboxtest.New(t, "claude", "codex").Dir(), program)
}

// hooksIn uses the workspace in a folder.
func hooksIn(t testing.TB, dir string, program Program) *hooks {
	t.Helper()
	w := mailboxtest.Open(t, dir)
	h := &hooks{TB: t, now: now, programs: make(map[string]*exec.Cmd)}
	h.Hook = &Hook{
		Workspace: w, Agent: schema.AgentName(program), Program: program,
		Getenv: func(string) string { return strconv.Itoa(os.Getpid()) },
	}
	h.Now = func() time.Time { return h.now }
	if began := time.Now(); began.Year() == 2000 { // in a bubble of synctest, hooks that wait let time pass
		h.Now = func() time.Time { return h.now.Add(time.Since(began)) }
	}
	h.age(time.Hour)
	return h
}

// handle passes an event to the hook and returns the answer.
func (h *hooks) handle(e Event) (a Answer, err error) {
	ctx, cancel := context.WithTimeout(h.Context(), WakeLimit)
	defer cancel()
	hook := *h.Hook
	if program := h.programs[e.Session]; program != nil {
		hook.caller = func() process.Info { return process.Read(program.Process.Pid) }
	}
	err = hook.Handle(ctx, e, func(answer Answer) error {
		a = answer
		return nil
	})
	return a, err
}

// on returns what the answer to an event of a session shows the model. The hook must not fail.
func (h *hooks) on(session, event string) string {
	h.Helper()
	e := Event{Name: event, Session: session}
	switch event {
	case SessionStart:
		e.Source = "startup"
	case FileChanged:
		e.Path, e.Change = "new.yaml", "add"
	}
	a, err := h.handle(e)
	if err != nil {
		h.Fatalf("%s: %v", event, err)
	}
	return shown(h, event, a)
}

// shown returns what an answer to an event shows the model. The answer must be one that programs accept.
func shown(t testing.TB, event string, a Answer) string {
	t.Helper()
	if (a.Exit == wakeStatus) != (len(a.Stderr) > 0) || a.Exit != 0 && (event != FileChanged || len(a.Stdout) > 0) {
		t.Fatalf("the answer to %s is %+v", event, a)
	}
	if len(a.Stdout) == 0 {
		return string(a.Stderr)
	}
	var out hookOutput
	d := json.NewDecoder(bytes.NewReader(a.Stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil || d.More() {
		t.Fatalf("the answer to %s is %s (%v)", event, a.Stdout, err)
	}
	switch {
	case out.Specific != nil && out.Specific.Event == event && out.Decision == "":
		return out.Specific.Context
	case out.Specific == nil && out.Decision == "" && out.Shown != "":
		return "" // that is for the person
	case out.Specific == nil && event == Stop && out.Decision == "block" && out.Reason != "":
		return out.Reason
	}
	t.Fatalf("the answer to %s is %s", event, a.Stdout)
	return ""
}

func (h *hooks) inbox(name string) string {
	return filepath.Join(h.Workspace.BoxPath(h.Agent, mailbox.Inbox), name)
}

// arrive puts a message into the inbox. The name of the file is the last part of its id.
func (h *hooks) arrive(messages ...*schema.Message) {
	h.Helper()
	for _, m := range messages {
		data, err := schema.Encode(m)
		if err != nil {
			h.Fatal(err)
		}
		h.write(m.ID.Short()+".yaml", string(data))
	}
}

// arriveNow puts messages into the inbox in a bubble of synctest, where time passes.
func (h *hooks) arriveNow(messages ...*schema.Message) {
	h.Helper()
	h.arrive(messages...)
	if err := os.Chtimes(h.inbox(""), h.Now(), h.Now()); err != nil {
		h.Fatal(err)
	}
}

// write puts a file into the inbox, as one that nobody sees in part.
func (h *hooks) write(name, data string) {
	h.Helper()
	hidden := h.inbox(".tmp")
	err := errors.Join(os.WriteFile(hidden, []byte(data), 0o644), os.Chtimes(hidden, h.now, h.now), os.Rename(hidden, h.inbox(name)))
	if err != nil {
		h.Fatal(err)
	}
	h.age(0)
}

// leave removes messages from the inbox, as an acknowledgement does.
func (h *hooks) leave(names ...string) {
	h.Helper()
	for _, name := range names {
		if err := os.Remove(h.inbox(name + ".yaml")); err != nil {
			h.Fatal(err)
		}
	}
	h.age(0)
}

// age makes the last change of the inbox that old. Times of files are coarse, so several changes may have
// one time.
func (h *hooks) age(d time.Duration) {
	h.Helper()
	at := h.now.Add(-d).Truncate(time.Second)
	if err := os.Chtimes(h.inbox(""), at, at); err != nil {
		h.Fatal(err)
	}
}

// noticed returns the short ids of the messages that the journal says a session has noticed, sorted.
func (h *hooks) noticed(session string) (short []string) {
	h.Helper()
	file, err := os.Open(filepath.Join(h.Workspace.Dir(), "state/turns", string(h.Agent)+".jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		h.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var fact struct {
			Fact, Session string
			ID            schema.ID
		}
		if err := json.Unmarshal(lines.Bytes(), &fact); err != nil {
			h.Fatalf("the journal has the line %s (%v)", lines.Text(), err)
		}
		if fact.Fact == "noticed" && fact.Session == session && !slices.Contains(short, fact.ID.Short()) {
			short = append(short, fact.ID.Short())
		}
	}
	slices.Sort(short)
	return short
}

// named returns the short ids of the messages that a text names, in its order. Files that are no messages
// have their names.
func named(text string) (names []string) {
	text, _, _ = strings.Cut("\n"+text, "\nYou owe ")
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "- "); ok {
			name, _, _ = strings.Cut(name, " ")
			names = append(names, strings.TrimSuffix(name, ":"))
		}
	}
	return names
}

// wantNamed checks which messages a text names.
func (h *hooks) wantNamed(text string, want ...string) {
	h.Helper()
	if got := named(text); !slices.Equal(got, want) {
		h.Errorf("%q were shown, want %q:\n%s", got, want, text)
	}
}

// wantNoticed checks which messages a session has noticed; want is sorted.
func (h *hooks) wantNoticed(session string, want ...string) {
	h.Helper()
	if got := h.noticed(session); !slices.Equal(got, want) {
		h.Errorf("session %s noticed %q, want %q", session, got, want)
	}
}

// state returns the state of a session.
func (h *hooks) state(session string) Session {
	h.Helper()
	s, err := findSession(h.Workspace, h.Agent, session)
	if err != nil {
		h.Fatal(err)
	}
	return s
}

// statePath returns the path of a file beside the states of the sessions.
func (h *hooks) statePath(name string) string {
	return filepath.Join(h.Workspace.Dir(), filepath.FromSlash(project.SessionsName(h.Agent)), name)
}

// ask returns a question that is asked of the agent.
func (h *hooks) ask(rand string) *schema.Message {
	m := message(rand, schema.P2, schema.Question, now.Sub(h.now)+time.Minute, "Question "+rand, "Body "+rand+".\n")
	if m.To = []schema.AgentName{h.Agent}; h.Agent == m.From {
		m.From = "claude"
	}
	return m
}

// tell returns a notification that does not wake a session.
func (h *hooks) tell(rand string) *schema.Message {
	m := h.ask(rand)
	m.Type = schema.Notification
	return m
}

// findSession returns the state of a session. The error matches fs.ErrNotExist if there is none.
func findSession(w *mailbox.Workspace, agent schema.AgentName, id string) (Session, error) {
	dir, err := openFolder(w, agent)
	if err != nil {
		return Session{}, err
	}
	defer dir.Close() // nothing is written
	return readSession(dir, id)
}
