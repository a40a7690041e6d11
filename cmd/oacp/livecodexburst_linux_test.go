package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/schema"
)

// TestCodexBurst sends 60 messages in 10 seconds to an idle session of the real codex. What it gets without a prompt of a
// person is within the budget of each minute: oacp's own ring counts as no prompt of a person.
func TestCodexBurst(t *testing.T) {
	if !*thorough {
		t.Skip("TestCeiling of package live checks it without codex")
	}
	t.Parallel()
	const messages, aMinute = 60, 1500
	s := startCodexSession(t, func(context.Context, modelstub.Request) modelstub.Reply { return modelstub.Reply{Text: "Well."} })
	s.terminal.Say("good morning")
	s.awaitPrompt("good morning")
	s.awaitIdle()
	start := time.Now()
	ticks := time.NewTicker(10 * time.Second / messages)
	defer ticks.Stop()
	for n := range messages {
		<-ticks.C
		s.send(schema.Question, fmt.Sprintf("Question %02d of many", n))
	}
	s.server.Await(t, func(r modelstub.Request) bool { return strings.HasPrefix(r.Prompt, "oacp: ") })
	s.awaitIdle()
	limit := aMinute * (1 + int(time.Since(start)/time.Minute))
	requests := s.server.Requests()
	r := requests[len(requests)-1]
	s.terminal.Say("how is it") // a prompt brings the rest
	s.server.Await(t, func(r modelstub.Request) bool { return r.Prompt == "how is it" && len(r.Context) > 0 })
	tokens, digests := countDigests(r.Context)
	t.Logf("%d tokens in %d digests after %v", tokens, digests, time.Since(start))
	if digests == 0 || tokens > limit {
		t.Errorf("%d digests cost %d tokens, want some, and at most %d", digests, tokens, limit)
	}
	wantNoErrors(t, s.w)
}
