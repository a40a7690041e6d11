package validate

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/fatih/color"
)

// A textReporter writes text. The functions colour parts of it.
type textReporter struct {
	out                                  *bufio.Writer
	place, failure, warning, faint, good func(...any) string
}

// WriteText writes the diagnostics for people: position, severity, message and rule on one line,
// which editors can parse, then the line of the file with a mark below the position, then the fix;
// at the end a summary, which quiet omits if there are no errors.
func (r *Result) WriteText(to io.Writer, colored, quiet bool) error {
	paint := func(attributes ...color.Attribute) func(...any) string {
		c := color.New(attributes...)
		if colored {
			c.EnableColor()
		} else {
			c.DisableColor()
		}
		return c.SprintFunc()
	}
	w := textReporter{
		out: bufio.NewWriter(to), place: paint(color.Bold), faint: paint(color.Faint), good: paint(color.FgGreen),
		failure: paint(color.FgRed, color.Bold), warning: paint(color.FgYellow, color.Bold),
	}
	for _, d := range r.Diagnostics() {
		w.finding(d)
	}
	switch count := r.Count(); {
	case count.Errors > 0:
		w.printf("%s\n", count)
	case quiet:
	case count.Files == 1:
		w.printf("%s %s\n", w.good("OK:"), escape(r.Files[0].Name))
	default:
		w.printf("%s %s\n", w.good("OK:"), count)
	}
	return w.out.Flush() // with the first error of all writes
}

func (w *textReporter) printf(format string, args ...any) { fmt.Fprintf(w.out, format, args...) }

func (w *textReporter) finding(d Diagnostic) {
	place := escape(d.File) + ":"
	if d.Line > 0 {
		place += fmt.Sprintf("%d:%d:", d.Line, d.Column)
	}
	severity := w.failure("error:")
	if d.Severity == Warning {
		severity = w.warning("warning:")
	}
	rule := w.faint("[" + string(d.Rule) + "]")
	w.printf("%s %s %s %s\n", w.place(place), severity, escape(d.Message), rule)
	w.source(d)
	if d.Fix != "" {
		w.printf("%6s %s\n", "fix:", escape(d.Fix))
	}
}

// source shows the line of the file with a mark below the position, unless the position is far to
// the right or most of the line is not printable.
func (w *textReporter) source(d Diagnostic) {
	const widest = 110
	before, ok := cutCharacters(d.source, d.Column-1)
	if !ok || d.Column > widest {
		return
	}
	line := d.source
	if cut, ok := cutCharacters(line, widest); ok {
		line = cut + "…"
	}
	if line = escape(oneSpaced(line)); len(line) > 4*widest {
		return
	}
	indent := strings.Repeat(" ", utf8.RuneCountInString(escape(oneSpaced(before))))
	w.printf("%s %s\n", w.faint(fmt.Sprintf("%6d |", d.Line)), line)
	w.printf("%s %s%s\n", w.faint("       |"), indent, w.failure("^"))
}

// oneSpaced replaces tabs by spaces, so that the mark is below the right character.
func oneSpaced(line string) string { return strings.ReplaceAll(line, "\t", " ") }
