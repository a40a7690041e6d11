package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
)

// TestBridgeTerminal checks that no escape sequence in a log reaches a terminal.
func TestBridgeTerminal(t *testing.T) {
	c := newSession(t, "a,b")
	log := filepath.Join(c.Dir, "bridge.jsonl")
	lines := `{"id":"1","type":"chat","from":"a\u001b[2J","to":"b","content":"` + "\u202etxet\u009b2J" + `"}` + "\n\x1b]0;title\a\n"
	if err := os.WriteFile(log, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	c.OutTerminal = true
	for _, args := range [][]string{
		{"bridge", "--bridge", log},
		{"bridge", "drain", "--bridge", log, "--agent", "b"},
		{"convert", "--to", "mailbox", log},
	} {
		c.run(t.Context(), args...)
		for _, out := range []string{c.stdout.String(), c.stderr.String()} {
			if strings.ContainsAny(out, "\x1b\a\u202e\u009b") {
				t.Errorf("oacp %s lets through what moves the cursor: %q", strings.Join(args, " "), out)
			}
		}
	}
}

// TestDrainKeepsItsPlace checks that the cursor moves only if everything is printed.
func TestDrainKeepsItsPlace(t *testing.T) {
	c := newSession(t, "a,b")
	log, cursor := filepath.Join(c.Dir, "bridge.jsonl"), filepath.Join(c.Dir, "cursor")
	c.must(t, "bridge", "send", "--bridge", log, "--from", "a", "--to", "b", "--type", "chat", "--content", "x")
	drain := []string{"bridge", "drain", "--bridge", log, "--agent", "b", "--cursor", cursor}
	c.Out = bufio.NewWriter(fullDisk{})
	if exit := run(t.Context(), drain, c.Streams); exit != failure.ExitFailed {
		t.Errorf("exit status is %d, want 1: the output failed", exit)
	}
	if _, err := os.Stat(cursor); err == nil {
		t.Error("the cursor was moved")
	}
	if out := c.must(t, drain...); strings.Count(out, "\n") != 1 {
		t.Errorf("got %q, want the record", out)
	}
	if out := c.must(t, drain...); out != "" {
		t.Errorf("got %q, want nothing more", out)
	}
}

// TestAgentPair checks that AgentPair itself reads what oacp wrote, and the other way round.
// AGENTPAIR_REFERENCE names its program.
func TestAgentPair(t *testing.T) {
	program := os.Getenv("AGENTPAIR_REFERENCE")
	if program == "" {
		t.Skip("AGENTPAIR_REFERENCE is not set")
	}
	home := t.TempDir()
	c := newSession(t, "claude,codex")
	c.env[command.RunsVariable] = filepath.Join(home, ".agentpair", "runs")
	agentpair := func(args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), program, args...)
		command.Dir = c.Dir
		command.Env = append(os.Environ(), "HOME="+home, "PWD="+c.Dir)
		out, err := command.Output()
		if err != nil {
			t.Fatalf("agentpair %s: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	c.must(t, "send", "--from", "claude", "--to", "codex", "--type", "task_request", "--subject", "Implement login form", "--body", "x")
	c.must(t, "send", "--from", "codex", "--to", "claude", "--type", "notification", "--subject", "Added", "--body", "x")
	c.must(t, "mirror")
	c.must(t, "bridge", "send", "--from", "codex", "--signal", "DONE", "--content", "Fixed and ready")
	c.must(t, "bridge", "send", "--from", "claude", "--signal", "PASS", "--content", "Approved")
	same := func() {
		t.Helper()
		var status struct{ Runs []logStatus }
		if err := json.Unmarshal([]byte(c.must(t, "bridge", "--json")), &status); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, run := range status.Runs {
			want = append(want, fmt.Sprintf("Run #%d: messages=%d done=%t pass=%d fail=%d\n",
				run.RunID, run.TotalMessages, run.HasDoneSignal, run.PassCount, run.FailCount))
		}
		if got := slices.Sorted(strings.Lines(agentpair("bridge"))); len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("agentpair says %q, and oacp %q", got, want)
		}
	}
	same()

	// What AgentPair's library writes is in testdata; it can read that, too.
	run, err := bridge.MakeRun(c.env[command.RunsVariable], c.Dir, 2, c.Now())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join("testdata", "agentpair.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var whole []string
	for line := range strings.Lines(string(data)) {
		if _, err := bridge.ParseRecord([]byte(line)); err == nil {
			whole = append(whole, line)
		}
	}
	if err := os.WriteFile(run.BridgePath(), []byte(strings.Join(whole, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	same()
}
