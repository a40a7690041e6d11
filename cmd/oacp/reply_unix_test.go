//go:build unix

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
