package agent

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// realProgram is one way in which a driver runs a real agent.
type realProgram struct {
	name string
	// create returns a driver for the program, whose model is the script. The changes apply to its
	// options.
	create func(t testing.TB, script modelstub.Script, change func(*Options)) (*resident, *modelstub.Server)
	new    func(Options) Driver
	// shell is the model's request to run a command.
	shell func(command string) modelstub.Reply
	// rare reports that it runs only with -thorough.
	rare bool
	// quirks are words for what it does not do as the others do: it forgets most sessions, tells no cost of the first turn
	// after a start, or leaves commands to the next runner if it dies.
	quirks string
}

var programs = []realProgram{
	{"claude", realClaude, NewClaude, bash, false, ""},
	{"codex", realCodex, NewCodex, execCommand, false, ""},
	{"gemini", realGemini, NewACP, runShellCommand, true, "forgets"},
	{"codex-acp", realCodexACP, NewACP, execCommand, true, ""},
	{"claude-agent-acp", realClaudeACP, NewACP, bash, true, "cost"},
	{"opencode", realOpenCode, NewACP, openCodeBash, true, "cost leaves"},
	{"qwen", realQwen, NewACP, runShellCommand, true, ""},
}

// has reports whether the program has a quirk.
func (p realProgram) has(quirk string) bool { return strings.Contains(p.quirks, quirk) }

// resume returns a driver like the given one that continues a session.
func (p realProgram) resume(driver *resident, session string) Driver {
	options := driver.options
	options.Session = session
	return p.new(options)
}

// bash is a model's request that claude run a command.
func bash(command string) modelstub.Reply {
	return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "Bash", Input: map[string]any{"command": command, "description": "a test"}}}}
}

// execCommand is a model's request that codex run a command.
func execCommand(command string) modelstub.Reply {
	return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "exec_command", Input: map[string]any{"cmd": command, "yield_time_ms": 60000}}}}
}

// withPrograms runs a test with each program.
func withPrograms(t *testing.T, test func(*testing.T, realProgram)) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			if p.rare && !*thorough {
				t.Skip("runs with -thorough")
			}
			test(t, p)
		})
	}
}

// TestSessionInjection checks that a session id cannot smuggle in options.
func TestSessionInjection(t *testing.T) {
	withPrograms(t, func(t *testing.T, p realProgram) {
		for _, session := range []string{
			"--permission-mode=bypassPermissions", "--dangerously-bypass-approvals-and-sandbox", "-", "a b", "a\nb", "\x00", "a/b", strings.Repeat("a", 201),
		} {
			driver, _ := p.create(t, modelstub.Answers(t), func(o *Options) { o.Session = session })
			if err := driver.Start(impatient(t)); !errors.Is(err, ErrUnknownSession) || errors.Is(err, ErrUnavailable) {
				t.Errorf("Start with session %q = %v, want ErrUnknownSession", session, err)
			}
			if driver.running.Load() != nil {
				t.Errorf("session %q: a program was started, want none", session)
			}
		}
	})
}

// TestDiesOnce checks that the output of a first, failed attempt is not part of the answer, but
// that its usage counts.
func TestDiesOnce(t *testing.T) {
	for name, driver := range map[string]Driver{"claude": newFakeClaude(t, "dies once"), "codex": newFakeCodex(t, "dies once")} {
		t.Run(name, func(t *testing.T) {
			started(t, driver)
			result := turn(t, driver, "go")
			if result.Text != "" || !strings.Contains(result.Tail, "could not finish") {
				t.Errorf("text %q, tail %q, want the first attempt's text in the tail only", result.Text, result.Tail)
			}
			if want := (Usage{InputTokens: 1200, OutputTokens: 12}); name == "codex" && result.Usage != want {
				t.Errorf("usage %+v, want %+v", result.Usage, want)
			}
		})
	}
}

// TestMark checks that every process that a driver starts has the context's mark. The mark finds
// processes that a killed runner left.
func TestMark(t *testing.T) {
	for name, driver := range map[string]Driver{
		"claude": newFakeClaude(t, "mark"), "codex": newFakeCodex(t, "mark"),
		"exec": NewExec(Options{Command: helperCommand(t, "env", orphans.Variable)}),
	} {
		t.Run(name, func(t *testing.T) {
			mark := orphans.OwnerOf("").NewMark()
			ctx := orphans.WithMark(impatient(t), mark)
			if err := driver.Start(ctx); err != nil {
				t.Fatal(err)
			}
			defer stopped(t, driver)
			result, err := driver.Turn(ctx, Request{Prompt: "go"}, nil)
			if err != nil || !strings.Contains(result.Text, string(mark)) {
				t.Errorf("the program's mark is %q (%v), want %s", result.Text, err, mark)
			}
		})
	}
}

