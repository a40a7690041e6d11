package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/modelstub"
	"github.com/oacp-go/oacp/internal/orphans"
)

// program is one of the ways in which a driver runs a real agent.
type program struct {
	name string
	// create returns a driver for the program, whose model is the script.
	create func(testing.TB, modelstub.Script, demands) (Driver, *modelstub.Server)
	// shell is what a model says to have a command run.
	shell func(command string) modelstub.Reply
	// running is the program that the driver runs.
	running func(Driver) *child
	// asks reports whether the driver is asked for leave.
	asks bool
	// helper is the program, the folder and the variables with which the
	// helper of the same name runs it.
	helper func(Driver) []string
}

// demands are the options that all drivers have.
type demands struct {
	session string
	approve Approver
	mcp     map[string]MCPServer
}

var programs = []program{
	{
		name: "claude", asks: true, shell: bash,
		create: func(t testing.TB, script modelstub.Script, d demands) (Driver, *modelstub.Server) {
			return realClaude(t, script, func(o *ClaudeOptions) { o.Session, o.Approve, o.MCP = d.session, d.approve, d.mcp })
		},
		running: func(driver Driver) *child {
			c := driver.(*Claude)
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.process == nil {
				return nil
			}
			return c.process.child
		},
		helper: func(driver Driver) []string {
			o := driver.(*Claude).options
			return append([]string{o.Command[0], o.Dir}, o.Env...)
		},
	},
	{name: "codex", asks: true, shell: execCommand, create: codexProgram(false), running: runningCodex, helper: codexHelper},
	{name: "codex exec", shell: execCommand, create: codexProgram(true), running: runningCodex, helper: codexHelper},
}

// bash is what a model says to claude to have a command run.
func bash(command string) modelstub.Reply {
	return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "Bash", Input: map[string]any{"command": command, "description": "a test"}}}}
}

// execCommand is what a model says to codex to have a command run.
func execCommand(command string) modelstub.Reply {
	return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "exec_command", Input: map[string]any{"cmd": command, "yield_time_ms": 60000}}}}
}

func codexProgram(exec bool) func(testing.TB, modelstub.Script, demands) (Driver, *modelstub.Server) {
	return func(t testing.TB, script modelstub.Script, d demands) (Driver, *modelstub.Server) {
		return realCodex(t, script, func(o *CodexOptions) {
			o.Session, o.Approve, o.MCP, o.Exec = d.session, d.approve, d.mcp, exec
			o.Sandbox, o.ApprovalPolicy = "danger-full-access", "never"
			if d.approve != nil && !exec {
				o.ApprovalPolicy = "untrusted"
			}
		})
	}
}

func runningCodex(driver Driver) *child {
	c := driver.(*Codex)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exec || c.server == nil {
		return c.command
	}
	return c.server.child
}

func codexHelper(driver Driver) []string {
	o := driver.(*Codex).options
	return append([]string{o.Command[0], o.Dir}, o.Env...)
}

// withPrograms runs a test with each program.
func withPrograms(t *testing.T, test func(*testing.T, program)) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) { test(t, p) })
	}
}

// TestSessionInjection: the id of a session is no place for options.
func TestSessionInjection(t *testing.T) {
	withPrograms(t, func(t *testing.T, p program) {
		for _, session := range []string{
			"--permission-mode=bypassPermissions", "--dangerously-bypass-approvals-and-sandbox", "-", "a b", "a\nb", "\x00", "a/b", strings.Repeat("a", 201),
		} {
			driver, _ := p.create(t, modelstub.Answers(t), demands{session: session})
			if err := driver.Start(impatient(t)); !errors.Is(err, ErrUnknownSession) || errors.Is(err, ErrUnavailable) {
				t.Errorf("Start with session %q = %v, want ErrUnknownSession", session, err)
			}
			if p.running(driver) != nil {
				t.Errorf("session %q: a program was started, want none", session)
			}
		}
	})
}

// TestDiesOnce: what an attempt said that was not the last is no answer, but
// what it used up was used up.
func TestDiesOnce(t *testing.T) {
	for name, driver := range map[string]Driver{"claude": newFakeClaude(t, "dies once"), "codex": newFakeCodex(t, "dies once")} {
		t.Run(name, func(t *testing.T) {
			started(t, driver)
			result := turn(t, driver, "go")
			if result.Text != "" || !strings.Contains(result.Tail, "could not finish") {
				t.Errorf("text %q, tail %q, want that of the first attempt in the tail alone", result.Text, result.Tail)
			}
			if want := (Usage{InputTokens: 1200, OutputTokens: 12}); name == "codex" && result.Usage != want {
				t.Errorf("usage %+v, want %+v", result.Usage, want)
			}
		})
	}
}

// TestMark: whatever a driver starts has the mark of the context, by which what
// a killed runner has left is found.
func TestMark(t *testing.T) {
	exec := newFakeCodex(t, "mark")
	exec.options.Exec = true
	for name, driver := range map[string]Driver{
		"claude": newFakeClaude(t, "mark"), "codex": newFakeCodex(t, "mark"), "codex exec": exec,
		"exec": NewExec(helperCommand(t, "env", orphans.Variable), nil),
	} {
		t.Run(name, func(t *testing.T) {
			mark := orphans.NewMark()
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

// TestDeathInWords: what a program says in words before it dies is told.
func TestDeathInWords(t *testing.T) {
	exec := newFakeCodex(t, "says why")
	exec.options.Exec = true
	for name, driver := range map[string]Driver{"claude": newFakeClaude(t, "says why"), "codex": newFakeCodex(t, "says why"), "codex exec": exec} {
		t.Run(name, func(t *testing.T) {
			started(t, driver)
			result, err := driver.Turn(impatient(t), Request{Prompt: "go"}, nil)
			death, ok := died(err)
			if !ok || !strings.Contains(err.Error(), "no newline at the end") || !strings.Contains(death.Complaints, "Credit balance is too low") {
				t.Errorf("Turn = %v, want that it died, and all that it said", err)
			}
			if !strings.Contains(result.Tail, "Credit balance is too low\nno newline at the end") {
				t.Errorf("tail %q, want all that it said", result.Tail)
			}
		})
	}
}
