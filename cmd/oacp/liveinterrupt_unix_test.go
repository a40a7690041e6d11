//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/schema"
)

// TestClaudeTakesBack checks that mail comes again, and is not noticed before, if the real claude takes back the prompt
// that it came with: because a person interrupts the turn before the model answers, or because another hook blocks
// the prompt.
func TestClaudeTakesBack(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	s := newLiveScene(t, func(ctx context.Context, r modelstub.Request) modelstub.Reply {
		if strings.HasSuffix(r.Prompt, "please wait") {
			<-ctx.Done()
			close(ended)
		}
		return modelstub.Reply{Text: "Well."}
	})
	s.run("setup", "claude", "--agent", claudeAgent)
	const settings = `{"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "if grep -q forbidden; then echo It is blocked. >&2; exit 2; fi"}]}]}}`
	if err := os.WriteFile(filepath.Join(s.folder, ".claude", "settings.json"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	inform := func(subject string) string {
		var id schema.ID
		s.awaitDecision(func() {
			id = s.send(schema.Message{Type: schema.Notification, Subject: subject, Body: schema.TextValue("For information.")})[0].Message.ID
		})
		return string(id)
	}
	term := s.open()
	term.Say("good morning")
	s.awaitPrompt("good morning")
	s.awaitIdle()

	interrupted := inform("Alpha informs")
	term.Say("please wait")
	const first = `please wait"` // as JSON: claude may put what it gives back before the next prompt
	wantCount(t, s.awaitPrompt("please wait"), 1, "Alpha informs", first)
	term.Press("Escape")
	<-ended
	for !strings.Contains(term.Screen(), "for shortcuts") { // while claude gives the prompt back
		term.Press("C-u")
	}
	term.Say("how is it")
	r := s.awaitPrompt("how is it")
	wantCount(t, r, 1, "Alpha informs")
	wantCount(t, r, 0, first)
	s.awaitIdle()
	s.wantStage(interrupted, "noticed")

	blocked := inform("Beta informs")
	term.Say("it is forbidden")
	term.Await("It is blocked.")
	s.wantStage(blocked, "waiting")
	term.Press("C-u")
	term.Say("and now")
	r = s.awaitPrompt("and now")
	wantCount(t, r, 1, "Alpha informs", "Beta informs")
	s.awaitIdle()
	s.wantStage(blocked, "noticed")
	wantNoErrors(t, s.w)
}
