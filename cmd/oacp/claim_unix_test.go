//go:build unix

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
	"github.com/oacp-go/oacp/turn/track"
)

// claimMessages returns the number of messages that machines share. 300 take minutes.
func claimMessages(t testing.TB) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("OACP_CLAIM_MESSAGES"), "8"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// claimNet is a bare repository and machines, each with a workspace that is synced with it.
type claimNet struct {
	t testing.TB
	// remote is the bare repository, and log the file to which turns append their message, attempt and
	// machine.
	remote, log string
	machines    []string
	env         []string
}

func newClaimNet(t testing.TB, machines int) *claimNet {
	t.Helper()
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	n := &claimNet{t: t, remote: filepath.Join(dir, "remote.git"), log: filepath.Join(dir, "log")}
	n.env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+filepath.Join(home, "gitconfig"),
		"GIT_CEILING_DIRECTORIES="+dir, "OACP_WORKSPACE=", "OACP_AGENT=")
	n.must(dir, "git", "init", "--quiet", "--bare", n.remote)
	for i := range machines {
		machine := filepath.Join(dir, fmt.Sprint("m", i))
		n.must(dir, "git", "init", "--quiet", machine)
		n.must(machine, "git", "remote", "add", "origin", n.remote)
		n.must(machine, "oacp", "init", "--git", "--agents", "claude,codex")
		n.machines = append(n.machines, machine)
		n.sync(i)
	}
	return n
}

