package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oacp-go/oacp/internal/failure"
)

// TestReadError puts a file that answers each read with an I/O error in the place of a message.
func TestReadError(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a file needs root")
	}
	c := newSession(t, "a,b")
	c.must(t, "send", "--from", "a", "--to", "b", "--type", "question", "--subject", "s", "--body", "x", "--json")
	files, err := filepath.Glob(filepath.Join(c.Dir, "agents/b/inbox/*.yaml"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the inbox has %q (%v)", files, err)
	}
	if err := unix.Mount("/proc/self/mem", files[0], "", unix.MS_BIND, ""); err != nil {
		t.Skipf("this machine cannot mount a file: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(files[0], unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	const reason = "input/output error"
	id := strings.Fields(c.must(t, "list"))[7:][0]
	if got := c.must(t, "list"); !strings.Contains(got, " waiting") {
		t.Errorf("list printed\n%s\nwant the message waiting", got)
	}
	if got := c.must(t, "status", id); !strings.Contains(got, "b: waiting: reading "+files[0]+": "+reason) {
		t.Errorf("status printed\n%s\nwant the message waiting, and the error", got)
	}
	for _, line := range []string{"ack --all --agent b", "run --once --agent b --driver echo"} {
		exit := c.run(t.Context(), strings.Fields(line)...)
		if all := c.stdout.String() + c.stderr.String(); exit != failure.ExitFailed || !strings.Contains(all, reason) || strings.Contains(all, "nothing") {
			t.Errorf("oacp %s: exit status %d and\n%s\nwant 1 and the error", line, exit, all)
		}
	}
}
