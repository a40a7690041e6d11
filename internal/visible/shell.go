package visible

import (
	"fmt"
	"strings"
)

// Shell returns a command of these words, as a person can copy it into a
// shell: a word that means more to a shell than itself is quoted. Characters
// that have no visible form are written out in the form $'…', which bash, zsh
// and ksh read.
func Shell(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = shellWord(word)
	}
	return strings.Join(quoted, " ")
}

func shellWord(word string) string {
	switch {
	case word != "" && strings.IndexFunc(word, meansMore) < 0:
		return word
	case Line(word) == word:
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var out strings.Builder
	out.WriteString("$'")
	for i := range len(word) {
		switch c := word[i]; {
		case c == '\'' || c == '\\':
			out.WriteByte('\\')
			out.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&out, `\%03o`, c)
		default:
			out.WriteByte(c)
		}
	}
	out.WriteString("'")
	return out.String()
}

// meansMore reports whether the character may mean more to a shell than
// itself.
func meansMore(r rune) bool {
	isLetter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !isLetter && (r < '0' || r > '9') && !strings.ContainsRune("_-./:@%+,", r)
}