// must runs a command in a folder and returns what it prints.
func (n *claimNet) must(dir, name string, args ...string) string {
	n.t.Helper()
	command := exec.Command(name, args...)
	command.Dir, command.Env = dir, n.env
	out, err := command.CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// sync syncs a machine with the remote.
func (n *claimNet) sync(machine int) {
	n.t.Helper()
	n.must(n.machines[machine], "oacp", "sync")
}

// send sends questions to codex on the first machine, and syncs.
func (n *claimNet) send(count int) (sent []string) {
	n.t.Helper()
	w, err := mailbox.Open(filepath.Join(n.machines[0], ".oacp"), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	defer w.Close()
	drafts := make([]schema.Message, count)
	for i := range drafts {
		drafts[i] = schema.Message{
			From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question, Subject: fmt.Sprint("Question ", i), Body: schema.TextValue("?"),
		}
	}
	for _, result := range w.SendAll(n.t.Context(), drafts, nil) {
		if result.Err != nil {
			n.t.Fatal(result.Err)
		}
		sent = append(sent, string(result.Receipt.Message.ID))
	}
	n.sync(0)
	return sent
}

// claimRunner is a process that works the inbox of codex on a machine.
type claimRunner struct {
	n       *claimNet
	command *exec.Cmd
	events  chan turn.Event
}

// set replaces the settings of codex for its turns on a machine.
func (n *claimNet) set(machine int, setting string) {
	n.t.Helper()
	path := filepath.Join(n.machines[machine], ".oacp", "agents", "codex", "config.yaml")
	if err := os.WriteFile(path, []byte("run: {"+setting+"}\n"), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// run starts a runner. Its turns append a line to the log and then run the script.
func (n *claimNet) run(machine int, script string, args ...string) *claimRunner {
	n.t.Helper()
	script = fmt.Sprintf(`echo "$OACP_MESSAGE_ID $OACP_ATTEMPT m%d" >>%s; %s`, machine, n.log, script)
	args = slices.Concat([]string{"run", "--agent", "codex", "--sync", "--reply", "--json"}, args, []string{"--", "sh", "-c", script})
	r := &claimRunner{n: n, command: exec.Command("oacp", args...), events: make(chan turn.Event, 100)}
	r.command.Dir, r.command.Env = n.machines[machine], n.env
	stderr := new(strings.Builder)
	r.command.Stderr = stderr
	out, err := r.command.StdoutPipe()
	if err == nil {
		err = r.command.Start()
	}
	if err != nil {
		n.t.Fatal(err)
	}
	go r.read(out)
	n.t.Cleanup(func() {
		_ = r.command.Process.Kill() // it has ended unless the test failed
		for range r.events {
		}
		_ = r.command.Wait()
		if n.t.Failed() {
			n.t.Logf("standard error of m%d:\n%s", machine, stderr)
		}
	})
	return r
}

func (r *claimRunner) read(out io.Reader) {
	defer close(r.events)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var e turn.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err == nil {
			r.events <- e
		}
	}
}

// await returns the first event of a kind.
func (r *claimRunner) await(kind turn.EventKind) turn.Event {
	r.n.t.Helper()
	for limit := time.After(2 * time.Minute); ; {
		select {
		case e, ok := <-r.events:
			if !ok {
				r.n.t.Fatalf("the runner ended before %s", kind)
			}
			if e.Kind == kind {
				return e
			}
		case <-limit:
			r.n.t.Fatalf("there was no %s", kind)
		}
	}
}

func (r *claimRunner) signal(s syscall.Signal) {
	r.n.t.Helper()
	if err := r.command.Process.Signal(s); err != nil {
		r.n.t.Fatal(err)
	}
}

// end stops the runner and returns the events that it had not reported.
func (r *claimRunner) end() (rest []turn.Event) {
	r.n.t.Helper()
	r.signal(syscall.SIGTERM)
	for e := range r.events {
		rest = append(rest, e)
	}
	if err := r.command.Wait(); err != nil {
		r.n.t.Errorf("the runner: %v", err)
	}
	return rest
}

// turns returns the machines and attempts of the turns on each message.
func (n *claimNet) turns() map[string][]string {
	n.t.Helper()
	data, err := os.ReadFile(n.log)
	if err != nil {
		n.t.Fatal(err)
	}
	turns := make(map[string][]string)
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		turns[fields[0]] = append(turns[fields[0]], fields[2]+" "+fields[1])
	}
	return turns
}

// checkAnswered checks that each message has one answer, that nothing is pending, and that no claims
// are left.
func (n *claimNet) checkAnswered(sent []string) {
	n.t.Helper()
	n.sync(0)
	for _, id := range sent {
		var status struct {
			Recipients []track.Progress `json:"recipients"`
		}
		if err := json.Unmarshal([]byte(n.must(n.machines[0], "oacp", "status", id, "--json")), &status); err != nil {
			n.t.Fatal(err)
		}
		if p := status.Recipients[0]; p.Stage != track.StageAnswered || len(p.Replies) != 1 {
			n.t.Errorf("%s is %s and has %d replies, want one answer", id, p.Stage, len(p.Replies))
		}
	}
	if claims := n.must(n.remote, "git", "for-each-ref", "refs/oacp/claims"); claims != "" {
		n.t.Errorf("claims are left on the remote:\n%s", claims)
	}
}

// TestClaimEachOnce checks that each message gets one turn and one answer if three machines work one inbox.
func TestClaimEachOnce(t *testing.T) {
	t.Parallel()
	n := newClaimNet(t, 3)
	sent := n.send(claimMessages(t))
	begun := time.Now()
	acknowledged := make(chan int)
	var runners []*claimRunner
	for i := range n.machines {
		r := n.run(i, "echo done")
		runners = append(runners, r)
		go func() {
			for e := range r.events {
				if e.Kind == turn.EventAcknowledged {
					acknowledged <- i
				}
			}
		}()
	}
	counts := make([]int, len(runners))
	for range sent {
		select {
		case i := <-acknowledged:
			counts[i]++
		case <-time.After(2 * time.Minute):
			t.Fatalf("the machines handled %v messages", counts)
		}
	}
	t.Logf("%d messages in %v: %v", len(sent), time.Since(begun).Round(time.Millisecond), counts)
	for _, r := range runners {
		r.end()
	}
	turns := n.turns()
	for _, id := range sent {
		if len(turns[id]) != 1 {
			t.Errorf("the turns on %s: %q, want one", id, turns[id])
		}
	}
	n.checkAnswered(sent)
}

// TestClaimOnce does the same with two machines that run with --once.
func TestClaimOnce(t *testing.T) {
	t.Parallel()
	n := newClaimNet(t, 2)
	sent := n.send(claimMessages(t))
	runners := []*claimRunner{n.run(0, "echo done", "--once"), n.run(1, "echo done", "--once")}
	for _, r := range runners {
		for range r.events {
		}
		if err := r.command.Wait(); err != nil {
			t.Error(err)
		}
	}
	for id, turns := range n.turns() {
		if len(turns) != 1 {
			t.Errorf("the turns on %s: %q, want one", id, turns)
		}
	}
	n.checkAnswered(sent)
}

// TestClaimOfMachineThatIsGone kills or freezes a runner in a turn. After the lease, another machine handles the
// message. The first one must not answer when it comes back.
func TestClaimOfMachineThatIsGone(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "frozen": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newClaimNet(t, 2)
			sent := n.send(1)
			gate := filepath.Join(t.TempDir(), "gate")
			if err := syscall.Mkfifo(gate, 0o600); err != nil {
				t.Fatal(err)
			}
			n.set(0, "lease: 5s")
			n.set(1, "lease: 5s")
			first := n.run(0, "cat <"+gate+"; echo from m0")
			first.await(turn.EventStarted)
			other := n.run(1, "echo from m1")
			if e := other.await(turn.EventClaimedElsewhere); e.Machine == "" || string(e.ID) != sent[0] {
				t.Errorf("got %+v, want the machine that has %s", e, sent[0])
			}
			if out := n.must(n.machines[1], "oacp", "status", sent[0]); !strings.Contains(out, "waiting; claimed by ") || !strings.Contains(out, ", turn 1, since ") {
				t.Errorf("status is %q, want the claim", out)
			}
			first.signal(signal)
			if e := other.await(turn.EventStarted); e.Attempt != 2 {
				t.Errorf("the turn on the other machine is number %d, want 2", e.Attempt)
			}
			other.await(turn.EventAcknowledged)
			other.end() // which brings the answer to the remote
			if signal == syscall.SIGSTOP {
				first.signal(syscall.SIGCONT)
				// The turn ends, unless it was stopped already.
				reader, err := os.OpenFile(gate, os.O_WRONLY|syscall.O_NONBLOCK, 0)
				if err == nil {
					err = reader.Close()
				}
				if err != nil && !errors.Is(err, syscall.ENXIO) {
					t.Fatal(err)
				}
				if e := first.await(turn.EventInterrupted); !strings.Contains(e.Reason, "the claim on the message is lost") {
					t.Errorf("the turn was stopped because %q", e.Reason)
				}
				for _, e := range first.end() {
					if e.Kind == turn.EventAcknowledged || e.Kind == turn.EventAnswered || e.Kind == turn.EventSucceeded {
						t.Errorf("the first machine goes on: %+v", e)
					}
				}
			}
			again := n.run(0, "echo again", "--once")
			for e := range again.events {
				if e.Kind != turn.EventWarning { // about the processes of the turn that was killed
					t.Errorf("the first machine does %s: %s", e.Kind, e.Reason)
				}
			}
			// A machine under load may stop its turn and begin it again.
			if got := slices.Compact(n.turns()[sent[0]]); !slices.Equal(got, []string{"m0 1", "m1 2"}) {
				t.Errorf("the turns: %q", got)
			}
			n.checkAnswered(sent)
		})
	}
}
