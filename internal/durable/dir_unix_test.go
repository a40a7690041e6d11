//go:build unix

package durable

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() { publishers["rename if the name is free"] = renameIfFree }

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

// TestFinishSyncs checks that Finish syncs the file that it closes: a pipe cannot be synced.
func TestFinishSyncs(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if err := Finish(write); !errors.Is(err, unix.EINVAL) {
		t.Errorf("got %v, want EINVAL, as syncing a pipe gives", err)
	}
	if _, err := write.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("writing after it gave %v, want ErrClosed", err)
	}
}

// TestSyncReturnsErrors checks that Sync returns each error but that of a file system that cannot
// sync folders, which is what a pipe gives.
func TestSyncReturnsErrors(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	d := &Dir{handle: read, path: "dir"}
	if err := d.Sync(); err != nil {
		t.Errorf("a folder that cannot be synced: %v", err)
	}
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Sync(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed folder: got %v, want ErrClosed", err)
	}
}
