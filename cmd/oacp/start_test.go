package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
)

// TestLinksNothingHeavy checks the packages that the program links, since every command pays for
// them at start. Commands that need a heavy package are separate programs.
func TestLinksNothingHeavy(t *testing.T) {
	output, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(output)) {
		for _, heavy := range []string{"net/http", "crypto/tls", "github.com/modelcontextprotocol/", "github.com/gdamore/tcell", "github.com/santhosh-tekuri/jsonschema", "modernc.org/"} {
			if path := strings.TrimSpace(line); strings.HasPrefix(path, heavy) {
				t.Errorf("oacp links %s", path)
			}
		}
	}
}

// BenchmarkStart measures the cost of every command before it does anything.
func BenchmarkStart(b *testing.B) {
	s := command.ProcessStreams()
	s.Out = bufio.NewWriter(io.Discard)
	args := []string{"version", "--json"}
	b.ReportAllocs()
	for b.Loop() {
		if exit := run(b.Context(), args, s); exit != failure.ExitDone {
			b.Fatalf("exit status is %d, want 0", exit)
		}
	}
}

// BenchmarkHook measures processes: what a hook adds to the start of a program, with nothing to tell and with
// mail. Compare with version.
func BenchmarkHook(b *testing.B) {
	const session = `"session_id":"5e6f","source":"startup"`
	oacp := filepath.Join(b.TempDir(), "oacp")
	if out, err := exec.Command("go", "build", "-o", oacp, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	call := func(b *testing.B, dir, event string, args ...string) string {
		program := exec.Command(oacp, args...)
		program.Dir, program.Stdin = dir, strings.NewReader(`{"hook_event_name":"`+event+`",`+session+`}`)
		out, err := program.Output()
		if err != nil {
			b.Fatal(err)
		}
		return string(out)
	}
	b.Run("version", func(b *testing.B) {
		dir := b.TempDir()
		for b.Loop() {
			call(b, dir, "", "version")
		}
	})
	mailbox := func(b *testing.B, messages int) string {
		dir := b.TempDir()
		call(b, dir, "", "init", "--agents", "claude,codex")
		for range messages {
			call(b, dir, "", "send", "--from", "codex", "--to", "claude", "--type", "question", "--subject", "Which port?", "--body", "The server needs it.")
		}
		return dir
	}
	// many adds copies of a message to the inbox, and lets its time settle.
	many := func(b *testing.B, dir string, messages int) {
		inbox := filepath.Join(dir, "agents/claude/inbox")
		for n := range messages {
			text := fmt.Sprintf("id: msg-20260313T1430Z-codex-%016d\nfrom: codex\nto: claude\ntype: question\npriority: P2\ncreated_at_utc: \"2026-03-13T14:30:00Z\"\nsubject: Which port?\nbody: x\n", n)
			if err := os.WriteFile(filepath.Join(inbox, fmt.Sprintf("%05d.yaml", n)), []byte(text), 0o644); err != nil {
				b.Fatal(err)
			}
		}
		earlier := time.Now().Add(-time.Hour)
		if err := os.Chtimes(inbox, earlier, earlier); err != nil {
			b.Fatal(err)
		}
	}
	for _, messages := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("quiet/messages=%d", messages), func(b *testing.B) {
			dir := mailbox(b, 0)
			many(b, dir, messages)
			call(b, dir, "SessionStart", "hook", "claude")
			call(b, dir, "UserPromptSubmit", "hook", "claude")
			call(b, dir, "PostToolUse", "hook", "claude")
			for b.Loop() {
				if out := call(b, dir, "PostToolUse", "hook", "claude"); out != "" {
					b.Fatalf("the hook says %s", out)
				}
			}
		})
	}
	b.Run("one new message", func(b *testing.B) {
		dir := mailbox(b, 0)
		call(b, dir, "SessionStart", "hook", "claude")
		for b.Loop() {
			b.StopTimer()
			call(b, dir, "", "send", "--from", "codex", "--to", "claude", "--type", "question", "--subject", "Which port?", "--body", "x")
			b.StartTimer()
			if out := call(b, dir, "PostToolUse", "hook", "claude"); !strings.Contains(out, "Which port?") {
				b.Fatalf("the hook says %q", out)
			}
		}
	})
	b.Run("start/messages=10", func(b *testing.B) {
		dir := mailbox(b, 10)
		for b.Loop() {
			if err := os.RemoveAll(filepath.Join(dir, "state/live")); err != nil {
				b.Fatal(err)
			}
			if out := call(b, dir, "SessionStart", "hook", "claude"); !strings.Contains(out, "10 messages") {
				b.Fatalf("the hook says %q", out)
			}
		}
	})
}
