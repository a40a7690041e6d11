package turn

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// escaping is an agent that starts a worker in a session of its own. The second attempt reports
// whether the worker still runs.
const escaping = `
cat >/dev/null
worker="$OACP_WORKSPACE/worker"
case "$OACP_ATTEMPT" in
1)
	setsid sh -c 'echo $$ >"$0"; echo begun; exec sleep 1000' "$worker" &
	wait
	;;
*)
	if grep -q sleep "/proc/$(cat "$worker")/cmdline"; then echo beside; else echo alone; fi
	;;
esac
`

// TestOrphansEndBeforeTheNextTurn kills a Runner whose agent started a process that outlives both.
// The process must end before the message gets another turn.
func TestOrphansEndBeforeTheNextTurn(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("q"))
	script := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(script, []byte(escaping), 0o644); err != nil {
		t.Fatal(err)
	}
	if runAndKill(t, w, roleWait, script, 2) { // the turn has begun, and so has the worker
		t.Fatal("the runner ended by itself, want it killed")
	}
	rec, err := runOnce(t, w, Config{Reply: true, NewDriver: func(schema.ConversationID, string) agent.Driver {
		return agent.NewExec(agent.Options{Command: []string{"sh", script}})
	}})
	if err != nil {
		t.Fatal(err)
	}
	if warnings := rec.of(EventWarning); len(warnings) != 1 || !strings.Contains(warnings[0], "still running") {
		t.Errorf("warnings %q, want one about the processes that still ran", warnings)
	}
	answers := entries(t, w, "claude", mailbox.Inbox)
	if len(answers) != 1 || strings.TrimSpace(answers[0].Message.Body.Text) != "alone" {
		t.Errorf("the second turn answered %v, want that it was alone", answers)
	}
}

// TestLeftProcessesEndAfterAFailedTurn lets a turn fail that started a process in a session of its own: it ends before the next.
func TestLeftProcessesEndAfterAFailedTurn(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("q"))
	script := filepath.Join(t.TempDir(), "agent")
	failing := strings.Replace(escaping, "\twait\n", "\twhile ! test -s \"$worker\"; do :; done; exit 1\n", 1)
	if err := os.WriteFile(script, []byte(failing), 0o644); err != nil {
		t.Fatal(err)
	}
	rec, err := runOnce(t, w, Config{Reply: true, NewDriver: func(schema.ConversationID, string) agent.Driver {
		return agent.NewExec(agent.Options{Command: []string{"sh", script}})
	}})
	if warning := rec.last(EventWarning).Reason; err != nil || !strings.Contains(warning, "the turn left these processes running, which were killed: sleep (") {
		t.Errorf("Run = %v with the warning %q", err, warning)
	}
	if answers := entries(t, w, "claude", mailbox.Inbox); len(answers) != 1 || strings.TrimSpace(answers[0].Message.BodyText()) != "alone" {
		t.Errorf("the second turn answered %v, want that it was alone", answers)
	}
}

// TestServersOutliveTheirTurns checks that a process that a finished turn left running, in a
// session of its own, survives when the Runner is killed in a later turn.
func TestServersOutliveTheirTurns(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	file := filepath.Join(w.Dir(), "server")
	serve := "cat >/dev/null; setsid sh -c 'echo $$ >\"$0\"; exec sleep 1000' " + file + " >/dev/null 2>&1 </dev/null & until test -s " + file + "; do sleep 0.01; done"
	send(t, w, question("serve"))
	if _, err := runOnce(t, w, Config{NewDriver: func(schema.ConversationID, string) agent.Driver {
		return agent.NewExec(agent.Options{Command: []string{"sh", "-c", serve}})
	}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	id, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(id, syscall.SIGKILL) }) // if it still runs

	send(t, w, question("q"))
	script := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(script, []byte(escaping), 0o644); err != nil {
		t.Fatal(err)
	}
	if runAndKill(t, w, roleWait, script, 2) {
		t.Fatal("the runner ended by itself, want it killed")
	}
	if _, err := runOnce(t, w, Config{NewDriver: func(schema.ConversationID, string) agent.Driver {
		return agent.NewExec(agent.Options{Command: []string{"sh", script}})
	}}); err != nil {
		t.Fatal(err)
	}
	if line, err := os.ReadFile("/proc/" + strconv.Itoa(id) + "/cmdline"); err != nil || !strings.Contains(string(line), "sleep") {
		t.Errorf("the server is %q, %v; want it running", line, err)
	}
}

// TestMarksOfOthers checks that a Runner does not end the turn of another agent whose marks somebody copied into its journal
// and its lock.
func TestMarksOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	mark := track.OwnerOf(w, "claude").NewMark()
	other := exec.Command("sleep", "1000")
	other.Env = append(os.Environ(), orphans.Environ(orphans.WithMark(t.Context(), mark))...)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	for name, text := range map[string]string{
		"state/turns/codex.jsonl": `{"at":"2026-03-13T14:31:00Z","fact":"started","id":"msg-20260313T1431Z-claude-zzz1","fingerprint":"0","from":"claude","marks":["` + string(mark) + `"]}` + "\n",
		"state/run/codex.json":    `{"pid":1,"host":"h","since":"2026-03-13T14:31:00Z","mark":"` + string(mark) + `"}` + "\n",
		"state/run/codex.lock":    "",
	} {
		path := filepath.Join(w.Dir(), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := runOnce(t, w, Config{}); err != nil {
		t.Fatal(err)
	}
	if line, err := os.ReadFile("/proc/" + strconv.Itoa(other.Process.Pid) + "/cmdline"); err != nil || len(line) == 0 { // empty once it has ended
		t.Errorf("the process of claude is %q, %v; want it running", line, err)
	}
}