// TestDeathInWords checks that the error contains the program's last words.
func TestDeathInWords(t *testing.T) {
	for name, driver := range map[string]Driver{"claude": newFakeClaude(t, "says why"), "codex": newFakeCodex(t, "says why")} {
		t.Run(name, func(t *testing.T) {
			started(t, driver)
			result, err := driver.Turn(impatient(t), Request{Prompt: "go"}, nil)
			if _, ok := died(err); !ok || !strings.Contains(err.Error(), "no newline at the end") {
				t.Errorf("Turn = %v, want an error that says that it died, with its last words", err)
			}
			if !strings.Contains(result.Tail, "Credit balance is too low\nno newline at the end") {
				t.Errorf("tail %q, want all its words", result.Tail)
			}
		})
	}
}

// TestResume continues a session in a new program.
func TestResume(t *testing.T) {
	t.Parallel()
	withPrograms(t, func(t *testing.T, p realProgram) {
		answers := map[string]string{"remember 42": "noted", "what was it?": "forty-two"}
		script := func(_ context.Context, request modelstub.Request) modelstub.Reply {
			return modelstub.Reply{Text: answers[request.Prompt]}
		}
		first, server := p.create(t, script, nil)
		started(t, first)
		before := turn(t, first, "remember 42")
		stopped(t, first)
		second := p.resume(first, before.SessionID)
		if p.has("forgets") {
			defer stopped(t, second)
			if err := second.Start(impatient(t)); err != nil && !errors.Is(err, ErrUnknownSession) {
				t.Errorf("Start = %v, want ErrUnknownSession or none", err)
			}
			return
		}
		started(t, second)
		result := turn(t, second, "what was it?")
		if result.Text != "forty-two" || result.SessionID != before.SessionID || result.SessionID == "" {
			t.Errorf("result %+v, want forty-two and the session %s", result, before.SessionID)
		}
		want := Usage{Turns: result.Usage.Turns, InputTokens: modelstub.InputTokens, OutputTokens: modelstub.OutputTokens, CostUSD: result.Usage.CostUSD}
		if result.Usage != want || !p.has("cost") && !near(result.Usage.CostUSD, before.Usage.CostUSD) {
			t.Errorf("usage %+v after %+v, want %+v: what the session used before is not part of it", result.Usage, before.Usage, want)
		}
		asked := server.Requests()
		if got := asked[len(asked)-1].Prompts; len(got) != 2 || got[0] != "remember 42" {
			t.Errorf("the model was shown the prompts %q, want those of both programs", got)
		}
	})
}

// TestCancel cancels a turn and checks that the program ends and that another continues the
// session.
func TestCancel(t *testing.T) {
	t.Parallel()
	withPrograms(t, func(t *testing.T, p realProgram) {
		ctx, cancel := context.WithCancel(impatient(t))
		defer cancel()
		var process *program
		var driver *resident
		script := func(_ context.Context, request modelstub.Request) modelstub.Reply {
			if request.Prompt == "never ends" {
				process = driver.running.Load()
				cancel()
				return modelstub.Reply{Hold: make(chan struct{})}
			}
			return modelstub.Reply{Text: "answer"}
		}
		driver, _ = p.create(t, script, nil)
		started(t, driver)
		session := turn(t, driver, "hello").SessionID
		if _, err := driver.Turn(ctx, Request{Prompt: "never ends"}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Turn = %v, want context.Canceled", err)
		}
		if !process.hasEnded() {
			t.Error("the program still runs")
		}
		if result := turn(t, driver, "and now?"); result.Text != "answer" || result.SessionID != session && !p.has("forgets") {
			t.Errorf("result %+v, want an answer in session %s", result, session)
		}
	})
}

// TestKilled kills the program while the model speaks, in the first turn of a session and in a
// later one.
func TestKilled(t *testing.T) {
	t.Parallel()
	withPrograms(t, func(t *testing.T, p realProgram) {
		var driver *resident
		var server *modelstub.Server
		var victims []*program
		script := func(_ context.Context, request modelstub.Request) modelstub.Reply {
			prompt := request.Prompt
			if again := strings.Index(prompt, afterDeath[:20]); again > 0 {
				prompt = prompt[again:] // the program sends both prompts as one
			}
			if strings.HasPrefix(prompt, "kill") {
				victim := driver.running.Load()
				victims = append(victims, victim)
				victim.process.Kill() // the turn shows whether it worked
				return modelstub.Reply{Hold: make(chan struct{})}
			}
			return modelstub.Reply{Text: "done: " + prompt}
		}
		driver, server = p.create(t, script, nil)
		started(t, driver)
		for n, prompt := range []string{"kill first", "kill second"} {
			result := turn(t, driver, prompt)
			if !strings.HasPrefix(result.Text, "done: [The program that ran you ended") || !strings.HasSuffix(result.Text, prompt) {
				t.Errorf("answer %q, want the answer to the prompt with a note", result.Text)
			}
			if len(victims) != n+1 || !victims[n].hasEnded() {
				t.Errorf("%d programs were killed, want %d with the last one ended", len(victims), n+1)
			}
		}
		asked := server.Requests()
		if got := strings.Join(asked[len(asked)-1].Prompts, "|"); !p.has("forgets") && !strings.Contains(got, "kill first") {
			t.Errorf("the model was shown %q, want the session's first turn", got)
		}
	})
}
