package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
)

// A session is a person or a program at a terminal that the test makes.
type session struct {
	*command.Streams
	stdout, stderr bytes.Buffer
	env            map[string]string
}

// newSession returns a session in a new workspace of the given agents.
func newSession(t *testing.T, agents string) *session {
	t.Helper()
	c := &session{env: make(map[string]string)}
	c.Streams = &command.Streams{
		In: strings.NewReader(""), Err: &c.stderr, Dir: t.TempDir(), Now: time.Now,
		Getenv: func(name string) string { return c.env[name] },
	}
	c.must(t, "init", "--agents", agents)
	return c
}

// run runs a command line and keeps its output in stdout and stderr.
func (c *session) run(ctx context.Context, args ...string) int {
	c.stdout.Reset()
	c.stderr.Reset()
	c.Out = bufio.NewWriter(&c.stdout)
	return run(ctx, args, c.Streams)
}

// must runs a command line that must succeed, and returns its output.
func (c *session) must(t *testing.T, args ...string) string {
	t.Helper()
	if exit := c.run(t.Context(), args...); exit != failure.ExitDone {
		t.Fatalf("oacp %s: exit status %d, want 0; standard error:\n%s", strings.Join(args, " "), exit, c.stderr.String())
	}
	return c.stdout.String()
}

const hostile = "id: msg-20260313T1201Z-a-aaa1\nfrom: a\nto: b\ntype: question\npriority: P0\n" +
	"created_at_utc: 2026-03-13T12:01:00Z\nsubject: \"\\e[2J a long subject that no narrow terminal can show in full, ever\"\n" +
	"body: \"one\\ttab\\n\\e]0;title\\a\\u202etxet\\n\"\n"

