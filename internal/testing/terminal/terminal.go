// Package terminal runs programs in a terminal of tmux for tests.
package terminal

import (
	"bufio"
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/processgroup"
	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// Options say what runs in a terminal.
type Options struct {
	// Command is the program and its arguments.
	Command []string
	// Dir is the folder that the program runs in, by default an empty one.
	Dir string
	// Env is added to the environment of the test.
	Env []string
	// Columns and Lines are the size of the terminal, by default 120 and 40.
	Columns, Lines int
}

// A Terminal runs a program, which cannot see that tmux provides the terminal. The screen stays when the
// program has ended. When the test ends, the terminal kills the program and waits for its end.
type Terminal struct {
	t testing.TB
	// folder holds the socket and the settings of the tmux server, and two files that the holder writes: the
	// process id of the program, and its exit status.
	folder string
	// program is the process of the command.
	program *os.Process
	// changes has an element if the screen may have changed. It is closed when the server ends.
	changes chan struct{}
	// watched is closed when the tmux client that reports changes has ended.
	watched chan struct{}
	closed  bool
}

const (
	// settings configure the tmux server.
	settings = "set -g status off\nset -g escape-time 0\n"
	// holder is a shell script that starts the program as a job of its own. $0 is the folder. When it has written a
	// file there, it prints a sequence without effect, so that await looks again.
	holder = `exec 3>&2 2>/dev/null
set -m
sh -c 'echo $$ >"$0/new" && mv "$0/new" "$0/program" && printf "\033[0m"; exec "$@"' "$0" "$@" 2>&3 3>&-
echo $? >"$0/new" && mv "$0/new" "$0/status"
stty -echo -isig
printf "\033[0m"
exec sleep 1000000
`
	// patience is how long something may take to appear on the screen.
	patience = 3 * time.Minute
)

// Start runs a program in a terminal until the test ends. Without tmux it skips the test, or fails
// it if OACP_REQUIRE_CLIS is set.
func Start(t testing.TB, options Options) *Terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		modelstub.Missing(t, "tmux is not installed")
	}
	term := &Terminal{t: t, folder: t.TempDir(), changes: make(chan struct{}, 1), watched: make(chan struct{})}
	if options.Dir == "" {
		options.Dir = t.TempDir()
	}
	if err := os.WriteFile(filepath.Join(term.folder, "settings"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{
		"-f", "settings", "new-session", "-d", "-c", options.Dir, "-x", strconv.Itoa(cmp.Or(options.Columns, 120)), "-y", strconv.Itoa(cmp.Or(options.Lines, 40)),
		"env", "-u", "TMUX", "-u", "TMUX_PANE", "sh", "-c", holder, term.folder,
	}
	start := term.command(append(arguments, options.Command...)...)
	start.Env = append(start.Env, options.Env...)
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("starting tmux: %v\n%s", err, out)
	}
	t.Cleanup(term.end)
	if err := term.watch(); err != nil {
		t.Fatal(err)
	}
	if !term.await(func() bool { _, ok := term.number("program"); return ok }) {
		t.Fatalf("the program has not started after %v", patience)
	}
	id, _ := term.number("program")
	var err error
	if term.program, err = os.FindProcess(id); err != nil {
		t.Fatal(err)
	}
	return term
}

// watch starts the tmux client that reports changes of the screen.
func (term *Terminal) watch() error {
	client := term.command("-C", "attach-session")
	input, inputErr := client.StdinPipe() // the client ends with its input
	output, err := client.StdoutPipe()
	if err = errors.Join(inputErr, err); err == nil {
		err = client.Start()
	}
	if err != nil {
		close(term.watched)
		return err
	}
	go func() {
		defer close(term.watched)
		defer close(term.changes)
		defer input.Close()
		for lines := bufio.NewReader(output); ; {
			_, err := lines.ReadSlice('\n')
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
			select {
			case term.changes <- struct{}{}:
			default:
			}
		}
		_ = client.Wait() // the server has ended
	}()
	return nil
}

// await waits until the condition is true, and reports whether it is. It checks whenever the screen may
// have changed.
func (term *Terminal) await(condition func() bool) bool {
	limit := time.After(patience)
	for !condition() {
		select {
		case _, ok := <-term.changes:
			if !ok {
				return condition()
			}
		case <-limit:
			return condition()
		}
	}
	return true
}

// number reads the number in a file of the holder.
func (term *Terminal) number(name string) (number int, ok bool) {
	data, err := os.ReadFile(filepath.Join(term.folder, name))
	if err == nil {
		number, err = strconv.Atoi(strings.TrimSpace(string(data)))
	}
	return number, err == nil
}

func (term *Terminal) hasEnded() bool {
	_, ended := term.number("status")
	return ended
}

// command returns a tmux command for the terminal's server.
func (term *Terminal) command(arguments ...string) *exec.Cmd {
	command := exec.Command("tmux", append([]string{"-u", "-S", "socket"}, arguments...)...) // a socket's path must be short
	command.Dir = term.folder
	command.Env = append(os.Environ(), "TMUX=")
	return command
}

