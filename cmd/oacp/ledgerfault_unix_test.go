//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/turn/track"
)

// askB sends a question to b, and returns its id.
func (c *session) askB(t *testing.T) string {
	return strings.TrimSpace(c.must(t, "send", "--from", "a", "--to", "b", "--type", "question", "--subject", "s", "--body", "Look.", "-q"))
}

// facts returns the facts that the journal of b has about a message.
func (c *session) facts(t *testing.T, id string) (kinds []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.Dir, track.TurnsFolder, track.JournalName("b")))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var f track.Fact
		if json.Unmarshal([]byte(line), &f) == nil && string(f.ID) == id {
			kinds = append(kinds, string(f.Kind))
		}
	}
	return kinds
}

// A stuck front is one whose output nobody reads.
type stuckFront struct {
	*exec.Cmd
	out  *os.File
	fill int
}

// stuck starts a command of b whose output goes to a pipe that is full, and waits until it was offered the message. The leader
// of a session runs it, as a program does.
func (c *session) stuck(t *testing.T, id, command string) *stuckFront {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	fd := int(in.Fd()) // each call makes it block
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	f := &stuckFront{Cmd: exec.CommandContext(t.Context(), "bash", "-c", command+"; true"), out: out}
	for {
		n, err := syscall.Write(fd, []byte{'.'})
		if errors.Is(err, syscall.EAGAIN) {
			break
		}
		f.fill += max(n, 0)
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	f.Dir, f.Stdout, f.SysProcAttr = c.Dir, in, &syscall.SysProcAttr{Setsid: true}
	f.Env = append(os.Environ(), "OACP_AGENT=b", "OACP_WORKSPACE="+c.Dir)
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.kill(); _ = out.Close() })
	for len(c.facts(t, id)) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the message is not offered")
		}
	}
	return f
}

// kill kills the front and its session.
func (f *stuckFront) kill() {
	_ = syscall.Kill(-f.Process.Pid, syscall.SIGKILL) // it may have ended
	_ = f.Wait()
}

// TestKilledBesideShowing kills a front between the offer and its output, and between its output and the fact that it was noticed.
func TestKilledBesideShowing(t *testing.T) {
	t.Parallel()
	for _, shows := range []bool{false, true} {
		c := newSession(t, "a,b")
		id := c.askB(t)
		f := c.stuck(t, id, "oacp next --json")
		if exit := c.run(t.Context(), "next", "--agent", "b", "--timeout", "1ms"); exit != 3 {
			t.Errorf("exit status %d: another process gets what a living one was offered:\n%s", exit, &c.stdout)
		}
		if shows {
			lock := flock.New(filepath.Join(c.Dir, track.TurnsFolder, track.JournalName("b")+".lock"))
			if err := lock.Lock(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, f.out, int64(f.fill)); err != nil {
				t.Fatal(err)
			}
			var m struct{ ID string }
			if err := json.NewDecoder(f.out).Decode(&m); err != nil || m.ID != id {
				t.Errorf("it prints %q (%v), want %s", m.ID, err, id)
			}
			f.kill()
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
		f.kill()
		if kinds := strings.Join(c.facts(t, id), " "); kinds != "offered" {
			t.Errorf("the facts are %s, want offered", kinds)
		}
		if exit := c.run(t.Context(), "recall", id, "--agent", "a"); exit != 1 || !strings.Contains(c.stderr.String(), "may have been seen") {
			t.Errorf("exit status %d: a recall says\n%s", exit, &c.stderr)
		}
		if out := c.must(t, "next", "--agent", "b", "--timeout", "1ms"); !strings.Contains(out, "Look.") || strings.Contains(c.stderr.String(), "shown before") {
			t.Errorf("the message is not new again:\n%s%s", out, &c.stderr)
		}
	}
}

// TestReaderThatNeverReads has a command wait for the reader of its output. Nothing else waits for that.
func TestReaderThatNeverReads(t *testing.T) {
	t.Parallel()
	c := newSession(t, "a,b")
	f := c.stuck(t, c.askB(t), "oacp read --all")
	id := c.askB(t)
	if out := c.must(t, "run", "--agent", "b", "--once", "--reply", "--", "echo", "Seen."); !strings.Contains(out, id) {
		t.Errorf("a runner does not begin a turn:\n%s", out)
	}
	if out := c.must(t, "next", "--agent", "a", "--timeout", "1ms"); !strings.Contains(out, "Seen.") {
		t.Errorf("the answer is\n%s", out)
	}
	id = c.askB(t)
	c.must(t, "recall", id, "--agent", "a")
	if err := f.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the reader has ended: %v", err)
	}
}