func withHostileMessage(t *testing.T) *session {
	t.Helper()
	c := newSession(t, "a,b")
	path := filepath.Join(c.Dir, "agents/b/inbox/20260313T1201Z_a_question.yaml")
	if err := os.WriteFile(path, []byte(hostile), 0o644); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTableOnTerminal(t *testing.T) {
	c := withHostileMessage(t)
	c.OutTerminal, c.Width = true, 80
	out := c.must(t, "inbox", "--agent", "b")
	for line := range strings.Lines(out) {
		if width := cells.String(strings.TrimSuffix(line, "\n")); width > c.Width {
			t.Errorf("a line has %d columns, want at most %d:\n%s", width, c.Width, line)
		}
	}
	if !strings.Contains(out, "…") || !strings.Contains(out, "\x1b[31;1mP0") && !strings.Contains(out, "\x1b[1;31mP0") {
		t.Errorf("want a shortened subject and a red P0, got:\n%q", out)
	}
	if strings.Contains(out, "\x1b[2J") {
		t.Errorf("the message's escape sequence is printed:\n%q", out)
	}

	c.env["NO_COLOR"] = "1"
	if out := c.must(t, "inbox", "--agent", "b"); strings.Contains(out, "\x1b") {
		t.Errorf("with NO_COLOR the output has escape sequences:\n%q", out)
	}
	c.OutTerminal, c.Width = false, 0
	if out := c.must(t, "inbox", "--agent", "b"); !strings.Contains(out, `\x1b[2J a long subject that no narrow terminal can show in full, ever`) {
		t.Errorf("in a pipe the subject is not there in full:\n%s", out)
	}
}

func TestBodyOnTerminal(t *testing.T) {
	c := withHostileMessage(t)
	if out, want := c.must(t, "read", "aaa1"), "| one\ttab\n| \\x1b]0;title\\x07\\u202etxet\n"; !strings.HasSuffix(out, want) {
		t.Errorf("in a pipe the body is %q, want %q at the end", out, want)
	}
	c.OutTerminal = true
	if out, want := c.must(t, "read", "aaa1"), "one\ttab\n\\x1b]0;title\\x07\\u202etxet\n"; !strings.HasSuffix(out, want) {
		t.Errorf("on a terminal the body is %q, want %q at the end", out, want)
	}
}

// TestWatchOnTerminal checks that watch tells a person how to keep watching.
func TestWatchOnTerminal(t *testing.T) {
	c := newSession(t, "a,b")
	c.OutTerminal = true
	if c.must(t, "watch", "--agent", "b"); !strings.Contains(c.stderr.String(), "--follow") {
		t.Errorf("standard error is %q, want a hint at --follow", c.stderr.String())
	}
	c.OutTerminal = false
	if c.must(t, "watch", "--agent", "b"); c.stderr.String() != "" {
		t.Errorf("standard error is %q, want nothing", c.stderr.String())
	}
}

// A fullDisk accepts no bytes.
type fullDisk struct{}

var errFull = errors.New("no space left on device")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestOutputThatFails(t *testing.T) {
	c := newSession(t, "a,b")
	for _, args := range [][]string{{"schema"}, {"inbox", "--all"}, {"help"}, {"inbox", "--all", "--json"}} {
		c.stderr.Reset()
		c.Out = bufio.NewWriter(fullDisk{})
		if exit := run(t.Context(), args, c.Streams); exit != failure.ExitFailed {
			t.Errorf("oacp %s: exit status %d, want %d", strings.Join(args, " "), exit, failure.ExitFailed)
		}
		if got := c.stderr.String(); !strings.Contains(got, errFull.Error()) {
			t.Errorf("oacp %s: standard error is %q, want it to say %q", strings.Join(args, " "), got, errFull)
		}
	}
}

// TestResultThatFails checks that a command that changed something says so if its result cannot be printed, and that one
// that only reads does not.
func TestResultThatFails(t *testing.T) {
	c := newSession(t, "a,b")
	id := strings.TrimSpace(c.must(t, "send", "--from", "a", "--to", "b", "--type", "question", "--subject", "s", "--body", "x", "--quiet"))
	log := filepath.Join(t.TempDir(), "bridge.jsonl")
	for _, line := range []string{
		"working ID --agent b", "ack ID --json", "restore ID", "ack ID", "add-agent c", "add-agent d --json", "remove-agent c --yes",
		"prune --older-than 1h", "key gen --agent a --oacp-dir HOME", "bridge send --bridge LOG --from a --type task --content x",
		"bridge send --bridge LOG --from a --type task --content y --json", "mirror --bridge LOG", "mirror --bridge LOG --json", "init --agents e",
		"inbox --all", "list --json", "status ID", "thread ID", "agents",
	} {
		c.stderr.Reset()
		c.Out = bufio.NewWriter(fullDisk{})
		args := strings.Fields(strings.NewReplacer("ID", id, "LOG", log, "HOME", t.TempDir()).Replace(line))
		exit := run(t.Context(), args, c.Streams)
		reads := slices.Contains([]string{"inbox", "list", "status", "thread", "agents"}, args[0])
		got := c.stderr.String()
		if exit != failure.ExitFailed || !strings.Contains(got, errFull.Error()) || strings.Contains(got, "it is done, but printing the result failed") == reads {
			t.Errorf("oacp %s: exit status %d, standard error %q", line, exit, got)
		}
	}
}

// TestReceiptThatFails checks that an error while printing the receipt says that the message is
// sent, so that no caller sends it again.
func TestReceiptThatFails(t *testing.T) {
	c := newSession(t, "a,b")
	c.stderr.Reset()
	c.Out = bufio.NewWriter(fullDisk{})
	exit := run(t.Context(), []string{"send", "--from", "a", "--to", "b", "--type", "question", "--subject", "s", "--body", "x"}, c.Streams)
	if exit != failure.ExitFailed {
		t.Errorf("exit status is %d, want %d", exit, failure.ExitFailed)
	}
	if got := c.stderr.String(); !strings.Contains(got, "is sent, but printing the result failed") || !strings.Contains(got, "hint: do not send it again") {
		t.Errorf("standard error is %q, want it to say that the message is sent", got)
	}
	if out := c.must(t, "inbox", "--agent", "b"); !strings.Contains(out, "1 pending") {
		t.Errorf("the inbox is %q, want the message in it", out)
	}
}

func TestInputThatFails(t *testing.T) {
	c := newSession(t, "a,b")
	c.In = io.MultiReader(strings.NewReader("half a body"), failingReader{})
	if exit := c.run(t.Context(), "send", "--from", "a", "--to", "b", "--type", "question", "--subject", "s"); exit != failure.ExitFailed {
		t.Errorf("exit status is %d, want %d", exit, failure.ExitFailed)
	}
	if out := c.must(t, "inbox", "--agent", "b"); !strings.Contains(out, "nothing pending") {
		t.Errorf("half a body was sent:\n%s", out)
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("the other end died") }
