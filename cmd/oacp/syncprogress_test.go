package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/command"
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

func TestProgress(t *testing.T) {
	now := time.Unix(0, 0)
	var shown bytes.Buffer
	s := &command.Streams{Err: &shown, ErrTerminal: true, Now: func() time.Time { return now }}
	bar := newProgress(s)
	bar.update(1, 1000)
	if shown.Len() > 0 {
		t.Errorf("at once %q is shown, want nothing", shown.String())
	}
	now = now.Add(2 * progressAfter)
	bar.update(500, 1000)
	if !strings.Contains(shown.String(), "exchanging mail") {
		t.Errorf("after a while %q is shown, want a bar", shown.String())
	}
	shown.Reset()
	now = now.Add(progressEvery)
	bar.update(500, 2000)
	if !strings.Contains(shown.String(), "500/2000") {
		t.Errorf("when there is more to do %q is shown, want the new total", shown.String())
	}
	bar.clear()
	shown.Reset()
	bar.update(0, 10)
	bar.update(1, 10)
	if shown.Len() > 0 {
		t.Errorf("at the beginning of the next work %q is shown, want nothing", shown.String())
	}

	s.ErrTerminal = false
	shown.Reset()
	bar = newProgress(s)
	now = now.Add(2 * progressAfter)
	bar.update(500, 1000)
	bar.clear()
	if shown.Len() > 0 {
		t.Errorf("without a terminal %q is shown, want nothing", shown.String())
	}
}
