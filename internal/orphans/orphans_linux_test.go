package orphans

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// start runs a shell script with the variables, waits until it prints that it runs, and returns its
// output, which ends with the last process that holds it.
func start(t *testing.T, script string, env ...string) (output io.Reader) {
	t.Helper()
	command := exec.Command("sh", "-c", script)
	command.Env = append(os.Environ(), env...)
	pipe, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill() // in case the test did not
		_ = command.Wait()
	})
	lines := bufio.NewReader(pipe)
	if line, err := lines.ReadString('\n'); err != nil || line != "running\n" {
		t.Fatalf("the script said %q, %v", line, err)
	}
	return lines
}

// TestEnd checks that End kills every process with the mark, even in another session, and no other
// process.
func TestEnd(t *testing.T) {
	mark, other := owner.NewMark(), owner.NewMark()
	env := Environ(WithMark(WithMark(WithMark(t.Context(), owner.NewMark()), mark), owner.NewMark())) // one of several
	// A child in its own session, whose parent has ended.
	escaped := start(t, "setsid sh -c 'sleep 1000 & echo running; sleep 1000' & exit", env...)
	direct := start(t, "echo running; sleep 1000; :", env...)
	spared := start(t, "echo running; read line; sleep 1000", Environ(WithMark(t.Context(), other))...)

	ended, err := owner.End(t.Context(), mark)
	if err != nil || len(ended) < 3 { // the last commands may not have begun
		t.Errorf("ended %v, %v; want both shells and what they run", ended, err)
	}
	for name, output := range map[string]io.Reader{"escaped": escaped, "direct": direct} {
		if _, err := io.ReadAll(output); err != nil { // ends when they are dead
			t.Errorf("%s: %v", name, err)
		}
	}
	if again, err := owner.End(t.Context(), mark); again != nil || err != nil {
		t.Errorf("the second time it ended %v, %v; want none", again, err)
	}
	if left, err := owner.End(t.Context(), other); left == nil || err != nil {
		t.Errorf("with the other mark: ended %v, %v; want its processes to have run until now", left, err)
	}
	if _, err := io.ReadAll(spared); err != nil {
		t.Error(err)
	}
}

// TestEndSparesTheCaller checks that End does not kill its caller or the caller's parent if they
// have the mark themselves.
func TestEndSparesTheCaller(t *testing.T) {
	if mark := Mark(os.Getenv(Variable)); mark != "" {
		if ended, err := owner.End(t.Context(), mark); ended != nil || err != nil {
			t.Errorf("ended %v, %v", ended, err)
		}
		inner := owner.NewMark()
		if got, want := Environ(WithMark(t.Context(), inner)), Variable+"="+string(mark)+":"+string(inner); len(got) != 1 || got[0] != want {
			t.Errorf("a child gets %q, want %q", got, want)
		}
		return
	}
	command := exec.Command("sh", "-c", `"$0" -test.run='^TestEndSparesTheCaller$' -test.v && echo alive`, os.Args[0])
	command.Env = append(os.Environ(), Environ(WithMark(t.Context(), owner.NewMark()))...)
	if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") || !strings.HasSuffix(string(out), "alive\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// owner owns the marks of the tests.
var owner = OwnerOf("/", "test")

// TestMarksOfOthers checks that an owner does not end the processes of another one, whatever a file says.
func TestMarksOfOthers(t *testing.T) {
	mark := OwnerOf("/", "other").NewMark()
	output := start(t, "echo running; exec sleep 1000", Environ(WithMark(t.Context(), mark))...)
	if ended, err := owner.End(t.Context(), mark, Mark(string(owner)+string(mark)[len(owner):])); ended != nil || err != nil {
		t.Errorf("ended %v, %v; want none", ended, err)
	}
	if ended, err := OwnerOf("/", "other").End(t.Context(), mark); len(ended) != 1 || err != nil {
		t.Errorf("its owner ended %v, %v", ended, err)
	}
	if _, err := io.ReadAll(output); err != nil {
		t.Error(err)
	}
}

// TestMarksFromFiles checks that a damaged mark ends nothing.
func TestMarksFromFiles(t *testing.T) {
	for _, mark := range []Mark{"", "x", owner.NewMark()[1:], owner.NewMark() + "a", owner.NewMark()[1:] + "\x00"} {
		if mark.valid() {
			t.Errorf("%q is valid, want not", mark)
		}
		if ended, err := owner.End(t.Context(), mark); ended != nil || err != nil {
			t.Errorf("%q ended %v, %v; want none", mark, ended, err)
		}
	}
	if Environ(context.Background()) != nil || Environ(WithMark(t.Context(), "")) != nil {
		t.Error("a context without a mark has variables, want none")
	}
}

func TestEndStops(t *testing.T) {
	mark := owner.NewMark()
	output := start(t, "echo running; exec sleep 1000", Environ(WithMark(t.Context(), mark))...)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if _, err := owner.End(ctx, mark); !errors.Is(err, enough) {
		t.Errorf("got %v, want the cause", err)
	}
	if _, err := owner.End(t.Context(), mark); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(output); err != nil {
		t.Error(err)
	}
}
