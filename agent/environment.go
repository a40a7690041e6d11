package agent

import (
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxVariable bounds the value of a variable in bytes. Systems refuse to start a program with
// larger ones, and a message must not be able to cause that.
const maxVariable = 8 << 10

// environment returns the variables of this process with those of the lists added, where the later
// wins. What came from a message is made safe first.
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

// lookupVariable returns the value of a variable of a program that is started with the list, "" if
// it has none.
func lookupVariable(list []string, name string) string {
	variables := environment(list)
	for _, variable := range slices.Backward(variables) {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// safeText drops NUL bytes, which no system can pass on, and replaces what is not UTF-8.
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
