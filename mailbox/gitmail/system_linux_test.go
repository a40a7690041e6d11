package gitmail_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// killChildren kills the processes that a process has started, and not itself.
func (r *race) killChildren(p *process) {
	parent := p.command.Process.Pid
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", parent))
	if err != nil {
		return // it has ended
	}
	for _, thread := range threads {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", parent, thread.Name()))
		if err != nil {
			continue // the thread has ended
		}
		for _, text := range strings.Fields(string(children)) {
			id, err := strconv.Atoi(text)
			if err != nil {
				r.t.Error(err)
				continue
			}
			if child, err := os.FindProcess(id); err == nil {
				_ = child.Kill() // it may have ended
			}
		}
	}
}

// maxMemory returns the most memory that this process had, in KiB.
func maxMemory() (most int) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &most); err == nil {
			break
		}
	}
	return most
}

// mountSmall mounts a file system of that size at a folder for the duration of the test.
func mountSmall(t *testing.T, path, size string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("this machine cannot mount another file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", path, err)
		}
	})
}
