package agent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/ash"
	"github.com/oacp-go/oacp/internal/testing/memoryfolder"
)

// The test binary runs itself as the agent. The argument after this one selects what such a process
// does.
const helperArgument = "-oacp-test-agent"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == helperArgument {
		os.Exit(helper(os.Args[2], os.Args[3:]))
	}
	// The race detector otherwise holds every process for a second at its end.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	if err := memoryfolder.Use(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// helper plays one kind of agent and returns its exit status.
func helper(kind string, args []string) int {
	switch kind {
	case "cat":
		if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
			return 1
		}
	case "fail":
		fmt.Println("half an answer")
		fmt.Fprintln(os.Stderr, "it broke")
		return 3
	case "flood":
		return flood(args[0])
	case "hang":
		hang()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, os.Interrupt)
		hang()
	case "polite":
		return untilTerminated()
	case "forks":
		return leaveChild(args[0], args[1])
	case "deaf":
		// Close standard input at once, with everything unread.
		if os.Stdin.Close() != nil {
			return 1
		}
		fmt.Println("did not listen")
	case "mute":
		if os.Stdout.Close() != nil || os.Stderr.Close() != nil {
			return 1
		}
		time.Sleep(time.Hour)
	case "killed":
		if process, err := os.FindProcess(os.Getpid()); err != nil || process.Kill() != nil {
			return 1
		}
		hang()
	case "env":
		for _, name := range args {
			fmt.Printf("%s=%q\n", name, os.Getenv(name))
		}
	case "bridge":
		return serveBridge(args)
	case "claude":
		return fakeClaude(args)
	case "codex":
		return fakeCodex(args)
	case "acp":
		return fakeACP(args)
	case "runner":
		return runTurn(args)
	case "mcp":
		return serveMCP(args[0])
	default:
		return 2
	}
	return 0
}

// runTurn runs a turn of the agent that the arguments name, with their command, whose words are lines, folder
// and variables.
func runTurn(args []string) int {
	command, dir, env := strings.Split(args[1], "\n"), args[2], args[3:]
	create := NewExec
	for _, p := range programs {
		if p.name == args[0] {
			create = p.new
		}
	}
	driver := create(Options{Command: command, Dir: dir, Env: env, Allow: PermitAll})
	err := driver.Start(context.Background())
	if err == nil {
		_, err = driver.Turn(context.Background(), Request{Prompt: "go"}, nil)
	}
	fmt.Fprintln(os.Stderr, "the turn has ended:", err)
	return 1
}

// hangsAgain reports whether the program runs for the first time. If not, it reports to the file
// and never ends by itself.
func hangsAgain(file string) bool {
	ran := file + ".ran"
	if _, err := os.Stat(ran); err != nil {
		return os.WriteFile(ran, nil, 0o600) == nil
	}
	if told, err := os.OpenFile(file, os.O_WRONLY, 0); err == nil {
		fmt.Fprintln(told, "again")
	}
	signal.Ignore(syscall.SIGTERM)
	hang()
	return false
}

// hang never returns; a select without cases would count as a deadlock.
func hang() {
	fmt.Println("hanging")
	for {
		time.Sleep(time.Hour)
	}
}

func flood(size string) int {
	left, err := strconv.Atoi(size)
	if err != nil {
		return 2
	}
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	for line := []byte(strings.Repeat("0123456789abcde", 64) + "\n"); left > 0; left -= len(line) {
		if _, err := out.Write(line); err != nil {
			return 1
		}
	}
	fmt.Fprintln(out, "the end")
	if out.Flush() != nil {
		return 1
	}
	return 0
}

// untilTerminated ends with success when it is asked to end.
func untilTerminated() int {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	fmt.Println("hanging")
	<-asked
	fmt.Println("cleaned up")
	return 0
}

// leaveChild starts a process that never ends by itself and holds the output and the file open.
func leaveChild(kind, file string) int {
	child := exec.Command(os.Args[0], helperArgument, kind)
	child.Stdout = os.Stdout
	held, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err == nil {
		child.ExtraFiles = []*os.File{held}
		err = child.Start()
	}
	if err != nil {
		return 1
	}
	return 0
}

// serveBridge serves an Ash bridge around the exec driver of the arguments, or around an echo.
func serveBridge(args []string) int {
	bridge := handlerOf(func(string) Driver {
		if len(args) == 0 {
			return NewEcho()
		}
		return NewExec(Options{Command: args})
	})
	server, err := ash.Listen(os.Getenv("ASH_BRIDGE_SOCKET"), bridge)
	if err == nil {
		err = server.Serve(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// helperCommand is the command line of an agent that the test binary plays.
func helperCommand(t testing.TB, kind string, args ...string) []string {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{executable, helperArgument, kind}, args...)
}

// started starts the driver, stops it when the test ends, and returns it.
func started(t testing.TB, driver Driver) Driver {
	t.Helper()
	if err := driver.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := driver.Stop(context.Background()); err != nil {
			t.Errorf("stopping the driver: %v", err)
		}
	})
	return driver
}

// whenSeen returns an observer that calls do once, as soon as the text appears.
func whenSeen(text string, do func()) func(Event) {
	var shown strings.Builder
	done := false
	return func(e Event) {
		shown.WriteString(e.Text)
		if !done && strings.Contains(shown.String(), text) {
			done = true
			do()
		}
	}
}

// impatient returns a context that bounds a test that could hang.
func impatient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
