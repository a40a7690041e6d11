//go:build unix

package validate

import (
	"syscall"
	"testing"
)

// TestFilesPipe checks that a pipe without a writer does not block.
func TestFilesPipe(t *testing.T) {
	tree(t, map[string]string{"in/a.yaml": message("aaaa")})
	if err := syscall.Mkfifo("in/pipe.yaml", 0o644); err != nil {
		t.Skip(err)
	}
	if got, want := lines(t, nil, "in", "/dev/null"), "in/a.yaml\nin/pipe.yaml file-unreadable\n/dev/null file-unreadable"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestReadPipe checks that reading does not wait for a file that has become a pipe by the time it
// is opened.
func TestReadPipe(t *testing.T) {
	tree(t, map[string]string{"in/a.yaml": message("aaaa")})
	if err := syscall.Mkfifo("in/pipe.yaml", 0o644); err != nil {
		t.Skip(err)
	}
	targets := []target{
		{name: "in/pipe.yaml"},
		{name: "in/pipe.yaml", in: &folder{"in", "."}},
		{name: "in/pipe.yaml", in: &folder{".", "in"}},
		{name: "in/pipe.yaml/a.yaml", in: &folder{"in/pipe.yaml", "."}},
		{name: "in/pipe.yaml/a.yaml", in: &folder{"in", "pipe.yaml"}},
	}
	from := reader{}
	defer from.close()
	for _, target := range targets {
		data, problem := from.read(&target, nil)
		if problem == nil || problem.Rule != RuleFileUnreadable {
			t.Errorf("reading %+v gave %q and the finding %v, want it refused", target, data, problem)
		}
	}
}
