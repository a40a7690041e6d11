package main

import "github.com/oacp-go/oacp/internal/visible"

// Everything printed for people goes through the functions of this file; JSON
// has its own escapes.

// escapeLine returns the text on one line, with every character written out
// that has no visible form of its own.
func escapeLine(text string) string { return visible.Line(text) }

// escapeLines is escapeLine, but leaves line breaks and tabs.
func escapeLines(text string) string { return visible.Lines(text) }

// quote returns a word of the command line for an error message.
func quote(text string) string {
	const most = 80
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return `"` + escapeLine(text) + `"`
}
