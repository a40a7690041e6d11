package setup

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox/doctor"
)

var thorough = flag.Bool("thorough", false, "set up each program for the project and for the user, not only one of them")

// recorder stands for oacp: it writes down how it was called, and for a hook also the event.
const recorder = `#!/bin/sh
{ echo "$*"; if [ "$1" = hook ]; then cat; echo; fi; } >> "${0%/*}/record"
`

// A programScene is a scene with a real program, which has the model of a script behind it.
type programScene struct {
	*scene
	program, record string
	env             []string
}

func newProgramScene(t *testing.T, program live.Program, tool modelstub.ToolCall) *programScene {
	t.Helper()
	s := &programScene{scene: newScene(t), program: modelstub.Program(t, string(program))}
	server := modelstub.Start(t, func(_ context.Context, r modelstub.Request) modelstub.Reply {
		if len(r.Results) > 0 || !slices.Contains(r.Tools, tool.Name) {
			return modelstub.Reply{Text: "done"}
		}
		return modelstub.Reply{Calls: []modelstub.ToolCall{tool}}
	})
	bin := t.TempDir()
	s.record = filepath.Join(bin, "record")
	for _, name := range []string{"oacp", "oacp-mcp"} { // nothing calls the second: the recorder is the server
		if err := os.WriteFile(filepath.Join(bin, name), []byte(recorder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	s.env = append(os.Environ(), server.ClaudeEnv(s.home)...)
	if program == live.Codex {
		s.env = append(os.Environ(), server.CodexEnv(t, s.home)...)
	}
	if out, err := exec.Command("git", "init", "--quiet", s.project).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	return s
}

// options are those of the scene, with the environment of the program.
func (s *programScene) options(program live.Program, scope Scope) Options {
	o := s.scene.options(program, scope)
	o.Getenv = func(name string) string {
		value := ""
		for _, pair := range s.env {
			if text, ok := strings.CutPrefix(pair, name+"="); ok {
				value = text
			}
		}
		return value
	}
	return o
}

// run runs the program in a folder below the project and returns what was called.
func (s *programScene) run(args ...string) string {
	s.t.Helper()
	below := filepath.Join(s.project, "below")
	if err := os.MkdirAll(below, 0o755); err != nil {
		s.t.Fatal(err)
	}
	command := exec.Command(s.program, args...)
	command.Dir, command.Env = below, s.env
	out, err := command.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	called, err := os.ReadFile(s.record)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	if err := os.RemoveAll(s.record); err != nil {
		s.t.Fatal(err)
	}
	return string(called)
}

func (s *programScene) wantCalls(o Options, called string) {
	s.t.Helper()
	var got []string
	for _, match := range regexp.MustCompile(`"hook_event_name": ?"(\w+)"`).FindAllStringSubmatch(called, -1) {
		got = append(got, match[1])
	}
	slices.Sort(got)
	if want := []string{"PostToolUse", "SessionEnd", "SessionStart", "Stop", "UserPromptSubmit"}; !slices.Equal(got, want) {
		s.t.Errorf("the events are %v, want %v", got, want)
	}
	for _, want := range []string{fmt.Sprintf("hook %s --agent %s\n", o.Program, o.Agent), fmt.Sprintf("mcp --agent %s\n", o.Agent)} {
		if !strings.Contains(called, want) {
			s.t.Errorf("there is no call %q in\n%s", want, called)
		}
	}
}

// TestClaudeRunsHooks lets the real claude work with what a setup writes, and after its removal.
func TestClaudeRunsHooks(t *testing.T) {
	for _, scope := range []Scope{Project, User} {
		if scope == User && !*thorough {
			continue
		}
		t.Run(string(scope), func(t *testing.T) {
			s := newProgramScene(t, live.Claude, modelstub.ToolCall{Name: "Bash", Input: map[string]any{"command": "true", "description": "nothing"}})
			s.write("home/.claude/settings.json", `{"permissions": {"allow": ["Bash"]}}`)
			o := s.options(live.Claude, scope)
			o.Agent = "reviewer"
			s.do(Prepare, o)
			s.wantCalls(o, s.run("-p", "hello"))
			s.env = append(s.env, "OACP_AGENT=planner")
			if called := s.run("-p", "hello"); !strings.Contains(called, "mcp --agent planner\n") {
				t.Errorf("with another agent in the environment claude calls\n%s", called)
			}
			s.do(PrepareRemoval, o)
			if called := s.run("-p", "hello"); called != "" {
				t.Errorf("after the removal claude calls\n%s", called)
			}
		})
	}
}

// TestCodexRunsHooks lets the real codex work with what a setup writes, once the user has reviewed
// it, and after its removal.
func TestCodexRunsHooks(t *testing.T) {
	for _, scope := range []Scope{Project, User} {
		if scope == Project && !*thorough {
			continue
		}
		t.Run(string(scope), func(t *testing.T) {
			s := newProgramScene(t, live.Codex, modelstub.ToolCall{Name: "exec_command", Input: map[string]any{"cmd": "true"}})
			config := "home/.codex/config.toml"
			s.write(config, withoutMode(s.files()[config])+fmt.Sprintf("[projects.%q]\ntrust_level = \"trusted\"\n", s.project))
			o := s.options(live.Codex, scope) // for the agent claude
			s.do(Prepare, o)
			if called := s.run("exec", "hello"); strings.Contains(called, "hook") {
				t.Errorf("before the review codex calls\n%s", called)
			}
			s.review(o, config)
			for _, f := range Inspect(o, s.project) {
				if f.Severity == doctor.SeverityWarning {
					t.Errorf("after the review: %s", f.Message)
				}
			}
			s.wantCalls(o, s.run("exec", "hello"))
			s.do(PrepareRemoval, o)
			if called := s.run("exec", "hello"); called != "" {
				t.Errorf("after the removal codex calls\n%s", called)
			}
		})
	}
}

// review writes what codex writes when the user trusts all hooks: for the place of each its hash.
func (s *programScene) review(o Options, config string) {
	s.t.Helper()
	f, ok := o.look()
	if !ok {
		s.t.Fatal("there is no setup")
	}
	text, upper := withoutMode(s.files()[config]), regexp.MustCompile(`\B[A-Z]`)
	for _, event := range events[o.Program] {
		name := strings.ToLower(upper.ReplaceAllString(event, "_$0"))
		entry := entryFor(event, o.hookCommand())
		hashed := encode(map[string]any{"event_name": name, "hooks": []any{
			map[string]any{"async": false, "command": entry.Command, "timeout": entry.Timeout, "type": entry.Type},
		}})
		text += fmt.Sprintf("[hooks.state.%q]\ntrusted_hash = \"sha256:%x\"\n", f.hooksPath+":"+name+":0:0", sha256.Sum256([]byte(hashed)))
	}
	s.write(config, text)
}
