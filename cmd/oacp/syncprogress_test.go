package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/gittest"
)

// TestSyncProgress checks that init and sync show on a terminal how far a long exchange is.
func TestSyncProgress(t *testing.T) {
	hub := filepath.Join(gittest.Home(t), "hub.git")
	gittest.Run(t, filepath.Dir(hub), "init", "--quiet", "--bare", hub)
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
