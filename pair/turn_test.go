package pair

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
)

// TestOwnReview checks that an agent that reviews its own work gets its earlier answer when it
// reviews, and its findings when it works again, each once. Commands have no memory.
func TestOwnReview(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		settings Settings
		answers  []string
		// given are the words of earlier answers in the prompt of each of an agent's turns.
		given map[Agent][]string
		to    []string
	}{
		{
			"alone", Settings{Agent: Claude, Review: ReviewClaude},
			[]string{"claude: made 1\nDONE", "claude: found 1\nFAIL", "claude: made 2\nDONE", "claude: found 2\nPASS"},
			map[Agent][]string{Claude: {"", "made 1", "found 1", "made 2"}}, []string{"user", "user", "user", "user"},
		},
		{
			"the second of two", Settings{Agent: Codex, Review: ReviewClaudex},
			[]string{"codex: made 1\nDONE", "claude: good 1\nPASS", "codex: found 1\nFAIL", "codex: made 2\nDONE", "claude: good 2\nPASS", "codex: found 2\nPASS"},
			map[Agent][]string{Codex: {"", "made 1", "found 1,good 1", "made 2"}, Claude: {"made 1", "found 1,made 2"}},
			[]string{"claude", "codex", "claude", "claude", "codex", "claude"},
		},
		{"no review", Settings{Agent: Codex, Review: ReviewNone}, []string{"codex: made 1", "codex: made 2\nDONE"}, map[Agent][]string{Codex: {"", ""}}, []string{"user", "user"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.settings.Prompt = "x"
			var calls []call
			s := newSession(t, test.settings, lines(t, &calls, test.answers...))
			if err := s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := make(map[Agent][]string)
			for i, c := range calls {
				var given []string
				for _, words := range []string{"found 1", "made 1", "good 1", "found 2", "made 2", "good 2"} {
					switch strings.Count(c.request.Prompt, words) {
					case 0:
					case 1:
						given = append(given, words)
					default:
						t.Errorf("turn %d gets %q more than once:\n%s", i, words, c.request.Prompt)
					}
				}
				got[c.agent] = append(got[c.agent], strings.Join(given, ","))
			}
			if !reflect.DeepEqual(got, test.given) {
				t.Errorf("the turns get %q, want %q", got, test.given)
			}
			var to []string
			for e, err := range s.log.Records(t.Context(), "") {
				if err != nil {
					t.Fatal(err)
				}
				if e.Type == bridge.TypeResult || e.Type == bridge.TypeReview {
					to = append(to, e.To)
				}
			}
			if !reflect.DeepEqual(to, test.to) {
				t.Errorf("the answers went to %q, want %q", to, test.to)
			}
		})
	}
}

// TestSignalsInTheBridge checks that a signal that an agent sends during its turn takes precedence
// over its answer, and that signals of others and earlier ones do not count.
func TestSignalsInTheBridge(t *testing.T) {
	t.Parallel()
	var s *Session
	send := func(from Agent, signal bridge.Signal, content string) {
		if _, err := s.log.Send(t.Context(), bridge.Record{Type: bridge.TypeSignal, From: string(from), To: string(from.other()), Signal: signal, Content: content}); err != nil {
			t.Error(err)
		}
	}
	turns := 0
	s = newSession(t, Settings{Prompt: "x", Review: ReviewClaude}, scripted(func(c call) (string, error) {
		switch turns++; turns {
		case 1:
			send(Codex, bridge.SignalFail, "no")
			send(Claude, bridge.SignalPass, "too early")
			send(Codex, bridge.SignalDone, "after all")
			return "I give up\nFAIL", nil
		case 2:
			return "hm", nil
		case 3:
			return "DONE", nil
		}
		send(Claude, bridge.SignalPass, "now")
		return "hm", nil
	}))
	if err := s.Run(t.Context()); err != nil || turns != 4 {
		t.Errorf("error %v after %d turns, want none after 4", err, turns)
	}
	passes := 0
	for _, r := range records(t, s) {
		if strings.HasSuffix(r, "PASS") {
			passes++
		}
	}
	if passes != 2 {
		t.Errorf("%d records of PASS, want the two that claude sent", passes)
	}
}

