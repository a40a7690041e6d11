// Package visible makes untrusted text safe to show on a terminal. The text of a message can hold
// anything: escape sequences that rewrite the screen, line breaks that fake a field, marks that
// reverse the direction of writing.
package visible

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns the text on one line, with every character written out that has no visible form of
// its own.
func Line(text string) string { return escapeExcept(text, "") }

// Lines is Line, but leaves line breaks and tabs.
func Lines(text string) string { return escapeExcept(text, "\n\t") }

func escapeExcept(text, allowed string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !isVisible(-1, r) && !strings.ContainsRune(allowed, r) }) {
		return text
	}
	var out strings.Builder
	before := rune(-1)
	for i, r := range text {
		shown := isVisible(before, r)
		if before = -1; shown {
			before = r
		}
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			fmt.Fprintf(&out, `\x%02x`, text[i])
		case shown || strings.ContainsRune(allowed, r):
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&out, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\U%08x`, r)
		}
	}
	return out.String()
}

// FirstInvisible returns the first character of a text that has no visible form, written out, or "". Those of ASCII
// and the separators of Unicode do not count: they break lines or control a terminal.
func FirstInvisible(text string) string {
	before := rune(-1)
	for _, r := range text {
		if r >= utf8.RuneSelf && !unicode.In(r, unicode.Zl, unicode.Zp) && !isVisible(before, r) {
			return Line(string(r))
		}
		before = r
	}
	return ""
}

const (
	nonJoiner, joiner    = '\u200c', '\u200d'
	asText, asEmoji      = '\ufe0e', '\ufe0f'
	brailleBlank         = '\u2800'
	digitsThatAreKeycaps = "0123456789#*"
)

// isVisible reports whether a terminal shows the character, which follows another one, and does nothing else. The joiners
// and two selectors have no form of their own, but many scripts and emoji need one, where it changes something. Elsewhere they
// would hide bits.
func isVisible(before, r rune) bool {
	switch r {
	case nonJoiner, joiner:
		return before >= utf8.RuneSelf && (unicode.In(before, unicode.L, unicode.M, unicode.S) || before == asEmoji && r == joiner)
	case asText, asEmoji:
		return strings.ContainsRune(digitsThatAreKeycaps, before) || before >= utf8.RuneSelf && before != brailleBlank && unicode.In(before, unicode.S, unicode.P)
	case brailleBlank, '\u2028', '\u2029':
		return false
	}
	return unicode.IsGraphic(r) && !unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// Quote returns the text in quotes on one line, shortened, for an error message.
func Quote(text string) string { return `"` + Line(Short(text, 81)) + `"` }

const ellipsis = "…"

// Cut returns the first characters of a text, at most most of them.
func Cut(text string, most int) string {
	for i := range text {
		if most == 0 {
			return text[:i]
		}
		most--
	}
	return text
}

// Short returns a text of at most most characters, or its beginning with an ellipsis at the end.
func Short(text string, most int) string {
	if len(Cut(text, most)) == len(text) {
		return text
	}
	return strings.TrimSpace(Cut(text, most-1)) + ellipsis
}

// CutBytes returns the beginning of a text, at most most bytes of it, cut between characters.
func CutBytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// ShortBytes returns a text of at most most bytes, or as many of its beginning and an ellipsis.
func ShortBytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return CutBytes(text, most) + ellipsis
}

// ShellCommand returns a command of these words, as a person can copy it into a shell: a word that means
// more to a shell than itself is quoted. Characters that have no visible form are written out, so a name with
// such a character cannot be copied.
func ShellCommand(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Line(word)
		if word == "" || strings.ContainsFunc(word, meansMore) {
			quoted[i] = "'" + strings.ReplaceAll(quoted[i], "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// meansMore reports whether the character may mean more to a shell than itself.
func meansMore(r rune) bool {
	isLetter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !isLetter && (r < '0' || r > '9') && !strings.ContainsRune("_-./:@%+,", r)
}
