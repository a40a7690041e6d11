package pair

import (
	"cmp"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
)

func TestDetect(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		answer, done string
		want         bridge.Signal
	}{
		{"DONE", "", bridge.SignalDone},
		{"I fixed it.\n\nDONE\n\n  \n", "", bridge.SignalDone},
		{"ok\r\nPASS\r\n", "", bridge.SignalPass},
		{"no\rFAIL", "", bridge.SignalFail},
		{"ok\u2028PASS", "", bridge.SignalPass},
		{"ok\n**PASS**", "", bridge.SignalPass},
		{"ok\n`FAIL`.", "", bridge.SignalFail},
		{"ok\n_DONE._", "", bridge.SignalDone},
		{"DONE.", "", bridge.SignalDone},
		{"PASS\nFAIL", "", bridge.SignalFail},
		{"FAIL\nPASS", "", bridge.SignalPass},
		{"shipped\n<promise>COMPLETE</promise>", "<promise>COMPLETE</promise>", bridge.SignalDone},
		{"all good to go", "all good to go", bridge.SignalDone},
		{"READY.", "READY", bridge.SignalDone},
		{"**READY**", "READY", bridge.SignalDone},
		{"PASS", "READY", bridge.SignalPass},

		{"", "", ""},
		{"\n \n", "", ""},
		{"The tests did not PASS yet", "", ""},
		{"the tests did not PASS", "", ""},
		{"I cannot mark this as DONE", "", ""},
		{"abandoned", "", ""},
		{"ABANDONED", "", ""},
		{"the password check works", "", ""},
		{"No failures", "", ""},
		{"PASSED", "", ""},
		{"FAILURE", "", ""},
		{"UNDONE", "", ""},
		{"DONE?", "", ""},
		{"DONE...", "", ""},
		{"NOT DONE", "", ""},
		{"DONE DONE", "", ""},
		{"PASS or FAIL", "", ""},
		{"PASS/FAIL", "", ""},
		{"FAIL: the tests are red", "", ""},
		{"done", "", ""},
		{"Pass", "", ""},
		{"PASS\nexcept for the tests", "", ""},
		{"DONE\n```", "", ""},
		{"- [ ] DONE", "", ""},
		{"> PASS", "", ""},
		{"\"DONE\"", "", ""},
		{"~~DONE~~", "", ""},
		{"*DONE_", "", ""},
		{"DONE", "READY", ""},
		{"NOT READY", "READY", ""},
		{"ready", "READY", ""},
		{"*", "", ""},
		{".", "", ""},
	} {
		if got := detect(test.answer, cmp.Or(test.done, "DONE")); got != test.want {
			t.Errorf("detect(%q, %q) = %q, want %q", test.answer, test.done, got, test.want)
		}
	}
}

// TestTruncatedAnswer checks that the last line of a truncated answer is not a signal.
func TestTruncatedAnswer(t *testing.T) {
	t.Parallel()
	s := newSession(t, Settings{Prompt: "x"}, Options{})
	s.manifest.Round = newRound(Codex)
	for truncated, want := range map[bool]bridge.Signal{false: bridge.SignalDone, true: ""} {
		result := agent.Result{Text: "I must not say\nDONE", Truncated: truncated}
		if got, err := s.answer(t.Context(), &attempt{turn: s.manifest.Round.Turns[0], result: result}); err != nil || got.Signal != want || got.Truncated != truncated {
			t.Errorf("truncated %v: answer %+v, %v, want the signal %q", truncated, got, err, want)
		}
	}
}

// FuzzDetect checks that only the last line of an answer counts, and that white space after it
// changes nothing.
func FuzzDetect(f *testing.F) {
	for _, seed := range []string{"DONE", "x\nPASS", "**FAIL**.", "not PASS", "\n"} {
		f.Add(seed, "DONE")
	}
	f.Fuzz(func(t *testing.T, answer, done string) {
		got := detect(answer, done)
		if again := detect("PASS\n"+answer+" \n\n", done); lastLine(answer) != "" && again != got {
			t.Errorf("detect(%q, %q) = %q, and %q between other lines", answer, done, got, again)
		}
		if got != "" && lastLine(answer) == "" {
			t.Errorf("detect(%q, %q) = %q of a blank answer", answer, done, got)
		}
	})
}
