package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
)

// The words after "--" are the agent's command. This file detects common mistakes in them.

// afterDashes is the hint for a command in any other place.
const afterDashes = "the command of the agent goes after --, as in: oacp run --agent codex -- ./agent.sh"

// checkOrder returns an error if the words after "--" begin with a flag, or if they hold a flag
// that the command needs and has not got: then it cannot be meant for the agent's command.
func checkOrder(c *cli.Context, words []string, needed string) error {
	if len(words) == 0 {
		return nil
	}
	own, rest := command.OwnFlags(c.Command, words)
	mistake := ""
	switch {
	case strings.HasPrefix(words[0], "-"):
		mistake = words[0]
	case needed != "" && command.HasFlag(own, needed):
		mistake = "--" + needed
	default:
		return nil
	}
	if len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		rest = []string{"COMMAND"}
	}
	right := visible.Shell(slices.Concat(own, []string{"--"}, rest)...)
	if len(c.LocalFlagNames()) > 0 {
		right = "… " + right // behind the flags that are right
	}
	mistake, _, _ = strings.Cut(mistake, "=")
	return failure.Usagef("%s comes after --, where the command of the agent begins", visible.Line(mistake)).
		WithHint("flags come first: " + c.Command.HelpName + " " + right)
}

// ours are the flags of run that hardly any other program has. One of them after "--" is likely to
// be a mistake, but goes to the agent's command all the same.
var ours = []string{"reply", "once", "driver", "allow-from", "require-signed", "show-output", "max-attempts", "max-pair-turns", "autonomy"}

// noteWords says which words of an agent's command may be meant otherwise than they are taken.
func noteWords(c *cli.Context, words []string, s *command.Streams) {
	if len(words) == 0 {
		return
	}
	own, _ := command.OwnFlags(c.Command, words[1:])
	for _, name := range ours {
		if command.HasFlag(own, name) && !c.IsSet(name) {
			s.Note(fmt.Sprintf("--%s goes to %s, not to %s: flags of oacp come before --", name, filepath.Base(words[0]), c.Command.HelpName))
		}
	}
	i := slices.IndexFunc(words[1:], isForShell)
	if i >= 0 && !isShell(words[0]) {
		s.Note(fmt.Sprintf("%s is an argument of %s, because no shell reads the command; with one: -- %s",
			visible.Quote(words[1+i]), filepath.Base(words[0]), shellForm(words)))
	}
}

// isForShell reports whether only a shell makes sense of the word: an operator, a variable, or a
// pattern for all files.
func isForShell(word string) bool {
	return regexp.MustCompile(`^(\|\|?|&&?|;|[0-9&]?>>?|2>&1|<{1,3}|\*|\$[A-Za-z_{(].*)$`).MatchString(word)
}

func isShell(program string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "fish", "ksh"}, filepath.Base(program))
}

// shellForm returns the words as the command of a shell.
func shellForm(words []string) string {
	var script []string
	for _, word := range words {
		if !isForShell(word) {
			word = visible.Shell(word)
		}
		script = append(script, word)
	}
	return visible.Shell("sh", "-c", strings.Join(script, " "))
}
