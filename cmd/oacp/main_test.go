package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/oacp-go/oacp/cmd/oacp-contract/judge"
	"github.com/oacp-go/oacp/cmd/oacp-dashboard/dashboard"
	"github.com/oacp-go/oacp/cmd/oacp-gascity/provider"
	"github.com/oacp-go/oacp/cmd/oacp-mcp/mcpserver"
	"github.com/oacp-go/oacp/cmd/oacp-web/web"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/memoryfolder"
)

var thorough = flag.Bool("thorough", false, "repeat with the real claude and codex what other tests check with less")

// testPace is the variable of a test for the Pace of its hooks. The oacp in pacedFolder has it.
const testPace = "OACP_TEST_PACE"

var pacedFolder string

// runsNoOACP marks a process of tests that run no programs.
const runsNoOACP = "OACP_TEST_RUNS_NO_OACP"

func TestMain(m *testing.M) {
	if err := memoryfolder.Use(); err != nil {
		panic(err)
	}
	check.Overlap()
	// Without this, every command that the race detector watches takes a second to exit.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	if pace := os.Getenv(testPace); pace != "" { // in a command that a test runs
		hookPace, _ = time.ParseDuration(pace)
	}
	testscript.Main(programs{m}, map[string]func(){
		"oacp":           main,
		"oacp-contract":  func() { command.MainOf("contract", judge.NewCommand) },
		"oacp-dashboard": func() { command.MainOf("dashboard", dashboard.NewCommand) },
		"oacp-gascity":   func() { os.Exit(provider.Main(os.Args[1:], command.ProcessStreams())) },
		"oacp-mcp":       func() { command.MainOf("mcp", mcpserver.NewCommand) },
		"oacp-web":       func() { command.MainOf("web", web.NewCommand) },
	})
}

// programs runs the tests with oacp as users run it. The test binary can be oacp too, but tests run it thousands of times,
// and what it links for tests and the separate programs more than doubles the time that it takes to start.
type programs struct{ *testing.M }

func (p programs) Run() int {
	if os.Getenv(runsNoOACP) != "" {
		return p.M.Run()
	}
	oacp, err := exec.LookPath("oacp")
	if err != nil {
		panic(err)
	}
	pacedFolder = filepath.Join(filepath.Dir(oacp), "paced")
	if err := errors.Join(os.Mkdir(pacedFolder, 0o755), os.Rename(oacp, filepath.Join(pacedFolder, filepath.Base(oacp)))); err != nil {
		panic(err)
	}
	args := []string{"build", "-ldflags=-s -w", "-o", oacp}
	build, _ := debug.ReadBuildInfo()
	if slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		panic(fmt.Sprintf("go %q: %v: %s", args, err, out))
	}
	return p.M.Run()
}

// TestScript runs the scripts in testdata/script. They are the documentation of the command line by
// example.
func TestScript(t *testing.T) {
	t.Parallel()
	hearHangups()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			// The temporary folder may be in a git repository.
			env.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(env.WorkDir))
			// Git must not depend on the settings of this machine.
			for _, name := range []string{"AUTHOR", "COMMITTER"} {
				env.Setenv("GIT_"+name+"_NAME", "Ann")
				env.Setenv("GIT_"+name+"_EMAIL", "ann@example.com")
			}
			env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			testdata, err := filepath.Abs("testdata")
			env.Setenv("TESTDATA", testdata)
			for _, name := range references {
				env.Setenv(name, os.Getenv(name))
			}
			env.Setenv("NEWLINE", "\n")
			env.Setenv("PYTHON", cmp.Or(os.Getenv("PYTHON"), "python3"))
			env.Setenv("PYTHONDONTWRITEBYTECODE", "1")
			env.Setenv("GORACE", os.Getenv("GORACE"))
			return err
		},
		Condition: scriptCondition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"let":    let,
			"shows":  shows,
			"repeat": repeat,
			"append": appendBytes,
			"await":  await,
		},
	})
}

