package visible

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestShell(t *testing.T) {
	tests := []struct {
		words []string
		want  string
	}{
		{[]string{"oacp", "ack", "20260313T1201Z_claude_question.yaml"}, "oacp ack 20260313T1201Z_claude_question.yaml"},
		{[]string{""}, "''"},
		{[]string{"a b.yaml"}, "'a b.yaml'"},
		{[]string{"$(rm -rf ~).yaml"}, "'$(rm -rf ~).yaml'"},
		{[]string{"it's.yaml"}, `'it'\''s.yaml'`},
		{[]string{"naïve.yaml"}, "'naïve.yaml'"},
		{[]string{"~"}, "'~'"},
		{[]string{"a\nb'.yaml"}, `'a\nb'\''.yaml'`},
		{[]string{"\x1b[31m", "\u202e"}, `'\x1b[31m' '\u202e'`},
	}
	for _, test := range tests {
		if got := ShellCommand(test.words...); got != test.want {
			t.Errorf("ShellCommand(%q) is %s, want %s", test.words, got, test.want)
		}
	}
}

// FuzzShell checks that a shell reads the same words back.
func FuzzShell(f *testing.F) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		f.Skipf("there is no bash: %v", err)
	}
	for _, word := range []string{"", "a", "-n", "~/x", "a b", `'"\$(x)!#*?[]{}&|;<>`, "\u202eé", "\xff\x7f0", "=x", "\x01"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		word = Line(word)
		command := ShellCommand(word, "end")
		if Line(command) != command {
			t.Errorf("ShellCommand(%q) is %q, want visible characters only", word, command)
		}
		output, err := exec.Command(shell, "--norc", "-c", `printf '%s\0' `+command).Output()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if got, want := strings.Split(string(output), "\x00"), []string{word, "end", ""}; !slices.Equal(got, want) {
			t.Errorf("a shell reads %s as %q, want %q", command, got, want)
		}
	})
}
