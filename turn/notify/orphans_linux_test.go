package notify

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
)

// TestKilled checks that a later look ends what a command of a killed process left running, and spares what a command
// that ended left on purpose.
func TestKilled(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := exec.Command("mkfifo", pipe).Run(); err != nil {
		t.Fatal(err)
	}
	h := newHome(t, fmt.Sprintf(`[sh, -c, 'rm -f "$0.id"; setsid sh -c "echo \$\$ > $0.id; exec sleep 1000" >/dev/null 2>&1 &
		while ! test -s "$0.id"; do :; done; cat "$0.id" > "$0"; case $OACP_MESSAGE_SUBJECT in hangs) wait;; esac', %q]`, pipe))
	child := func() int {
		t.Helper()
		id, err := strconv.Atoi(strings.TrimSpace(check.ReadFile(t, pipe)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(id, syscall.SIGKILL) })
		return id
	}
	h.send("ends")
	done := make(chan struct{})
	go func() { Once(t.Context(), h.warn, h.w); close(done) }()
	spared := child()
	<-done
	h.send("hangs")
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), workspaceVariable+"="+h.w.Dir())
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	left := child()
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait()
	alive := func(id int) bool {
		return syscall.Kill(id, 0) == nil && !strings.Contains(check.ReadFile(t, fmt.Sprintf("/proc/%d/stat", id)), ") Z ")
	}
	Once(t.Context(), h.warn, h.w)
	if !alive(left) {
		t.Error("the look ended a command that may still run")
	}
	for _, name := range mailboxtest.Files(t, h.w, "state/notify/anna") {
		old := time.Now().Add(-3 * limit)
		if err := os.Chtimes(filepath.Join(h.w.Dir(), "state/notify/anna", name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	Once(t.Context(), h.warn, h.w)
	if err := syscall.Kill(left, 0); err == nil && alive(left) {
		t.Error("what the killed process left still runs")
	}
	if !alive(spared) {
		t.Error("what a command left on purpose was ended")
	}
	h.want(0)
}
