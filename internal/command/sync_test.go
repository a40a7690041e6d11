package command

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/mailbox/gitmail"
)

// TestSyncFlag checks where the value of --sync may stand, and which one it has without a value.
func TestSyncFlag(t *testing.T) {
	tests := []struct {
		args, rest string
		every      time.Duration
		failure    string
	}{
		{args: "run", every: 0},
		{args: "run --sync", every: usualSync},
		{args: "run --sync 1s", every: time.Second},
		{args: "run --sync=1m", every: time.Minute},
		{args: "run --sync project", every: usualSync, rest: "project"},
		{args: "run --sync 2s project", every: 2 * time.Second, rest: "project"},
		{args: "run --sync -- 2s", every: usualSync, rest: "-- 2s"},
		{args: "run --sync 5", failure: "--sync: \"5\" is not a duration: it has no unit"},
		{args: "run --sync=often", failure: "--sync: \"often\" is not a duration"},
		{args: "run --sync 99ms", failure: "--sync: \"99ms\" is less than 100ms"},
	}
	for _, test := range tests {
		var o Sync
		var rest string
		program := &Program{Commands: []Entry{{Name: "run", New: func(*Streams) *cli.Command {
			return &cli.Command{Name: "run", Flags: []cli.Flag{o.Flag("")}, Action: func(c *cli.Context) error {
				rest = strings.Join(c.Args().Slice(), " ")
				return nil
			}}
		}}}}
		err := program.execute(t.Context(), strings.Fields(test.args), testStreams())
		switch {
		case test.failure != "":
			if err == nil || !strings.Contains(err.Error(), test.failure) {
				t.Errorf("%s: the error is %v, want %s", test.args, err, test.failure)
			}
		case err != nil || o.every != test.every || rest != test.rest:
			t.Errorf("%s: got %v, %q, %v, want %v, %q", test.args, o.every, rest, err, test.every, test.rest)
		}
	}
}

// TestRemoteState checks that a failing remote is reported when it begins to fail, when it fails in
// another way, and when it is back.
func TestRemoteState(t *testing.T) {
	away := &gitmail.RemoteError{URL: "/hub", Err: errors.New("git fetch: not \x1b[31mthere")}
	refused := &gitmail.RemoteError{URL: "/hub", Refused: true, Err: errors.New("protected")}
	s := testStreams()
	state := RemoteState{Name: "/hub (oacp)"}
	for i, step := range []struct {
		err  error
		text string
	}{
		{nil, ""},
		{away, `oacp: warning: sync: /hub cannot be reached: git fetch: not \x1b[31mthere` + "\nhint: "},
		{away, ""},
		{refused, "oacp: warning: sync: /hub refuses the mail: protected"},
		{refused, ""},
		{nil, "oacp: note: up to date with /hub (oacp) again\n"},
		{nil, ""},
		{away, "oacp: warning: "},
	} {
		var text bytes.Buffer
		s.Err = &text
		if said := state.Observe(step.err, s); said != (step.text != "") || !strings.HasPrefix(text.String(), step.text) || said != (text.Len() > 0) {
			t.Errorf("step %d: %q, want %q", i, text.String(), step.text)
		}
	}
}
