package bridge

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/memoryfolder"
)

// childVariable names what a copy of the test binary does instead of testing.
const childVariable = "BRIDGE_TEST_CHILD"

func TestMain(m *testing.M) {
	role := os.Getenv(childVariable)
	if role == "" {
		if err := memoryfolder.Use(); err != nil {
			panic(err)
		}
		check.Overlap()
		os.Exit(m.Run())
	}
	children := map[string]func(args []string) error{
		"append": childAppend, "endless": childEndless, "new-run": childNewRun, "once": childOnce,
	}
	for name, run := range platformChildren {
		children[name] = run
	}
	if err := children[role](os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child prepares a copy of the test binary in a role. It ends with the test at the latest.
func child(t testing.TB, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), childVariable+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// childAppend sends records first to last-1 of those that all children share, in batches, some with
// open and close for each.
func childAppend(args []string) error {
	path := args[0]
	first, err1 := strconv.Atoi(args[1])
	last, err2 := strconv.Atoi(args[2])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	l, err := Open(path, &Options{NoSync: true, Warn: func(err error) { fmt.Fprintln(os.Stderr, "warning:", err) }})
	if err != nil {
		return err
	}
	for size := 1; first < last; size = size%40 + 1 {
		var batch []Record
		for ; first < last && len(batch) < size; first++ {
			batch = append(batch, task("a", "b", fmt.Sprint(first)))
		}
		if _, err := l.SendAll(context.Background(), batch); err != nil {
			return err
		}
	}
	return l.Close()
}

// childEndless sends numbered records until it is killed, and says each number once it is sent.
func childEndless(args []string) error {
	l, err := Open(args[0], nil)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		r := task("a", "b", args[1]+" "+strconv.Itoa(i)+strings.Repeat(" text", 400))
		if _, err := l.Send(context.Background(), r); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

func childNewRun(args []string) error {
	for range 20 {
		run, err := NewRun(args[0], args[1])
		if err != nil {
			return err
		}
		fmt.Println(run.ID)
	}
	return nil
}

// childOnce is a short-lived process: it opens the log, makes one call and ends.
func childOnce(args []string) error {
	ctx := context.Background()
	l, err := Open(args[0], nil)
	if err != nil {
		return err
	}
	switch args[1] {
	case "send":
		_, err = l.Send(ctx, task("a", "b", args[2]))
	case "status":
		_, err = l.Status(ctx)
	case "drain":
		for _, failed := range l.Drain(ctx, "codex", Cursor(args[2])) {
			err = errors.Join(err, failed)
		}
	}
	return errors.Join(err, l.Close())
}

// TestProcesses lets eight processes append 5,000 records each, of which two processes send 30 %.
func TestProcesses(t *testing.T) {
	t.Parallel()
	const processes, each, shared = 8, 600, 200
	path := logPath(t)
	var running []*exec.Cmd
	for p := range processes {
		first := p * (each - shared) // the last ones of one are the first ones of the next
		cmd := child(t, "append", path, strconv.Itoa(first), strconv.Itoa(first+each))
		must(t, cmd.Start())
		running = append(running, cmd)
	}
	for _, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	want := (processes-1)*(each-shared) + each
	seen := map[string]bool{}
	text := mustRead(t, path)
	for line := range strings.Lines(text) {
		r, err := ParseRecord([]byte(line))
		if err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if seen[r.ID] {
			t.Fatalf("%s is there twice", r.Content)
		}
		seen[r.ID] = true
	}
	if len(seen) != want || !strings.HasSuffix(text, "\n") {
		t.Errorf("want %d records, got %d", want, len(seen))
	}
	checkLog(t, openLog(t, path, nil))
}

// TestKill kills processes in the middle of appending. Each record whose send returned is there
// once, and the log stays usable.
func TestKill(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	const rounds = 8
	for round := range rounds {
		cmd := child(t, "endless", path, strconv.Itoa(round))
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		said := bufio.NewScanner(out)
		sent := -1
		for said.Scan() {
			if sent, err = strconv.Atoi(said.Text()); err != nil {
				t.Fatal(err)
			}
			if sent == 20+13*round {
				must(t, cmd.Process.Kill())
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("want a killed process")
		}
		var warnings []error
		l := openLog(t, path, quiet(&warnings))
		for i := range sent + 1 {
			r := task("a", "b", strconv.Itoa(round)+" "+strconv.Itoa(i)+strings.Repeat(" text", 400))
			if !mustSend(t, l, r)[0].Duplicate {
				t.Fatalf("round %d: record %d was sent and is not there", round, i)
			}
		}
		checkLog(t, l)
		must(t, l.Close())
	}
	seen := map[string]bool{}
	for _, r := range everyRecord(t, path) {
		if seen[r.ID] {
			t.Fatalf("%s is there twice", r.Content)
		}
		seen[r.ID] = true
	}
}

func TestNewRunInSeveralProcesses(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const id, processes = "0123456789abcdef", 4
	var running []*exec.Cmd
	var outputs []*bytes.Buffer
	for range processes {
		cmd, out := child(t, "new-run", root, id), &bytes.Buffer{}
		cmd.Stdout = out
		must(t, cmd.Start())
		running, outputs = append(running, cmd), append(outputs, out)
	}
	got := map[string]bool{}
	for i, cmd := range running {
		must(t, cmd.Wait())
		for _, number := range strings.Fields(outputs[i].String()) {
			if got[number] {
				t.Errorf("run %s was given twice", number)
			}
			got[number] = true
		}
	}
	runs, err := Runs(root, id)
	if err != nil || len(runs) != processes*20 || len(got) != len(runs) || runs[len(runs)-1].ID != len(runs) {
		t.Errorf("want runs 1 to %d, got %d of %d, %v", processes*20, len(got), len(runs), err)
	}
}

// BenchmarkProcess measures whole short-lived processes on logs of growing length.
func BenchmarkProcess(b *testing.B) {
	for _, n := range sizes() {
		path := longLog(b, n)
		indexed(b, path)
		if n > 0 {
			syncIndex(b, path)
		}
		l := openLog(b, path, nil)
		end, err := l.End(context.Background())
		must(b, err)
		for _, call := range []string{"status", "drain", "send"} {
			b.Run(fmt.Sprintf("%s/%d", call, n), func(b *testing.B) {
				i := 0
				for b.Loop() {
					i++
					argument := string(end)
					if call == "send" {
						argument = fmt.Sprint(b.N, i)
					}
					cmd := child(b, "once", path, call, argument)
					cmd.Stdout = io.Discard
					must(b, cmd.Run())
				}
			})
		}
	}
}
