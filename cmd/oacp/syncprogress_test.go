package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSyncProgress checks that init and sync show on a terminal how far a long exchange is.
func TestSyncProgress(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "config")
	if err := os.WriteFile(config, []byte("[user]\n\tname = Ann\n\temail = ann@example.org\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	hub := filepath.Join(dir, "hub.git")
	if out, err := exec.Command("git", "init", "--quiet", "--bare", hub).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	there := newSession(t, "claude,codex")
	there.must(t, "init", "--git", "--dir", there.Dir, "--remote", hub)
	send := func() {
		for range 3 {
			there.must(t, "send", "--from", "claude", "--to", "codex", "--type", "question", "--subject", "s", "--body", "b")
		}
		there.must(t, "sync")
	}
	send()

	here := newSession(t, "claude,codex")
	now := time.Now()
	here.ErrTerminal = true
	here.Now = func() time.Time {
		now = now.Add(2 * progressAfter)
		return now
	}
	for _, args := range [][]string{{"init", "--git", "--dir", here.Dir, "--remote", hub}, {"sync"}} {
		here.must(t, args...)
		got := here.stderr.String()
		if !strings.Contains(got, "\rexchanging mail  66% (2/3)\x1b[K") || !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("oacp %s prints %q, want a line that shows how far it is, and goes away", args[0], got)
		}
		send()
	}
}
