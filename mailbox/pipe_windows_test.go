package mailbox

import (
	"os"
	"testing"
)

// makePipe makes a folder: Windows has no pipes in folders.
func makePipe(t testing.TB, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
}
