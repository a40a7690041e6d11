//go:build unix

package notify

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/settings"
	"github.com/oacp-go/oacp/schema"
)

// workspaceVariable names the workspace for a process of this test that calls Once.
const workspaceVariable = "TEST_WORKSPACE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(workspaceVariable); dir != "" {
		w, err := mailbox.Open(dir, &mailbox.Options{Home: project.Place{}.HomeDir})
		if err != nil {
			panic(err)
		}
		Once(context.Background(), func(err error) { panic(err) }, w)
		return
	}
	mailboxtest.Main(m)
}

// A home is that of a person to whom mail comes.
type home struct {
	testing.TB
	w *mailbox.Workspace
	// log is what the commands write to.
	log    string
	mu     sync.Mutex
	warned []string
}

// newHome makes a workspace with the person anna, whose command appends the body and some variables to a file.
func newHome(t testing.TB, notify string) *home {
	t.Helper()
	h := &home{TB: t, w: mailboxtest.New(t, "claude"), log: filepath.Join(t.TempDir(), "log")}
	if _, err := project.AddAgent(h.w, "anna", project.AgentOptions{Runtime: "human", Now: mailboxtest.Time}); err != nil {
		t.Fatal(err)
	}
	if notify == "" {
		notify = fmt.Sprintf(`[sh, -c, 'echo "$(cat) $OACP_MESSAGE_SUBJECT $OACP_MESSAGE_FROM $OACP_AGENT" >> "$0"', %q]`, h.log)
	}
	check.WriteFile(t, h.config(), "notify: "+notify+"\n")
	allowSettings(t, h.w)
	return h
}

