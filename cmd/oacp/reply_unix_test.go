//go:build unix

package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/failure"
)

// TestKilledReply kills replies that acknowledge, as soon as a file appears or vanishes. Whatever the
// moment, a message that left the inbox is answered, and none is answered twice.
func TestKilledReply(t *testing.T) {
	t.Parallel()
	c := newSession(t, "claude,codex")
	count := func(pattern string) int {
		names, err := filepath.Glob(filepath.Join(c.Dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	const rounds = 6
	moments := []string{"state/outgoing/*", "agents/codex/outbox/*.yaml", "agents/claude/inbox/*.yaml", "agents/codex/inbox/*.yaml"}
	unacknowledged := 0
	for n := range rounds * len(moments) {
		id := c.must(t, "send", "--from", "claude", "--to", "codex", "--type", "question", "--subject", "s", "--body", "x", "--json")
		id = strings.Split(strings.SplitAfter(id, `"id": "`)[1], `"`)[0]
		answered := count("agents/claude/inbox/*.yaml")
		pending := count("agents/codex/inbox/*.yaml")
		command := exec.CommandContext(t.Context(), "oacp", "reply", id, "--dir", c.Dir, "--from", "codex", "--body", "x", "--ack")
		before := count(moments[n%len(moments)])
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		for running := true; running && count(moments[n%len(moments)]) == before; {
			select {
			case <-ended:
				running = false
				ended <- nil
			default:
			}
		}
		_ = command.Process.Kill() // it may have ended
		<-ended
		c.must(t, "doctor", "--fix") // delivers what the reply left behind
		answers := count("agents/claude/inbox/*.yaml") - answered
		left := pending - count("agents/codex/inbox/*.yaml")
		if answers > 1 || left > answers {
			t.Errorf("killed when %s changed: %d answers, and %d messages left the inbox", moments[n%len(moments)], answers, left)
		}
		unacknowledged += answers - left
		if left == 0 {
			c.must(t, "ack", id, "--agent", "codex")
		}
	}
	t.Logf("%d of %d replies were killed between answer and acknowledgement", unacknowledged, rounds*len(moments))
}

// TestRepliesRace lets sessions of one agent answer each message at the same time. One answer is sent, and
// the others are refused.
func TestRepliesRace(t *testing.T) {
	t.Parallel()
	c := newSession(t, "claude,codex")
	const rounds, sessions = 8, 4
	for range rounds {
		id := c.must(t, "send", "--from", "claude", "--to", "codex", "--type", "question", "--subject", "s", "--body", "x", "-q")
		id = strings.TrimSpace(id)
		replies := make([]*exec.Cmd, sessions)
		outputs := make([]strings.Builder, sessions)
		for i := range replies {
			replies[i] = exec.CommandContext(t.Context(), "oacp", "reply", id, "--dir", c.Dir, "--from", "codex", "--body", "x"+strconv.Itoa(i), "--ack")
			replies[i].Stdout, replies[i].Stderr = &outputs[i], &outputs[i]
			if err := replies[i].Start(); err != nil {
				t.Fatal(err)
			}
		}
		sent := 0
		for i, reply := range replies {
			err, exit := reply.Wait(), new(exec.ExitError)
			switch {
			case err == nil:
				sent++
			case !errors.As(err, &exit) || exit.ExitCode() != failure.ExitFailed || !strings.Contains(outputs[i].String(), "codex answered message "+id):
				t.Errorf("a reply ended with %v: %s", err, outputs[i].String())
			}
		}
		if sent != 1 {
			t.Errorf("%d of %d replies succeeded, want one", sent, sessions)
		}
	}
	answers, err := filepath.Glob(filepath.Join(c.Dir, "agents/claude/inbox/*.yaml"))
	left, leftErr := filepath.Glob(filepath.Join(c.Dir, "agents/codex/inbox/*.yaml"))
	if err != nil || leftErr != nil || len(answers) != rounds || len(left) != 0 {
		t.Errorf("%d messages got %d answers, and %d are pending (%v, %v)", rounds, len(answers), len(left), err, leftErr)
	}
}
