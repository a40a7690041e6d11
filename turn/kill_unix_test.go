//go:build unix

package turn

import (
	"bufio"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

var killMessages = flag.Int("kill-messages", 150, "messages to handle while their runner is killed")

// moody is an agent that behaves as the subject of the message says. It records a success before it
// exits.
const moody = `
log="$OACP_WORKSPACE/successes"
case "$OACP_MESSAGE_SUBJECT:$OACP_ATTEMPT" in
"fails once:1" | "fails:"*) echo broken >&2; exit 3 ;;
"dies once:1" | "dies:"*) kill -9 $$ ;;
"hangs once:1") exec sleep 5 ;;
"hangs:"*) trap '' TERM; sleep 5 & wait; wait ;;
esac
cat >/dev/null
echo "$OACP_MESSAGE_ID" >>"$log"
echo done
`

// moods are the behaviors that messages ask for, and how often.
var moods = []struct {
	subject string
	weight  int
}{
	{"goes well", 60}, {"fails once", 10}, {"fails", 6}, {"dies once", 10}, {"dies", 6}, {"hangs once", 5}, {"hangs", 3},
}

func anyMood(random *rand.Rand) string {
	n := random.IntN(100)
	for _, mood := range moods {
		if n -= mood.weight; n < 0 {
			return mood.subject
		}
	}
	panic("the weights make a hundred")
}

// TestKilledAgainAndAgain kills a Runner at random moments while it handles an inbox with an agent
// that fails, hangs and dies.
func TestKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	messages := *killMessages
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	w := newWorkspace(t)
	drafts := make([]schema.Message, messages)
	for i := range drafts {
		drafts[i] = question(anyMood(random))
	}
	sent := send(t, w, drafts...)
	script := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(script, []byte(moody), 0o644); err != nil {
		t.Fatal(err)
	}
	kills := 0
	for ended := false; !ended; kills++ {
		// The last run is not killed.
		events := 1 + random.IntN(60)
		if kills > messages/20 {
			events = -1
		}
		ended = runAndKill(t, w, roleRun, script, events)
	}
	t.Logf("killed %d times", kills-1)
	checkKilled(t, w, sent)
}

