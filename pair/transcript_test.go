package pair

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/agent"
)

// TestTranscript checks that each entry is a line, that raw events lose only white space, and that
// a torn line loses no other line.
func TestTranscript(t *testing.T) {
	t.Parallel()
	raw := []string{`{"type":"x", "html":"<&>",  "big":12345678901234567890}`, "{\n\"a\": 1\n}", `"` + strings.Repeat("y", 30<<20) + `"`}
	s := newSession(t, Settings{Prompt: "x", Review: ReviewNone}, scripted(func(c call) (string, error) {
		for _, r := range raw {
			c.observe(agent.Event{Raw: json.RawMessage(r)})
		}
		c.observe(agent.Event{Text: "oops\n", Error: true})
		return "DONE", nil
	}))
	file, err := os.OpenFile(s.Place().TranscriptPath(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"type":"event","raw":{"cut`); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = Resume(s.Place(), s.options); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.Place().TranscriptPath())
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	bad := 0
	for line := range strings.Lines(string(data)) {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			bad++
			continue
		}
		types = append(types, string(e.Type))
	}
	if got, want := strings.Join(types, " "), "start state iteration execute event event event event result signal state end"; bad != 1 || got != want {
		t.Errorf("%d bad lines and %s, want 1 and %s", bad, got, want)
	}
	for i, want := range []string{`{"type":"x","html":"<&>","big":12345678901234567890}`, `{"a":1}`, raw[2]} {
		if !strings.Contains(string(data), `"raw":`+want+"}\n") {
			t.Errorf("raw event %d is missing from the transcript or was changed", i)
		}
	}
}

// TestUsage checks that the transcript has the usage of every attempt once, whether the attempt
// succeeded or failed.
func TestUsage(t *testing.T) {
	t.Parallel()
	var calls []call
	var used int64
	options := lines(t, &calls, "codex: dies: once", "codex: fine", "codex: dies: once more", "codex: dies: and again")
	options.Observe = func(e Entry) {
		used += e.Usage.InputTokens
	}
	s := newSession(t, Settings{Prompt: "x", Review: ReviewNone}, options)
	var failed *FailedError
	if err := s.Run(t.Context()); !errors.As(err, &failed) || len(calls) != 4 {
		t.Fatalf("error %v after %d attempts, want a FailedError after 4", err, len(calls))
	}
	if used != 4 {
		t.Errorf("the transcript has the usage of %d attempts, want 4", used)
	}
}
