package terminal

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestProgram checks that a program gets its folder, its environment, the size of the terminal, and
// keys, and does not see tmux.
func TestProgram(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "here"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	term := Start(t, Options{
		Dir: folder, Env: []string{"WORD=a $b 'ü'", "TMUX=elsewhere"}, Columns: 50, Lines: 12,
		Command: []string{"sh", "-c", `ls; echo "$WORD$TMUX$TMUX_PANE."; stty size; read line; echo "got $line"; read line; stty size; exit 3`},
	})
	term.Await("here\n", "a $b 'ü'.\n", "12 50\n")
	term.Say("-l 'x' ü")
	term.Await("got -l 'x' ü\n")
	term.Resize(60, 20)
	term.Press("Enter")
	term.Await("20 60\n")
	if status := term.Wait(); status != 3 {
		t.Errorf("the exit status is %d, want 3", status)
	}
	if screen := term.Screen(); !strings.Contains(screen, "20 60\n") {
		t.Errorf("after the end the screen lacks the last line:\n%s", screen)
	}
}

// TestSay checks that Say finds a pasted text that the program wraps, even if other text with its last word
// leaves the screen at the same time.
func TestSay(t *testing.T) {
	term := Start(t, Options{Command: []string{"sh", "-c",
		`stty -echo -icanon; echo UserPromptSubmit; head -c 9 >/dev/null; printf '\033[2J\033[Hhow is\n  it'; read -r line; printf '\nsaid\n'`}})
	term.Await("Submit\n")
	term.Say("how is it")
	term.Await("said\n")
}

// TestWrapped checks that a line that is longer than the screen is wide is one line.
func TestWrapped(t *testing.T) {
	line := strings.Repeat("word ", 20) + "end"
	Start(t, Options{Columns: 30, Command: []string{"printf", line + `   \nnext\n`}}).Await(line + "\nnext\n")
}

// TestStyled checks that colours are only in Styled.
func TestStyled(t *testing.T) {
	term := Start(t, Options{Command: []string{"printf", `\033[31mred\n`}})
	term.Await("red\n")
	if styled := term.Styled(); !strings.Contains(styled, "\x1b[31mred") {
		t.Errorf("the styles are %q, want red", styled)
	}
}

// TestTerminalsAreApart checks that each terminal has a server of its own.
func TestTerminalsAreApart(t *testing.T) {
	one, two := Start(t, Options{Command: []string{"cat"}}), Start(t, Options{Command: []string{"cat"}})
	one.Say("first")
	two.Say("second")
	one.Await("first\nfirst\n")
	one.Close()
	two.Await("second\nsecond\n")
	two.Press("C-d")
	if status := two.Wait(); status != 0 {
		t.Errorf("the exit status is %d, want 0", status)
	}
}

// newPipe makes a named pipe in the folder.
func newPipe(t *testing.T, folder string) (path string) {
	t.Helper()
	path = filepath.Join(folder, "pipe")
	if out, err := exec.Command("mkfifo", path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// open opens a named pipe when a program has opened it for writing.
func open(t *testing.T, path string) io.Reader {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return file
}

// TestKill checks that Kill also kills the processes that the program started, and that the screen
// stays.
func TestKill(t *testing.T) {
	folder := t.TempDir()
	pipe := newPipe(t, folder)
	term := Start(t, Options{Dir: folder, Command: []string{"sh", "-c", "exec 3>pipe; sleep 1000 & echo both run; wait"}})
	reader := open(t, pipe)
	term.Await("both run\n")
	term.Kill()
	if _, err := io.ReadAll(reader); err != nil { // ends with the last process that holds the pipe
		t.Error(err)
	}
	term.Kill() // changes nothing
	if screen := term.Screen(); !strings.Contains(screen, "both run\n") {
		t.Errorf("the screen lacks the line:\n%s", screen)
	}
}

// TestClose checks that the program gets a hangup when the terminal closes.
func TestClose(t *testing.T) {
	folder := t.TempDir()
	pipe := newPipe(t, folder)
	term := Start(t, Options{Dir: folder, Command: []string{"sh", "-c", "exec 3>pipe; trap 'echo closed >&3; exit' HUP; echo runs; while :; do sleep 0.01; done"}})
	reader := open(t, pipe)
	term.Await("runs\n")
	term.Close()
	if text, err := io.ReadAll(reader); err != nil || string(text) != "closed\n" {
		t.Errorf("the program said %q (%v), want closed", text, err)
	}
}

// complaints is a test that records its failure.
type complaints struct {
	testing.TB
	said string
}

func (c *complaints) Fatalf(format string, arguments ...any) {
	c.said = fmt.Sprintf(format, arguments...)
	runtime.Goexit()
}

// TestAwaitFails checks that a text that is missing when the program ends fails the test with the
// screen.
func TestAwaitFails(t *testing.T) {
	c := &complaints{TB: t}
	term := Start(c, Options{Command: []string{"echo", "the only line"}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		term.Await("the only", "another")
	}()
	<-done
	if !strings.Contains(c.said, `ended, and the screen lacks "another"`) || !strings.Contains(c.said, "the only line\n") {
		t.Errorf("the failure is %q, want the missing text and the screen", c.said)
	}
}
