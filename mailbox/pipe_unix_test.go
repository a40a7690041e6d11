//go:build unix

package mailbox

import (
	"testing"

	"golang.org/x/sys/unix"
)

// makePipe makes what a reader would wait for.
func makePipe(t testing.TB, path string) {
	t.Helper()
	if err := unix.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
}
