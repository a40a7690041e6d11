package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/oacp-go/oacp/internal/failure"
)

func TestReport(t *testing.T) {
	var stdout, stderr bytes.Buffer
	s := &Streams{Out: bufio.NewWriter(&stdout), Err: &stderr}
	exit := report(failure.Of(failure.WithHint(errors.New("a\nb \x1b[31m"), "try y")), s, true)
	if want := "oacp: a; b \\x1b[31m\nhint: try y\n"; exit != 1 || stderr.String() != want {
		t.Errorf("exit status is %d and standard error %q, want 1 and %q", exit, stderr.String(), want)
	}
	var answer map[string]string
	if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil || answer["code"] != "failed" || answer["hint"] != "try y" {
		t.Errorf("standard output is %q (%v), want the error as JSON", stdout.String(), err)
	}
	stdout.Reset()
	stderr.Reset()
	if exit := report(failure.Of(failure.ErrReported), s, true); exit != 1 || stdout.Len()+stderr.Len() > 0 {
		t.Errorf("a reported error: exit status is %d, printed %q and %q, want 1 and nothing", exit, stdout.String(), stderr.String())
	}
}

func TestArgumentsOf(t *testing.T) {
	for _, test := range []struct{ args, want []string }{
		{[]string{"--agent", "a"}, []string{"mcp", "--agent", "a"}},
		{nil, []string{"mcp"}},
		{[]string{"--as-person", "--agent", "a"}, []string{"--as-person", "mcp", "--agent", "a"}},
		{[]string{"--version"}, []string{"--version"}},
	} {
		if got := argumentsOf("mcp", test.args); !slices.Equal(got, test.want) {
			t.Errorf("argumentsOf(%q) is %q, want %q", test.args, got, test.want)
		}
	}
}
