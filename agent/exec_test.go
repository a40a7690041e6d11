package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestExecStart(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain-file")
	if err := os.WriteFile(plain, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(helperCommand(t, "cat")[0], filepath.Join(dir, "program")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		command []string
		dir     string
		want    string // in the error; empty means no error
	}{
		{"found in the path", []string{"go"}, "", ""},
		{"found by its path", helperCommand(t, "cat"), "", ""},
		{"found from the working folder", []string{"./program"}, dir, ""},
		{"found through the parent folder", []string{filepath.Join("..", filepath.Base(dir), "program")}, dir, ""},
		{"not in the folder of this process", []string{"./exec_test.go"}, dir, "exec_test.go"},
		{"not in the path", []string{"./go"}, ".", "go"},
		{"no command", nil, "", "no command"},
		{"empty command", []string{""}, "", "no command"},
		{"missing in the path", []string{"no-such-agent", "--flag"}, "", "no-such-agent"},
		{"missing file", []string{filepath.Join(dir, "missing")}, "", "missing"},
		{"not executable", []string{plain}, "", "plain-file"},
		{"folder", []string{dir}, "", filepath.Base(dir)},
		{"missing working folder", []string{"go"}, filepath.Join(dir, "nowhere"), "nowhere"},
		{"working folder is a file", []string{"go"}, plain, "plain-file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := NewExec(Options{Command: test.command, Dir: test.dir}).Start(t.Context())
			switch {
			case test.want == "" && err != nil:
				t.Errorf("Start = %v, want no error", err)
			case test.want != "" && (!errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), test.want)):
				t.Errorf("Start = %v, want ErrUnavailable naming %q", err, test.want)
			}
		})
	}
}

func TestExecTurnOfUnstartable(t *testing.T) {
	if _, err := NewExec(Options{Command: []string{"go"}}).Turn(t.Context(), Request{}, nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Turn before Start = %v, want ErrUnavailable", err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	driver := started(t, NewExec(Options{Command: []string{script}}))
	if _, err := driver.Turn(t.Context(), Request{}, nil); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "script") {
		t.Errorf("Turn with a missing interpreter = %v, want ErrUnavailable naming the script", err)
	}
}

func TestExecTurn(t *testing.T) {
	hostile := "$(touch /tmp/x) `id` ; rm -rf * | & > < ' \" \\ \x00 \x1b[2J \r\n\t\xff\xfe ü…"
	long := strings.Repeat("a line of a prompt\n", 40_000)
	tests := []struct {
		name      string
		kind      string
		args      []string
		prompt    string
		want      string
		truncated bool
		tail      string
		code      int
		signal    bool
	}{
		{name: "echo", kind: "cat", prompt: "hello\n", want: "hello\n", tail: "hello\n"},
		{name: "nothing", kind: "cat"},
		{name: "hostile prompt", kind: "cat", prompt: hostile, want: strings.ToValidUTF8(hostile, "\uFFFD"), tail: "…"},
		{name: "long prompt", kind: "cat", prompt: long, want: long, tail: "prompt\n"},
		{name: "unread prompt", kind: "deaf", prompt: long, want: "did not listen\n", tail: "listen\n"},
		{name: "exit status", kind: "fail", want: "half an answer\n", tail: "it broke\n", code: 3},
		{name: "ended by a signal", kind: "killed", code: -1, signal: runtime.GOOS != "windows"},
		{name: "more than the limit", kind: "flood", args: []string{fmt.Sprint(2 * MaxText)}, truncated: true, tail: "the end\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			driver := started(t, NewExec(Options{Command: helperCommand(t, test.kind, test.args...)}))
			var shown strings.Builder
			got, err := driver.Turn(impatient(t), Request{Prompt: test.prompt}, func(e Event) { shown.WriteString(e.Text) })
			var exit *ExitError
			switch {
			case test.code == 0 && err != nil:
				t.Errorf("error %v, want none", err)
			case test.code != 0 && !errors.As(err, &exit):
				t.Errorf("error %v, want an ExitError", err)
			case test.code > 0 && exit.Code != test.code:
				t.Errorf("exit status %d, want %d", exit.Code, test.code)
			case test.signal && (exit.Signal != "killed" || exit.Code != -1):
				t.Errorf("signal %q and code %d, want killed and -1", exit.Signal, exit.Code)
			}
			if !test.truncated && got.Text != test.want {
				t.Errorf("text %.200q, want %.200q", got.Text, test.want)
			}
			if got.Truncated != test.truncated || len(got.Text) > MaxText {
				t.Errorf("truncated %v with %d bytes, want %v", got.Truncated, len(got.Text), test.truncated)
			}
			// The two outputs are separate pipes, so their order is random.
			if end := got.Tail[max(0, len(got.Tail)-40):]; !strings.Contains(end, test.tail) || len(got.Tail) > 3*maxTail {
				t.Errorf("tail of %d bytes ends in %q, want %q", len(got.Tail), end, test.tail)
			}
			if !test.truncated && !strings.Contains(shown.String(), test.want) {
				t.Errorf("events show %.200q, want %.200q", shown.String(), test.want)
			}
		})
	}
}

