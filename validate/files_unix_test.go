//go:build unix

package validate

import (
	"syscall"
	"testing"
)

// TestFilesPipe: a pipe without a writer does not hold anybody up.
func TestFilesPipe(t *testing.T) {
	tree(t, map[string]string{"in/a.yaml": message("aaaa")})
	if err := syscall.Mkfifo("in/pipe.yaml", 0o644); err != nil {
		t.Skip(err)
	}
	if got, want := lines(t, nil, "in", "/dev/null"), "in/a.yaml\nin/pipe.yaml file-unreadable\n/dev/null file-unreadable"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
