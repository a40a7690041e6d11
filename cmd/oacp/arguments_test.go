package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestParseArguments(t *testing.T) {
	tests := []struct {
		args string
		// want is what the library gets, behind the program's name.
		want string
		help bool
	}{
		{args: "inbox", want: "inbox --"},
		{args: "inbox my-project --agent a --json", want: "inbox --agent a --json -- my-project"},
		{args: "inbox --agent a my-project", want: "inbox --agent a -- my-project"},
		{args: "--json inbox p", want: "inbox --json -- p"},
		{args: "--dir d inbox", want: "inbox --dir d --"},
		{args: "ack one -- --two", want: "ack -- one -- --two"},
		{args: "ack -- -- x", want: "ack -- -- -- x"},
		{args: "validate - --quiet", want: "validate --quiet -- -"},
		{args: "send --body - --to b", want: "send --body - --to b --"},
		{args: "send --wait p", want: "send --wait -- p"},
		{args: "send --wait reply p", want: "send --wait=reply -- p"},
		{args: "send --wait=ack reply", want: "send --wait=ack -- reply"},
		{args: "-V", want: "version --"},
		{args: "version --json", want: "version --json --"},
		{args: "read help", want: "read -- help"},
		{args: "", help: true},
		{args: "help", help: true},
		{args: "help send", help: true},
		{args: "send -h", help: true},
		{args: "send --to b --help", help: true},
	}
	for _, test := range tests {
		call, err := parseArguments(newApp(newSession(t, "").streams), strings.Fields(test.args))
		if err != nil {
			t.Errorf("oacp %s: %v", test.args, err)
			continue
		}
		if call.help != test.help {
			t.Errorf("oacp %s: help is %t, want %t", test.args, call.help, test.help)
		}
		if got := strings.Join(call.args, " "); !test.help && got != "oacp "+test.want {
			t.Errorf("oacp %s: the library gets %q, want %q", test.args, got, "oacp "+test.want)
		}
	}
}

// TestArgumentOrder checks that it does not matter where flags stand.
func TestArgumentOrder(t *testing.T) {
	groups := [][]string{{"one"}, {"two"}, {"--agent", "a"}, {"--archive"}, {"--dir=d"}, {"--json"}}
	s := newSession(t, "").streams
	for seed := range uint64(200) {
		shuffled := slices.Clone(groups)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		args := append([]string{"ack"}, slices.Concat(shuffled...)...)
		call, err := parseArguments(newApp(s), args)
		if err != nil {
			t.Fatalf("oacp %s: %v", strings.Join(args, " "), err)
		}
		dash := slices.Index(call.args, "--")
		flags, rest := slices.Sorted(slices.Values(call.args[2:dash])), call.args[dash+1:]
		if want := []string{"--agent", "--archive", "--dir=d", "--json", "a"}; !slices.Equal(flags, want) {
			t.Errorf("oacp %s: flags are %q, want %q", strings.Join(args, " "), flags, want)
		}
		slices.Sort(rest)
		if want := []string{"one", "two"}; !slices.Equal(rest, want) {
			t.Errorf("oacp %s: other arguments are %q, want %q", strings.Join(args, " "), rest, want)
		}
	}
}

// FuzzParseArguments checks that a command line is either refused or reaches
// the library whole, with only flags before the "--".
func FuzzParseArguments(f *testing.F) {
	for _, seed := range []string{"send\x00--to\x00b", "ack\x00x\x00--\x00--y", "--json\x00inbox", "help\x00send", "-", "--=", "inbox\x00--agent=\x00p", "send\x00--wait\x00reply"} {
		f.Add(seed)
	}
	app := newApp(processStreams())
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		call, err := parseArguments(app, args)
		if err != nil || call.help {
			return
		}
		if call.command == nil {
			if len(call.args) > 1 && call.args[1] != "--" {
				t.Fatalf("%q names no command, but the library gets %q", args, call.args)
			}
			return
		}
		dash := slices.Index(call.args, "--")
		if dash < 0 {
			t.Fatalf("%q: there is no -- in %q", args, call.args)
		}
		rest := call.args[dash+1:]
		if written := slices.Index(args, "--"); written >= 0 && !slices.Contains(call.args[:dash], "--") {
			behind := args[written+1:]
			if len(rest) < len(behind) || !slices.Equal(rest[len(rest)-len(behind):], behind) {
				t.Fatalf("%q: what stands behind -- became %q", args, rest)
			}
		}
	})
}