// TestExecPromptByteForByte checks that the command receives the exact bytes of the prompt. The
// result cannot show this, because its text is repaired.
func TestExecPromptByteForByte(t *testing.T) {
	var prompt strings.Builder
	for i := range 256 {
		prompt.WriteByte(byte(i))
	}
	prompt.WriteString("$HOME `id` $(id) \x1b]0;title\x07 ; exit 1\n")
	file := filepath.Join(t.TempDir(), "received")
	if runtime.GOOS == "windows" {
		t.Skip("needs tee")
	}
	driver := started(t, NewExec(Options{Command: []string{"tee", file}}))
	if _, err := driver.Turn(t.Context(), Request{Prompt: prompt.String()}, nil); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != prompt.String() {
		t.Errorf("received %q (%v), want %q", got, err, prompt.String())
	}
}

func TestExecEnvironment(t *testing.T) {
	t.Setenv("OACP_MESSAGE_CHANNEL", "of an outer turn")
	options := Options{
		Command: helperCommand(t, "env", "OACP_A", "OACP_B", "OACP_MESSAGE_CHANNEL", "OACP_NUL", "OACP_BYTES", "OACP_LONG"),
		Env:     []string{"OACP_A=1", "OACP_B=of the options"},
	}
	driver := started(t, NewExec(options))
	got, err := driver.Turn(t.Context(), Request{Env: []string{
		"OACP_B=$(of) the=turn", "OACP_MESSAGE_CHANNEL=", "OACP_NUL=a\x00b", "OACP_BYTES=\xff\n", "OACP_LONG=" + strings.Repeat("ü", 1<<20),
		"no variable", "=no name", "\x00=x",
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "OACP_A=\"1\"\nOACP_B=\"$(of) the=turn\"\nOACP_MESSAGE_CHANNEL=\"\"\nOACP_NUL=\"ab\"\nOACP_BYTES=\"\uFFFD\\n\"\n" +
		"OACP_LONG=\"" + strings.Repeat("ü", maxVariable/2) + "\"\n"
	if got.Text != want {
		t.Errorf("environment\n%.400s\nwant\n%.400s", got.Text, want)
	}
}

func TestExecStops(t *testing.T) {
	enough := errors.New("enough")
	tests := []struct {
		name string
		kind string
		args []string
		want string // the tail's end
	}{
		{"ends when asked", "polite", nil, "cleaned up\n"},
		{"ends by the signal", "hang", nil, "hanging\n"},
		{"ignores SIGTERM", "stubborn", nil, "hanging\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && test.kind == "polite" {
				t.Skip("this system cannot ask a process to end")
			}
			grace := time.Minute
			if test.kind == "stubborn" {
				grace = 50 * time.Millisecond
			}
			driver := started(t, NewExec(Options{Command: helperCommand(t, test.kind, test.args...), Grace: grace}))
			ctx, cancel := context.WithCancelCause(impatient(t))
			defer cancel(nil)
			result, err := driver.Turn(ctx, Request{}, whenSeen("hanging", func() { cancel(enough) }))
			if !errors.Is(err, enough) {
				t.Errorf("error %v, want the cause %v", err, enough)
			}
			if !strings.HasSuffix(result.Tail, test.want) {
				t.Errorf("tail %q, want it to end in %q", result.Tail, test.want)
			}
		})
	}
}

func TestExecCancelledBefore(t *testing.T) {
	driver := started(t, NewExec(Options{Command: helperCommand(t, "hang")}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := driver.Turn(ctx, Request{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}