func (term *Terminal) tmux(arguments ...string) string {
	term.t.Helper()
	out, err := term.command(arguments...).CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

// end kills the program, closes the terminal, and waits for both.
func (term *Terminal) end() {
	switch {
	case term.program == nil:
	case !term.closed:
		if !term.kill() {
			term.t.Errorf("the program was killed and has not ended after %v", patience)
		}
	case term.program.Signal(syscall.Signal(0)) == nil: // it runs without its terminal
		processgroup.Kill(term.program)
	}
	term.Close()
}

// Close closes the terminal like a window. The program may continue until the test ends.
func (term *Terminal) Close() {
	if term.closed {
		return
	}
	term.closed = true
	if out, err := term.command("kill-server").CombinedOutput(); err != nil {
		term.t.Errorf("ending tmux: %v\n%s", err, out)
	}
	<-term.watched
}

// Program returns the process of the command, which leads the foreground process group of the terminal.
func (term *Terminal) Program() *os.Process { return term.program }

// Kill kills the program with the processes of its group, and waits for its end. The screen stays.
func (term *Terminal) Kill() {
	term.t.Helper()
	if !term.kill() {
		term.t.Fatalf("the program was killed and has not ended after %v", patience)
	}
}

func (term *Terminal) kill() (ended bool) {
	if term.hasEnded() {
		return true // another process may have its number
	}
	processgroup.Kill(term.program)
	return term.await(term.hasEnded)
}

// Wait waits until the program has ended by itself, and returns its exit status.
func (term *Terminal) Wait() int {
	term.t.Helper()
	if !term.await(term.hasEnded) {
		term.t.Fatalf("the program has not ended after %v; the screen:\n%s", patience, term.Screen())
	}
	status, _ := term.number("status")
	return status
}

// Screen returns what the terminal shows. A line that the terminal has wrapped is one line.
func (term *Terminal) Screen() string {
	term.t.Helper()
	lines := strings.Split(term.tmux("capture-pane", "-p", "-J"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// Styled returns what the terminal shows, with the escape sequences of colours and styles.
func (term *Terminal) Styled() string {
	term.t.Helper()
	return term.tmux("capture-pane", "-p", "-e")
}

// Resize changes the size of the terminal.
func (term *Terminal) Resize(columns, lines int) {
	term.t.Helper()
	term.tmux("resize-window", "-x", strconv.Itoa(columns), "-y", strconv.Itoa(lines))
}

// Await waits until the screen shows all the texts at the same time.
func (term *Terminal) Await(texts ...string) {
	term.t.Helper()
	term.awaitScreen(func(screen string) (missing string) {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return text
			}
		}
		return ""
	})
}

// AwaitAny waits until the screen shows one of the texts, and returns the first that it does.
func (term *Terminal) AwaitAny(texts ...string) (shown string) {
	term.t.Helper()
	term.awaitScreen(func(screen string) (missing string) {
		for _, text := range texts {
			if strings.Contains(screen, text) {
				shown = text
				return ""
			}
		}
		return strings.Join(texts, " or ")
	})
	return shown
}

// awaitScreen waits until nothing is missing on the screen.
func (term *Terminal) awaitScreen(missing func(screen string) string) {
	term.t.Helper()
	var screen, lacking string
	ended := false
	shown := func() bool {
		screen = term.Screen()
		lacking = missing(screen)
		return lacking == ""
	}
	term.await(func() bool {
		ended = term.hasEnded() // before the last look
		return shown() || ended
	})
	switch {
	case lacking == "":
	case ended:
		term.t.Fatalf("the program has ended, and the screen lacks %q:\n%s", lacking, screen)
	default:
		term.t.Fatalf("after %v the screen lacks %q:\n%s", patience, lacking, screen)
	}
}

// Press presses keys, which have the names of tmux: Enter, Escape, Tab, BTab, Up, C-c.
func (term *Terminal) Press(keys ...string) {
	term.t.Helper()
	term.tmux(append([]string{"send-keys", "--"}, keys...)...)
}

// Say pastes a text, waits until the screen shows it once more than before, and presses Enter. It does not type
// the text, because programs take an Enter soon after typed text for a part of it.
func (term *Terminal) Say(text string) {
	term.t.Helper()
	// The texts are compared without white space, because programs wrap lines there. The whole text counts, because
	// programs may show some of its words for other reasons.
	wanted := withoutSpace(text)
	before := strings.Count(withoutSpace(term.Screen()), wanted)
	term.tmux("set-buffer", "--", text)
	term.tmux("paste-buffer", "-p", "-r", "-d")
	term.awaitScreen(func(screen string) (missing string) {
		if strings.Count(withoutSpace(screen), wanted) > before {
			return ""
		}
		return text
	})
	term.Press("Enter")
}

// withoutSpace returns a text without its white space.
func withoutSpace(text string) string { return strings.Join(strings.Fields(text), "") }
