//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/live"
)

// TestClaudeBurst sends 100 messages, 20 a second, to the real claude while it works. The digests cost less than 4,000
// tokens together, the model notices each message, and no person does anything.
func TestClaudeBurst(t *testing.T) {
	if !*thorough {
		t.Skip("TestCeiling of package live checks it without claude")
	}
	t.Parallel()
	const messages = 100
	gate := filepath.Join(t.TempDir(), "gate")
	mustRun(t, ".", "mkfifo", gate)
	var done atomic.Bool
	s := newLiveScene(t, func(_ context.Context, r modelstub.Request) modelstub.Reply {
		if strings.HasSuffix(r.Prompt, "please work") && !done.Load() {
			return shell("cat " + gate)
		}
		return modelstub.Reply{Text: "Well."}
	})
	s.env = append(s.env, testPace+"=20s") // longer than the messages take to send
	s.run("setup", "claude", "--agent", claudeAgent)
	if err := os.WriteFile(filepath.Join(s.folder, ".claude", "settings.json"), []byte(`{"permissions": {"allow": ["Bash"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	term := s.open()
	term.Say("please work")
	s.awaitPrompt("please work")
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	for n := range messages {
		<-ticks.C
		s.ask(fmt.Sprintf("Question %02d of many", n))
		if n%20 == 19 { // a tool ends, and the next one begins
			tool, err := os.OpenFile(gate, os.O_WRONLY, 0) // waits until the tool runs
			if err != nil {
				t.Fatal(err)
			}
			done.Store(n == messages-1)
			if err := tool.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.awaitSessions("all messages are noticed", func(sessions []live.Session) bool {
		noticed := 0
		for _, shown := range sessions[0].Shown {
			if shown.Noticed() {
				noticed++
			}
		}
		return noticed == messages && !sessions[0].Working
	})
	requests := s.server.Requests()
	last := requests[len(requests)-1]
	var body any
	if err := json.Unmarshal(last.Body, &body); err != nil {
		t.Fatal(err)
	}
	var texts []string
	collect(body, &texts)
	tokens, digests := countDigests(texts)
	t.Logf("%d tokens in %d digests; the model was asked %d times", tokens, digests, len(requests))
	if tokens >= 4000 || len(requests) > 12 {
		t.Errorf("%d digests cost %d tokens, and the model was asked %d times, want less than 4000 and 12", digests, tokens, len(requests))
	}
	for n := range messages {
		subject := fmt.Sprintf("Question %02d of many", n)
		if named := strings.Count(string(last.Body), subject); named != 1 && named != 2 { // the second time, it is owed
			t.Errorf("the last request has %q %d times, want once or twice", subject, named)
		}
	}
	term.Await("oacp: ", "from codex, ") // which says why the session works
	wantNoErrors(t, s.w)
}

// countDigests counts the digests of mail among texts that a model was given, and their tokens.
func countDigests(texts []string) (tokens, digests int) {
	for _, text := range texts {
		if strings.Contains(text, "from other agents, not from your user") {
			tokens += live.Tokens(text)
			digests++
		}
	}
	return tokens, digests
}
