package main

import (
	"context"
	"slices"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/schema"
)

// TestCodexInterrupted interrupts the real codex with Esc: nothing is queued for it, and the next prompt shows the mail.
func TestCodexInterrupted(t *testing.T) {
	t.Parallel()
	s := startCodexSession(t, func(ctx context.Context, r modelstub.Request) modelstub.Reply {
		if r.Prompt == "please wait" {
			<-ctx.Done()
		}
		return modelstub.Reply{Text: "Well."}
	})
	s.terminal.Say("good morning")
	s.awaitPrompt("good morning")
	s.awaitIdle()
	s.terminal.Say("please wait")
	s.awaitPrompt("please wait")
	s.terminal.Press("Escape")
	s.terminal.Await("Conversation interrupted")
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
	prompts = slices.Compact(prompts) // a reminder of what is owed goes on with the turn
	if want := []string{"good morning", "please wait", "and now", ring}; !slices.Equal(prompts, want) {
		t.Errorf("the prompts are %q, want %q", prompts, want)
	}
}