// runAndKill runs the Runner in a role, kills it after the given number of events, and reports
// whether it ended by itself before that.
func runAndKill(t *testing.T, w *mailbox.Workspace, role, script string, events int) bool {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(executable)
	child.Env = append(os.Environ(), childRole+"="+role, childDir+"="+w.Dir(), childAgent+"="+script)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if events--; events == 0 {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = child.Wait()
	if err != nil && child.ProcessState.ExitCode() != -1 {
		t.Fatalf("the runner failed: %v", err)
	}
	return err == nil
}

// killedFacts counts what the journal says about a message.
type killedFacts struct {
	started, interrupted, succeeded, dead int
}

func checkKilled(t *testing.T, w *mailbox.Workspace, sent []*schema.Message) {
	t.Helper()
	wantTexts(t, "inbox", subjects(t, w, "codex", mailbox.Inbox))
	facts := readKilledFacts(t, w)
	succeededFor := make(map[schema.ID]int)
	data, err := os.ReadFile(filepath.Join(w.Dir(), "successes"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		succeededFor[schema.ID(strings.TrimSpace(line))]++
	}
	letters := make(map[schema.ID]int)
	for _, e := range entries(t, w, "codex", mailbox.DeadLetters) {
		letters[e.Message.ID]++
	}
	answers, bounces := make(map[schema.ID]int), make(map[schema.ID]int)
	for _, e := range entries(t, w, "claude", mailbox.Inbox) {
		if e.Message.Channel == schema.ChannelBounce {
			bounces[e.Message.ParentID]++
		} else {
			answers[e.Message.ParentID]++
		}
	}
	for _, m := range sent {
		f := facts[m.ID]
		if letters[m.ID]+f.succeeded != 1 || f.succeeded+f.dead != 1 {
			t.Errorf("%s (%s): %d dead letters, %+v, want a success or a dead letter", m.ID, m.Subject, letters[m.ID], f)
		}
		if answers[m.ID] != f.succeeded || bounces[m.ID] != f.dead {
			t.Errorf("%s (%s): %d answers and %d bounces, %+v, want one of them", m.ID, m.Subject, answers[m.ID], bounces[m.ID], f)
		}
		if f.succeeded > 0 && succeededFor[m.ID] == 0 {
			t.Errorf("%s (%s) is acknowledged without a successful turn", m.ID, m.Subject)
		}
		if attempts := f.started - f.interrupted; attempts < 1 || attempts > DefaultMaxAttempts {
			t.Errorf("%s (%s) had %d turns, want 1 to %d", m.ID, m.Subject, attempts, DefaultMaxAttempts)
		}
	}
	if got := len(answers) + len(bounces); got != len(sent) {
		t.Errorf("%d messages have an answer or a bounce, want all %d", got, len(sent))
	}
}

func readKilledFacts(t *testing.T, w *mailbox.Workspace) map[schema.ID]*killedFacts {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.Dir(), track.TurnsFolder, track.JournalName("codex")))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[schema.ID]*killedFacts)
	running := make(map[schema.ID]bool)
	for line := range strings.Lines(string(data)) {
		var f track.Fact
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			continue // torn by a kill
		}
		if all[f.ID] == nil {
			all[f.ID] = &killedFacts{}
		}
		counts := all[f.ID]
		switch f.Kind {
		case track.Started:
			if running[f.ID] {
				t.Errorf("%s had two turns at once", f.ID)
			}
			if counts.succeeded > 0 {
				t.Errorf("%s had a turn after a successful one", f.ID)
			}
			counts.started++
		case track.Interrupted:
			counts.interrupted++
		case track.Succeeded:
			counts.succeeded++
		case track.Dead:
			counts.dead++
		}
		running[f.ID] = f.Kind == track.Started
	}
	return all
}

// poison is an agent that kills its runner if the message says so, once the other turns have begun.
// The other turns wait to be killed at the first attempt and succeed later.
const poison = `
cat >/dev/null
cd "$OACP_WORKSPACE"
case "$OACP_MESSAGE_SUBJECT:$OACP_ATTEMPT" in
poison:1)
	while ! [ -e begun-neighbour-1 ] || ! [ -e begun-neighbour-2 ]; do sleep 0.01; done
	kill -9 $PPID
	;;
poison:*)
	[ -e busy ] && touch overlap
	kill -9 $PPID
	;;
*:1)
	touch "begun-$OACP_MESSAGE_SUBJECT"
	exec sleep 1000
	;;
*)
	mkdir busy || touch overlap
	rmdir busy
	;;
esac
`

// TestPoisonTakesNobodyWithIt checks that a message that kills the runner in every turn becomes a
// dead letter, and that messages with turns at the same time do not.
func TestPoisonTakesNobodyWithIt(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("neighbour-1"), question("poison"), question("neighbour-2"))
	script := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(script, []byte(poison), 0o644); err != nil {
		t.Fatal(err)
	}
	runs := 1
	for ; !runAndKill(t, w, roleWait, script, -1); runs++ {
		if runs > DefaultMaxAttempts {
			t.Fatalf("after %d runs the runner is still killed", runs)
		}
	}
	if runs != DefaultMaxAttempts+1 {
		t.Errorf("%d runs, want one for each attempt and one to bury the message", runs)
	}
	wantTexts(t, "dead letters", subjects(t, w, "codex", mailbox.DeadLetters), "poison")
	wantTexts(t, "inbox", subjects(t, w, "codex", mailbox.Inbox))
	if _, err := os.Lstat(filepath.Join(w.Dir(), "overlap")); err == nil {
		t.Error("turns after lost ones ran in parallel, want each alone")
	}
}
