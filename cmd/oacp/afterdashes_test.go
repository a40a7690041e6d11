package main

import "testing"

func TestIsForShell(t *testing.T) {
	for _, word := range []string{"|", "||", "&&", "&", ";", ">", ">>", "2>", "&>", "2>&1", "<", "<<<", "*", "$HOME", "${X}", "$(date)"} {
		if !isForShell(word) {
			t.Errorf("%s means nothing to a shell, want that it does", word)
		}
	}
	for _, word := range []string{"", "a", "-", "a|b", "$", "$5", "*.go", "Bash(npm *)", "a; b", "x > y", "--reply"} {
		if isForShell(word) {
			t.Errorf("%q is only for a shell, want that programs may get it", word)
		}
	}
}
