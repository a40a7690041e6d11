package turn

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
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
