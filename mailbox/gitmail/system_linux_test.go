package gitmail_test

import (
	"fmt"
	"os"
	"path/filepath"
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

// processesIn returns the processes whose working folder is the folder or below it, in the form
// "sleep (4711)".
func processesIn(dir string) (found []string) {
	places, _ := filepath.Glob("/proc/[0-9]*/cwd") // the pattern is valid
	for _, place := range places {
		at, err := os.Readlink(place)
		if err != nil || at != dir && !strings.HasPrefix(at, dir+"/") {
			continue // it has ended or is elsewhere
		}
		process := filepath.Dir(place)
		name, _ := os.ReadFile(filepath.Join(process, "comm")) // for people
		found = append(found, fmt.Sprintf("%s (%s)", strings.TrimSpace(string(name)), filepath.Base(process)))
	}
	return found
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
