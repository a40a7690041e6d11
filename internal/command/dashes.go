package command

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// OwnFlags divides words that stand after "--" into flags of the command, with their values, and
// the rest.
func OwnFlags(c *cli.Command, words []string) (own, rest []string) {
	for len(words) > 0 {
		name, isFlag := strings.CutPrefix(words[0], "--")
		name, _, hasValue := strings.Cut(name, "=")
		known := commandFlag(c, name)
		length := 1
		if !hasValue && known != nil && len(words) > 1 && optionalValue(known) != nil && optionalValue(known).Accepts(words[1]) {
			length = 2
		}
		switch {
		case !isFlag || known == nil:
			rest, words = append(rest, words[0]), words[1:]
			continue
		case !hasValue && takesValue(known):
			length = min(2, len(words))
		}
		own, words = append(own, words[:length]...), words[length:]
	}
	return own, rest
}

// HasFlag reports whether the words hold a flag, with or without a value.
func HasFlag(words []string, name string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		word, _, _ = strings.Cut(word, "=")
		return word == "--"+name
	})
}
