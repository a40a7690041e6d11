package command

import (
	"bufio"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// wait is a flag value that may be omitted.
type wait string

func (w *wait) String() string         { return string(*w) }
func (w *wait) Set(value string) error { *w = wait(value); return nil }
func (*wait) IsBoolFlag() bool         { return true }
func (*wait) Accepts(word string) bool { return word == "reply" }

func testProgram() *Program {
	command := func(name string, flags ...string) Entry {
		return Entry{Name: name, New: func(*Streams) *cli.Command {
			c := &cli.Command{Name: name, Action: func(*cli.Context) error { return nil }}
			for _, f := range flags {
				switch f {
				case "wait":
					c.Flags = append(c.Flags, &cli.GenericFlag{Name: f, Value: new(wait)})
				case "json", "archive", "quiet":
					c.Flags = append(c.Flags, &cli.BoolFlag{Name: f})
				case "subject":
					c.Flags = append(c.Flags, &cli.StringFlag{Name: f, Aliases: []string{"s"}})
				case "hidden":
					c.Flags = append(c.Flags, &cli.StringFlag{Name: f, Hidden: true})
				default:
					c.Flags = append(c.Flags, &cli.StringFlag{Name: f})
				}
			}
			return c
		}}
	}
	return &Program{Commands: []Entry{
		command("send", "to", "subject", "body", "wait", "dir", "hidden"), command("inbox", "agent", "dir", "json"),
		command("ack", "agent", "archive", "dir", "json"), command("validate", "quiet"), command("read"),
		{Name: "help", New: NewHelpCommand}, {Name: "version", New: NewVersionCommand},
	}}
}

func testStreams() *Streams {
	return &Streams{In: strings.NewReader(""), Out: bufio.NewWriter(io.Discard), Err: io.Discard, Getenv: func(string) string { return "" }}
}

// flagsOf returns the flags with their values.
func flagsOf(c *call) []string {
	var flags []string
	for _, a := range c.flags {
		text := "--" + a.flag.Names()[0]
		if a.hasValue {
			text += "=" + a.value
		}
		flags = append(flags, text)
	}
	return flags
}

func TestParse(t *testing.T) {
	tests := []struct {
		args string
		want string // command, flags and the rest
		help bool
	}{
		{args: "inbox", want: "inbox |"},
		{args: "inbox my-project --agent a --json", want: "inbox --agent=a --json | my-project"},
		{args: "inbox --agent a my-project", want: "inbox --agent=a | my-project"},
		{args: "ack one -- --two", want: "ack | one -- --two"},
		{args: "ack -- -- x", want: "ack | -- -- x"},
		{args: "validate - --quiet", want: "validate --quiet | -"},
		{args: "send --body - --to b", want: "send --body=- --to=b |"},
		{args: "send -s x", want: "send --subject=x |"},
		{args: "send --wait p", want: "send --wait | p"},
		{args: "send --wait reply p", want: "send --wait=reply | p"},
		{args: "send --wait=ack reply", want: "send --wait=ack | reply"},
		{args: "send --subj x --t b --bo=y", want: "send --subject=x --to=b --body=y |"},
		{args: "ack --arch one", want: "ack --archive | one"},
		{args: "-V", want: "version |"},
		{args: "version --json", want: "version --json |"},
		{args: "read help", want: "read | help"},
		{args: "send -h", help: true},
		{args: "send --to b --help", help: true},
	}
	for _, test := range tests {
		c, err := testProgram().parse(strings.Fields(test.args), testStreams())
		if err != nil {
			t.Errorf("oacp %s: %v", test.args, err)
			continue
		}
		if c.help != test.help {
			t.Errorf("oacp %s: help is %t, want %t", test.args, c.help, test.help)
		}
		if test.help {
			continue
		}
		words := slices.Concat([]string{c.name()}, flagsOf(c), []string{"|"}, c.words)
		if got := strings.Join(words, " "); got != test.want {
			t.Errorf("oacp %s: got %q, want %q", test.args, got, test.want)
		}
	}
}

func TestWrongFlags(t *testing.T) {
	for args, want := range map[string]string{
		"ack --a=x":            "ack: there is no flag --a",
		"ack --agent":          "ack: --agent needs a value",
		"send --subject --to":  "send: --subject needs a value",
		"ack --subject x":      "ack: there is no flag --subject",
		"--subject x send":     "no command is given",
		"send --subject -- --": "send: --subject needs a value",
	} {
		_, err := testProgram().parse(strings.Fields(args), testStreams())
		if err == nil || err.Error() != want {
			t.Errorf("oacp %s: %v, want %q", args, err, want)
		}
	}
}

// TestArgumentOrder checks that flags may appear anywhere.
func TestArgumentOrder(t *testing.T) {
	groups := [][]string{{"one"}, {"two"}, {"--agent", "a"}, {"--archive"}, {"--dir=d"}, {"--json"}}
	for seed := range uint64(200) {
		shuffled := slices.Clone(groups)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		args := append([]string{"ack"}, slices.Concat(shuffled...)...)
		c, err := testProgram().parse(args, testStreams())
		if err != nil {
			t.Fatalf("oacp %s: %v", strings.Join(args, " "), err)
		}
		flags := slices.Sorted(slices.Values(flagsOf(c)))
		if want := []string{"--agent=a", "--archive", "--dir=d", "--json"}; !slices.Equal(flags, want) {
			t.Errorf("oacp %s: flags are %q, want %q", strings.Join(args, " "), flags, want)
		}
		slices.Sort(c.words)
		if want := []string{"one", "two"}; !slices.Equal(c.words, want) {
			t.Errorf("oacp %s: other arguments are %q, want %q", strings.Join(args, " "), c.words, want)
		}
	}
}

// FuzzParse checks that parse either refuses a command line, or that the command runs and gets the
// arguments after "--".
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"send\x00--to\x00b", "ack\x00x\x00--\x00--y", "-", "--=", "inbox\x00--agent=\x00p", "send\x00--wait\x00reply"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		c, err := testProgram().parse(args, testStreams())
		if err != nil || c.help || c.command == nil || c.command.Name == "help" {
			return
		}
		if err := c.run(t.Context()); err != nil && len(c.flags) == 0 {
			t.Errorf("%q: %v", args, err)
		}
		if at := slices.Index(c.words, "--"); at >= 0 {
			behind := c.words[at:]
			if !slices.Equal(args[len(args)-len(behind):], behind) {
				t.Fatalf("%q: what follows -- became %q", args, behind)
			}
		}
	})
}
