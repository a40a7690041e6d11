package agent

import (
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxVariable bounds the value of a variable, in bytes. Systems do not start a program with very
// large ones, and a message must not be able to cause that.
const maxVariable = 8 << 10

// environment returns the variables of this process and of the lists. Later ones win. It makes the
// values of the lists safe, as they may come from a message.
func environment(lists ...[]string) []string {
	variables := os.Environ()
	for _, list := range lists {
		for _, variable := range list {
			name, value, ok := strings.Cut(variable, "=")
			if name = safeText(name); ok && name != "" {
				variables = append(variables, name+"="+cutText(safeText(value), maxVariable))
			}
		}
	}
	return variables
}

// lookupVariable returns the value of a variable of a program started with the list, "" if it is
// not set.
func lookupVariable(list []string, name string) string {
	variables := environment(list)
	for _, variable := range slices.Backward(variables) {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// safeText drops NUL bytes, which no system can pass to a program, and replaces invalid UTF-8.
func safeText(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
}

// cutText returns the beginning of the text, at most limit bytes of it, cut between characters.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
