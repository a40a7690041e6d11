//go:build unix

package durable

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var fallbacks = []publisher{{"rename to a unique name", (*Dir).PublishUnique}}

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
	case <-time.After(10 * time.Second):
		t.Fatal("reading a pipe waits for a writer")
	}
}