// hearHangups lets the processes that tests start get SIGHUP, even if nohup runs the tests: a signal that has a
// handler has its default effect on new processes.
func hearHangups() {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
}

// references name other implementations: a checkout of the reference, and commands. Scripts that
// need a missing one are skipped.
var references = map[string]string{
	"reference":  "OACP_REFERENCE",
	"ash-client": "ASH_REFERENCE_CLIENT",
	"ash-bridge": "ASH_REFERENCE_BRIDGE",
}

func scriptCondition(name string) (bool, error) {
	if variable, ok := references[name]; ok {
		return os.Getenv(variable) != "", nil
	}
	if name == "root" {
		return os.Geteuid() == 0, nil
	}
	return false, errors.New("there is no such condition")
}

// exits STATUS COMMAND… runs a command that must exit with the status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND [ARGUMENT…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status is %d, want %d", got, want)
	}
}

// let NAME PATTERN sets a variable to what the first group of the pattern matches in the last
// standard output.
func let(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: let NAME PATTERN")
	}
	output := ts.ReadFile("stdout")
	match := regexp.MustCompile(`(?m)` + args[1]).FindStringSubmatch(output)
	if len(match) < 2 {
		ts.Fatalf("the pattern %s matches nothing in:\n%s", args[1], output)
	}
	ts.Setenv(args[0], match[1])
}

// changing lists the parts of outputs that differ from run to run, and what shows replaces them by.
var changing = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`msg-\d{8}T\d{4}Z-([\w.]+)-([a-z0-9]{4}|[a-z0-9]{16})\b`), "msg-TIME-$1-RAND"},
	{regexp.MustCompile(`\b\d{8}T\d{4}Z_`), "TIME_"},
	{regexp.MustCompile(`conv-\d{8}-([\w.]+)-\d{6}`), "conv-DATE-$1-SEQ"},
	{regexp.MustCompile(`(?m)^sent ([a-z0-9]{4}|[a-z0-9]{16}) to `), "sent SHORT to "},
	{regexp.MustCompile(`"short_id": "([a-z0-9]{4}|[a-z0-9]{16})"`), `"short_id": "RAND"`},
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
}

// shows FILE compares the last standard output with a file, after replacing ids and times.
func shows(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: shows FILE")
	}
	got := strings.ReplaceAll(ts.ReadFile("stdout"), ts.Getenv("WORK"), "WORK")
	for _, c := range changing {
		got = c.pattern.ReplaceAllString(got, c.instead)
	}
	if want := ts.ReadFile(args[0]); got != want {
		ts.Fatalf("got:\n%s\nwant:\n%s", got, want)
	}
}

// append FILE TEXT [COUNT] appends a text to a file COUNT times. The text may have the escapes of Go, such as
// \xff.
func appendBytes(ts *testscript.TestScript, neg bool, args []string) {
	count := 1
	if len(args) == 3 {
		var err error
		count, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: append FILE TEXT [COUNT]")
	}
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(args[1], `"`, `\"`) + `"`)
	ts.Check(err)
	file, err := os.OpenFile(ts.MkAbs(args[0]), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	ts.Check(err)
	_, err = file.WriteString(strings.Repeat(text, count))
	ts.Check(errors.Join(err, file.Close()))
}

// await FILE PATTERN waits until the pattern matches in a file that a command in the background writes.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE PATTERN")
	}
	pattern := regexp.MustCompile(`(?m)` + args[1])
	var data []byte
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		data, _ = os.ReadFile(ts.MkAbs(args[0])) // it may not be there yet
		if pattern.Match(data) {
			return
		}
	}
	ts.Fatalf("after a minute the pattern %s matches nothing in:\n%s", args[1], data)
}

// repeat FILE COUNT TEXT writes a file that holds the text COUNT times.
func repeat(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: repeat FILE COUNT TEXT")
	}
	count, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Repeat(args[2], count)), 0o644))
}
