package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

// TestCodexInterrupted interrupts the real codex with Esc: oacp live says so, nothing is queued for it, and the next prompt shows
// the mail.
func TestCodexInterrupted(t *testing.T) {
	t.Parallel()
	s := startCodexSession(t, func(ctx context.Context, r modelstub.Request) modelstub.Reply {
		if r.Prompt == "please wait" {
			<-ctx.Done()
		}
		return modelstub.Reply{Text: "Well."}
	})
	state := func() string {
		out := mustRun(t, s.folder, s.oacp, "live")
		for _, word := range []string{"working", "interrupted", "idle"} {
			if strings.Contains(out, " "+word+" ") {
				return word
			}
		}
		return out
	}
	s.terminal.Say("good morning")
	s.awaitPrompt("good morning")
	s.awaitIdle()
	s.terminal.Say("please wait")
	s.awaitPrompt("please wait")
	if got := state(); got != "working" {
		t.Errorf("in a turn, oacp live says %s", got)
	}
	s.terminal.Press("Escape")
	s.terminal.Await("Conversation interrupted")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := watch.Await(ctx, nil, func() (bool, error) { return state() == "interrupted", nil }); err != nil {
		t.Errorf("after Esc, oacp live says %s", state())
	}
	s.send(schema.Question, "Alpha after Esc")
	s.terminal.Say("and now")
	if r := s.awaitPrompt("and now"); !hasContext(r, "Alpha after Esc") {
		t.Errorf("the next prompt does not show the mail: %q", r.Context)
	}
	s.awaitIdle()
	s.send(schema.Question, "Beta when idle")
	const ring = "oacp: 1 message waits for codex"
	s.awaitPrompt(ring)
	var prompts []string
	for _, r := range s.server.Requests() {
		prompts = append(prompts, r.Prompt)
	}
	if want := []string{"good morning", "please wait", "and now", ring}; !slices.Equal(prompts, want) {
		t.Errorf("the prompts are %q, want %q", prompts, want)
	}
}
