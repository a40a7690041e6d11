// Package visible makes text that anybody may have written safe to show on a
// terminal.
//
// Text that comes from messages can hold anything: escape sequences that
// rewrite the screen, line breaks that fake a field, marks that turn the
// direction of writing around.
package visible

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns the text on one line, with every character written out that
// has no visible form of its own.
func Line(text string) string { return escapeExcept(text, "") }

// Lines is Line, but leaves line breaks and tabs.
func Lines(text string) string { return escapeExcept(text, "\n\t") }

func escapeExcept(text, allowed string) string {
	clean := true
	for _, r := range text {
		if !isVisible(r) && !strings.ContainsRune(allowed, r) {
			clean = false
			break
		}
	}
	if clean && utf8.ValidString(text) {
		return text
	}
	var out strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			fmt.Fprintf(&out, `\x%02x`, text[i])
		case isVisible(r) || strings.ContainsRune(allowed, r):
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

// isVisible reports whether a terminal shows the character and does nothing
// else. The joiners have no form of their own, but many scripts and emoji
// need them.
func isVisible(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return unicode.IsGraphic(r) && r != '\u2028' && r != '\u2029' || r == nonJoiner || r == joiner
}

// Quote returns the text in quotes on one line, shortened, for an error message.
func Quote(text string) string {
	const most = 80
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return `"` + Line(text) + `"`
}
