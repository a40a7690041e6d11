package pair

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseCommands(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		want [][]string
		err  string
	}{
		{"", nil, ""},
		{"  ", nil, ""},
		{"go test ./...", [][]string{{"go", "test", "./..."}}, ""},
		{"npm test && npm run lint", [][]string{{"npm", "test"}, {"npm", "run", "lint"}}, ""},
		{"a&&b", [][]string{{"a"}, {"b"}}, ""},
		{`grep -c "a && b" 'x | y' z\ w`, [][]string{{"grep", "-c", "a && b", "x | y", "z w"}}, ""},
		{"echo $HOME *", [][]string{{"echo", "$HOME", "*"}}, ""},
		{"über é && ж", [][]string{{"über", "é"}, {"ж"}}, ""},
		{"a | b", nil, "needs a shell"},
		{"a || b", nil, "needs a shell"},
		{"a; b", nil, "needs a shell"},
		{"a > b", nil, "needs a shell"},
		{"a & b", nil, "needs a shell"},
		{"a &&", nil, "lacks a command"},
		{"&& a", nil, "lacks a command"},
		{`a "b`, nil, "reading"},
		{"go test ./...\n", [][]string{{"go", "test", "./..."}}, ""},
		{"true\nfalse", nil, "several lines"},
		{"true &&\nfalse", nil, "several lines"},
		{"true \\\nfalse", nil, "several lines"},
		{"it\\'s\nfalse", nil, "several lines"},
		{"echo 'a\nb' \"c\\\"\nd\"", [][]string{{"echo", "a\nb", "c\"\nd"}}, ""},
	} {
		got, err := ParseCommands(test.text)
		if test.err == "" && (err != nil || !reflect.DeepEqual(got, test.want)) {
			t.Errorf("ParseCommands(%q) = %q, %v; want %q", test.text, got, err, test.want)
		}
		if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("ParseCommands(%q) = %q, %v; want an error with %q", test.text, got, err, test.err)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		settings Settings
		err      string
	}{
		{Settings{Prompt: "x"}, ""},
		{Settings{Prompt: "x", Agent: Claude, Review: ReviewNone, MaxIterations: 1000, Done: "over and out"}, ""},
		{Settings{Prompt: " \n"}, "prompt:"},
		{Settings{Prompt: "\xff"}, "prompt:"},
		{Settings{Prompt: "x", Agent: "gemini"}, "agent:"},
		{Settings{Prompt: "x", Review: "both"}, "review:"},
		{Settings{Prompt: "x", MaxIterations: -1}, "max_iterations:"},
		{Settings{Prompt: "x", MaxIterations: 1001}, "max_iterations:"},
		{Settings{Prompt: "x", Done: "PASS"}, "done_signal:"},
		{Settings{Prompt: "x", Done: "a\nb"}, "done_signal:"},
		{Settings{Prompt: "x", Done: " "}, "done_signal:"},
		{Settings{Prompt: "x", Proof: "a | b"}, "proof:"},
		{Settings{Prompt: "x", Proof: "true && no-such-program ./..."}, "proof: there is no program no-such-program"},
		{Settings{Prompt: "x", Proof: "./to-be-made"}, ""},
	} {
		got, err := test.settings.complete()
		if err == nil {
			err = test.settings.Check()
		}
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.HasPrefix(err.Error(), test.err)) {
			t.Errorf("%+v: error %v, want one with %q", test.settings, err, test.err)
		}
		if err == nil && (got.Agent == "" || got.Review == "" || got.MaxIterations == 0 || got.Done == "") {
			t.Errorf("%+v lacks a default", got)
		}
	}
}

func TestLoadConfig(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       Config
		err        string
	}{
		{"config.yaml", "agent: claude\nmax_iterations: 5\nproof: go test ./...\nreview_mode: codex\ndone_signal: OK\nuse_tmux: true\nuse_worktree: true\nverbose: true\ntimeout: 1h30m\n",
			Config{Settings{"", Claude, ReviewCodex, 5, "go test ./...", "OK", true}, true, 90 * time.Minute}, ""},
		{"config.yaml", "timeout: 2h\nuse_tmux: false\n", Config{Timeout: 2 * time.Hour}, ""},
		{"config.yaml", "", Config{}, ""},
		{"config.toml", "x", Config{}, ""},
		{"config.yaml", "# all left out\n", Config{}, ""},
		{"config.yaml", "---\nproof:\nagent: codex\n", Config{Settings: Settings{Agent: Codex}}, ""},
		{"config.yaml", "agnet: claude\n", Config{}, `config.yaml: line 1: unknown setting "agnet"; did you mean agent? the settings are agent, done_signal, max_iterations,`},
		{"config.yaml", "agent: codex\nbogus: 1\n", Config{}, `line 2: unknown setting "bogus"; the settings are agent, done_signal,`},
		{"config.yaml", "agent: gemini\n", Config{}, `line 1: agent: "gemini" is neither claude nor codex`},
		{"config.yaml", "timeout: soon\n", Config{}, `line 1: timeout: "soon" is not a duration such as 90s`},
		{"config.yaml", "timeout: 90\n", Config{}, `line 1: timeout: "90" is not a duration`},
		{"config.yaml", "timeout: -1h\n", Config{}, `timeout: "-1h" is negative`},
		{"config.yaml", "max_iterations: 5000\n", Config{}, "5000"},
		{"config.yaml", "timeout: 0s\n", Config{}, "timeout: must be more than 0"},
		{"config.yaml", "max_iterations: 0\n", Config{}, `max_iterations: "0" is not a number from 1 to 1000`},
		{"config.yaml", "max_iterations: many\n", Config{}, `"many" is not a number`},
		{"config.yaml", "verbose: true\nuse_tmux: maybe\n", Config{}, `line 2: use_tmux: "maybe" is neither true nor false`},
		{"config.yaml", "proof: [a]\n", Config{}, "line 1: proof: takes a single value"},
		{"config.yaml", "proof: a | b\n", Config{}, "line 1: proof: "},
		{"config.yaml", "agent: claude\nagent: codex\n", Config{}, `line 2: mapping key "agent" already defined at line 1`},
		{"config.yaml", "- a\n", Config{}, "line 1: a list does not belong here"},
		{"config.yaml", "agent: codex\n: : :\n", Config{}, "config.yaml: line 1"},
		{"config.yaml", "{", Config{}, "config.yaml: line 1"},
	} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, test.name), []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := LoadConfig(folder)
		switch {
		case test.err == "" && (err != nil || got != test.want):
			t.Errorf("%s %q: got %+v, %v; want %+v", test.name, test.text, got, err, test.want)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "pair.")):
			t.Errorf("%s %q: error %v, want one with %q", test.name, test.text, err, test.err)
		}
	}
}