// TestWhichSignalCounts checks that the last signal takes precedence over earlier ones, of earlier
// attempts too, and that signals from a mailbox do not count.
func TestWhichSignalCounts(t *testing.T) {
	t.Parallel()
	const mail = `{"oacp":{"id":"msg-20260101T0000Z-claude-abcd"}}`
	type signal struct {
		signal   bridge.Signal
		metadata string
	}
	for _, test := range []struct {
		name string
		// If first is not empty, an attempt sends it and dies; the next attempt sends second.
		first, second []signal
		text          string
		complete      bool
		// records are the signals of claude in the log.
		records []bridge.Signal
	}{
		{"sent", nil, []signal{{"PASS", ""}}, "hm", true, []bridge.Signal{"PASS"}},
		{"sent last", nil, []signal{{"FAIL", ""}, {"PASS", ""}}, "hm", true, []bridge.Signal{"FAIL", "PASS"}},
		{"other metadata", nil, []signal{{"PASS", `{"tool":"x"}`}}, "hm", true, []bridge.Signal{"PASS"}},
		{"from a mailbox", nil, []signal{{"PASS", mail}}, "hm", false, []bridge.Signal{"PASS"}},
		{"from a mailbox, and said", nil, []signal{{"PASS", mail}}, "FAIL", false, []bridge.Signal{"PASS", "FAIL"}},
		{"PASS sent, FAIL said", nil, []signal{{"PASS", ""}}, "FAIL", false, []bridge.Signal{"PASS", "FAIL"}},
		{"FAIL sent, PASS said", nil, []signal{{"FAIL", ""}}, "PASS", false, []bridge.Signal{"FAIL"}},
		{"sent before it died, nothing after", []signal{{"PASS", ""}}, nil, "hm", true, []bridge.Signal{"PASS"}},
		{"sent before it died, and the same again", []signal{{"PASS", ""}}, []signal{{"PASS", ""}}, "hm", true, []bridge.Signal{"PASS"}},
		{"PASS sent before it died, FAIL said", []signal{{"PASS", ""}}, nil, "FAIL", false, []bridge.Signal{"PASS", "FAIL"}},
		{"PASS sent before it died, FAIL sent", []signal{{"PASS", ""}}, []signal{{"FAIL", ""}}, "hm", false, []bridge.Signal{"PASS", "FAIL"}},
		{"FAIL sent before it died, PASS said", []signal{{"FAIL", ""}}, nil, "PASS", false, []bridge.Signal{"FAIL"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s *Session
			send := func(signals []signal) {
				for _, sent := range signals {
					record := bridge.Record{Type: bridge.TypeSignal, From: "claude", To: "codex", Signal: sent.signal, Content: string(sent.signal), Metadata: json.RawMessage(sent.metadata)}
					if sent.metadata == "" {
						record.Metadata = nil
					}
					if _, err := s.log.Send(t.Context(), record); err != nil {
						t.Error(err)
					}
				}
			}
			reviews := 0
			s = newSession(t, Settings{Prompt: "x", Review: ReviewClaude, MaxIterations: 1}, scripted(func(c call) (string, error) {
				if c.agent == Codex {
					return "DONE", nil
				}
				if reviews++; reviews == 1 && test.first != nil {
					send(test.first)
					return "", &agent.DiedError{Program: "claude", Err: errors.New("a crash")}
				}
				send(test.second)
				return test.text, nil
			}))
			err := s.Run(t.Context())
			var failed *FailedError
			if test.complete && err != nil || !test.complete && !errors.As(err, &failed) {
				t.Errorf("error %v, want the run complete: %v", err, test.complete)
			}
			var got []bridge.Signal
			for e, err := range s.log.Records(t.Context(), "") {
				if err != nil {
					t.Fatal(err)
				}
				if e.From == "claude" && e.Signal != "" {
					got = append(got, e.Signal)
				}
			}
			if !reflect.DeepEqual(got, test.records) {
				t.Errorf("claude's signals in the log are %v, want %v", got, test.records)
			}
		})
	}
}
