package gitmail_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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
		name, _ := os.ReadFile(filepath.Join(process, "comm")) // for the log
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

// mountReadOnly makes a folder read-only until the caller calls end.
func mountReadOnly(t *testing.T, path string) (end func()) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []uintptr{unix.MS_BIND, unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY} {
		if err := unix.Mount(path, path, "", flags, ""); err != nil {
			t.Skipf("this machine cannot mount a folder: %v", err)
		}
	}
	return unmountOnce(t, path)
}

// unmountOnce returns a function that unmounts a folder once. The cleanup of the test calls it again.
func unmountOnce(t *testing.T, path string) func() {
	unmount := sync.OnceFunc(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", path, err)
		}
	})
	t.Cleanup(unmount)
	return unmount
}

// makeImmutable does to a folder what chattr +i does, until the caller calls end.
func makeImmutable(t *testing.T, path string) (end func()) {
	t.Helper()
	const immutable = 0x10 // FS_IMMUTABLE_FL
	if os.Geteuid() != 0 {
		t.Skip("making a folder immutable needs root")
	}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	flags, err := unix.IoctlGetInt(int(dir.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(dir.Fd()), unix.FS_IOC_SETFLAGS, flags|immutable)
	}
	if err != nil {
		t.Skipf("this file system has no immutable folders: %v", errors.Join(err, dir.Close()))
	}
	end = sync.OnceFunc(func() {
		if err := errors.Join(unix.IoctlSetPointerInt(int(dir.Fd()), unix.FS_IOC_SETFLAGS, flags), dir.Close()); err != nil {
			t.Errorf("making %s an ordinary folder again: %v", path, err)
		}
	})
	t.Cleanup(end)
	return end
}