// TestManyReaders starts many processes of an agent at once: each message goes to exactly one.
func TestManyReaders(t *testing.T) {
	t.Parallel()
	const messages, readers = 8, 20
	c := newSession(t, "a,b")
	for range messages {
		c.askB(t)
	}
	outs := make([]string, readers)
	var end []io.Closer
	var group sync.WaitGroup
	for i := range readers {
		next := exec.CommandContext(t.Context(), "bash", "-c", "oacp next --json --timeout 1ms; echo; cat") // it stays alive
		next.Dir, next.SysProcAttr = c.Dir, &syscall.SysProcAttr{Setsid: true}
		next.Env = append(os.Environ(), "OACP_AGENT=b", "OACP_WORKSPACE="+c.Dir)
		in, err := next.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := next.StdoutPipe()
		if err == nil {
			err = next.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		end = append(end, in)
		group.Go(func() {
			var m struct{ ID string }
			_ = json.NewDecoder(out).Decode(&m) // an id is checked below
			outs[i] = m.ID
		})
		t.Cleanup(func() { _ = next.Wait() })
	}
	group.Wait()
	shown := make(map[string]int)
	for i, id := range outs {
		if shown[id]++; id != "" && shown[id] > 1 {
			t.Errorf("message %s is shown %d times", id, shown[id])
		}
		_ = end[i].Close() // it ends cat
	}
	if delete(shown, ""); len(shown) != messages {
		t.Errorf("%d of %d messages are shown", len(shown), messages)
	}
}

// TestUnwritableLedger has fronts meet a disk that is read-only, and one that is full. read shows and warns; the others refuse, and
// nothing is sent.
func TestUnwritableLedger(t *testing.T) {
	t.Parallel()
	if exec.Command("unshare", "--mount", "true").Run() != nil {
		t.Skip("no process may mount a folder here")
	}
	for name, mount := range map[string]string{
		"read-only": `mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"`,
		"full":      `mkdir -p "$0.full" && mount -t tmpfs -o size=512k none "$0.full" && cp -a "$0/." "$0.full" && mount --move "$0.full" "$0" && dd if=/dev/zero of="$0/filler" bs=4k 2>/dev/null; true`,
	} {
		c := newSession(t, "a,b")
		id := c.askB(t)
		try := func(command string) (out string, exit int) {
			shell := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", mount+" && cd \"$0\" && "+command, c.Dir)
			shell.Env = append(os.Environ(), "OACP_AGENT=b", "OACP_WORKSPACE="+c.Dir)
			data := new(bytes.Buffer)
			shell.Stdout, shell.Stderr = data, data
			_ = shell.Run() // its exit status is returned
			return data.String(), shell.ProcessState.ExitCode()
		}
		if out, exit := try("oacp read " + id); exit == 2 || !strings.Contains(out, "Look.") || !strings.Contains(out, "cannot be recorded") {
			t.Errorf("%s: exit status %d: read prints\n%s", name, exit, out)
		}
		for _, refused := range []string{
			"oacp next --timeout 1ms", "oacp reply " + id + " --body Answer",
			`echo '{"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "x"}' | oacp hook claude`,
			"oacp-mcp <<'EOF'\n" + nextTool + "\nEOF",
			"oacp run --once -- echo Look.",
		} {
			out, exit := try(refused)
			if isQuiet := strings.Contains(refused, "hook") || strings.Contains(refused, "mcp"); strings.Contains(out, "Look.") || exit == 0 && !isQuiet {
				t.Errorf("%s: exit status %d: %s prints\n%s", name, exit, refused, out)
			}
		}
		out, exit := try("oacp reply " + id + " --body Answer; ls agents/a/inbox agents/b/outbox")
		if strings.Contains(out, ".yaml") {
			t.Errorf("%s: exit status %d: an answer is sent\n%s", name, exit, out)
		}
	}
}
