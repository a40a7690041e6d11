//go:build unix

package mailbox

import (
	"testing"

	"golang.org/x/sys/unix"
)

// makePipe makes a pipe, which blocks a reader.
func makePipe(t testing.TB, path string) {
	t.Helper()
	if err := unix.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
}
