//go:build unix

package durable

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var fallbacks = []publisher{{"rename if the name is free", func(d *Dir, name string, to *Dir, newName string) error {
	return d.publish(name, to, newName, renameIfFree)
}}}

// TestLacksExclusiveRename checks which errors of the system lead to ErrNotExclusive: those of an old
// kernel and of a file system, but no others.
func TestLacksExclusiveRename(t *testing.T) {
	for err, want := range map[error]bool{
		unix.EINVAL: true, unix.ENOSYS: true, unix.ENOTSUP: true,
		unix.EEXIST: false, unix.ENOENT: false, unix.EXDEV: false, unix.ENOSPC: false, unix.EROFS: false, nil: false,
	} {
		if got := lacksExclusiveRename(err); got != want {
			t.Errorf("%v: got %t, want %t", err, got, want)
		}
	}
}

// TestReadFileDoesNotWaitForAPipe checks that ReadFile does not block on a pipe without a writer.
func TestReadFileDoesNotWaitForAPipe(t *testing.T) {
	d, _ := openDirs(t)
	if err := unix.Mkfifo(d.Path("pipe"), 0o644); err != nil {
		t.Skipf("this file system has no pipes: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := d.ReadFile("pipe", 100)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, ErrNotRegular) {
			t.Errorf("reading a pipe gave %v, want ErrNotRegular", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("reading a pipe waits for a writer")
	}
}