// allowSettings allows what the files of a workspace set, as its user would with oacp allow.
func allowSettings(t testing.TB, w *mailbox.Workspace) {
	t.Helper()
	waiting, _, _ := settings.Waiting(w)
	for _, f := range waiting {
		if err := settings.Allow(w, f, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
}

func (h *home) config() string { return filepath.Join(h.w.Dir(), project.ConfigPath("anna")) }

// send sends messages with these subjects to anna.
func (h *home) send(subjects ...string) {
	h.Helper()
	for _, subject := range subjects {
		m := mailboxtest.Draft("anna")
		m.Subject, m.Body = subject, schema.TextValue("Body of "+subject)
		mailboxtest.Send(h, h.w, m)
	}
}

func (h *home) warn(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warned = append(h.warned, err.Error())
}

// want checks the lines that commands have written, in any order, and how many warnings there were.
func (h *home) want(warnings int, lines ...string) {
	h.Helper()
	data, err := os.ReadFile(h.log)
	if err != nil && !os.IsNotExist(err) {
		h.Fatal(err)
	}
	got := strings.Fields(strings.ReplaceAll(string(data), " ", "_"))
	slices.Sort(got)
	slices.Sort(lines)
	if !slices.Equal(got, lines) {
		h.Errorf("the commands wrote %q, want %q", got, lines)
	}
	if len(h.warned) != warnings {
		h.Errorf("the warnings are %q, want %d", h.warned, warnings)
	}
}

func line(subject string) string { return "Body_of_" + subject + "_" + subject + "_claude_anna" }

// TestOnce checks that the command runs once for each message that comes after the setting, whatever the clock says.
func TestOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	h.send("old")
	future := time.Now().Add(time.Hour)
	if err := os.Chtimes(h.config(), future, future); err != nil {
		t.Fatal(err)
	}
	Once(t.Context(), h.warn, h.w)
	h.want(0)
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(h.config(), past, past); err != nil {
		t.Fatal(err)
	}
	check.Remove(t, filepath.Join(h.w.Dir(), "agents/anna/inbox"))
	if err := os.Mkdir(filepath.Join(h.w.Dir(), "agents/anna/inbox"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.send("one", "two")
	check.WriteFile(t, filepath.Join(h.w.Dir(), "agents/anna/inbox/202603131430_claude_question.yaml"), "id: msg-")
	for range 3 {
		Once(t.Context(), h.warn, h.w)
		h.want(0, line("one"), line("two"))
	}
	for _, name := range mailboxtest.Files(t, h.w, "agents/anna/inbox") {
		check.Remove(t, filepath.Join(h.w.Dir(), "agents/anna/inbox", name))
	}
	h.send("three")
	Once(t.Context(), h.warn, h.w)
	h.want(0, line("one"), line("two"), line("three"))
	if records := mailboxtest.Files(t, h.w, "state/notify/anna"); len(records) != 1 {
		t.Errorf("the records are %q, want that of the message in the inbox", records)
	}
}

// TestFails checks that a command that fails does not run again, that the next message has its turn, and what is said.
func TestFails(t *testing.T) {
	limit = time.Second
	defer func() { limit = 30 * time.Second }()
	for name, test := range map[string]struct{ notify, want string }{
		"exit":    {`[sh, -c, 'echo "no display" >&2; exit 3']`, "exit status 3: no display"},
		"missing": {`[no-such-program, now]`, `"no-such-program": executable file not found`},
		"hangs":   {`[sh, -c, 'trap "" TERM; read line; sleep 1000 & wait; wait']`, "the command took too long"},
		"floods":  {`[sh, -c, 'yes']`, "the command took too long"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t, test.notify)
			h.send("one", "two")
			for range 4 {
				Once(t.Context(), h.warn, h.w)
			}
			h.want(2)
			for _, warned := range h.warned {
				if !strings.HasPrefix(warned, "notify of anna: ") || !strings.Contains(warned, test.want) {
					t.Errorf("it warns %q, want %q", warned, test.want)
				}
			}
		})
	}
}

// TestProcesses lets several processes look at once: each command runs once.
func TestProcesses(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	var want []string
	for n := range 12 {
		subject := fmt.Sprint("message", n)
		h.send(subject)
		want = append(want, line(subject))
	}
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			process := exec.Command(os.Args[0])
			process.Env = append(os.Environ(), workspaceVariable+"="+h.w.Dir())
			if out, err := process.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	running.Wait()
	h.want(0, want...)
}

// TestStart checks that mail which arrives later runs the command, and that stop waits for nothing.
func TestStart(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := exec.Command("mkfifo", pipe).Run(); err != nil {
		t.Fatal(err)
	}
	h := newHome(t, fmt.Sprintf(`[sh, -c, 'cat > "$0"; exec sleep 1000', %q]`, pipe))
	stop := Start(t.Context(), h.warn, h.w)
	h.send("late")
	if got := check.ReadFile(t, pipe); got != "Body of late" {
		t.Errorf("the command got %q", got)
	}
	stop()
	h.want(0)
}

// TestCheck checks what doctor says about the setting.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ notify, want string }{
		"good":     {"[sh, -c, cat]", ""},
		"empty":    {"", ""},
		"missing":  {"[no-such-program]", "no-such-program"},
		"text":     {"notify-send", "notify is a list of words"},
		"no words": {"[]", "notify is a list of words"},
		"mapping":  {"{run: x}", "notify is a list of words"},
		"nested":   {"[sh, [x]]", "notify is a list of words"},
	} {
		h := newHome(t, " "+test.notify)
		err := Check(h.w, "anna")
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	h := newHome(t, "")
	check.WriteFile(t, filepath.Join(h.w.Dir(), project.ConfigPath("claude")), "notify: [sh]\n")
	if err := Check(h.w, "claude"); err != nil {
		t.Errorf("before oacp allow: %v", err)
	}
	allowSettings(t, h.w)
	if err := Check(h.w, "claude"); err == nil || !strings.Contains(err.Error(), "claude is no person") {
		t.Errorf("for a program: %v", err)
	}
}

// TestBriefly checks that a command that takes its time holds nobody, and that the people are told at the same time.
func TestBriefly(t *testing.T) {
	t.Parallel()
	h := newHome(t, `[sleep, "1000"]`)
	h.send("one", "two")
	began := time.Now()
	Briefly(t.Context(), h.warn, h.w)
	if took := time.Since(began); took > limit {
		t.Errorf("it took %v, as long as a command may take", took)
	}
	h.want(1)
	if !strings.Contains(strings.Join(h.warned, ""), "it did not end within 3s, and oacp ends now") {
		t.Errorf("it warns %q", h.warned)
	}
}
