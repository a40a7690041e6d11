package validate

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"github.com/fatih/color"
)

// WriteText writes the diagnostics for people: position, severity, message and rule on one line,
// which editors can parse, then the line of the file with a mark below the position, then the fix;
// at the end a summary.
func (r *Result) WriteText(to io.Writer, colored bool) error {
	buffered := bufio.NewWriter(to)
	w := textReporter{reporter: reporter{to: buffered}, palette: newPalette(colored)}
	for i := range r.Files {
		for _, d := range r.Files[i].Diagnostics {
			w.finding(d)
		}
	}
	w.summary(r)
	if w.err != nil {
		return w.err
	}
	return buffered.Flush()
}

// A palette colours the parts of the text.
type palette struct{ place, failure, warning, faint, good func(...any) string }

func newPalette(colored bool) palette {
	paint := func(attributes ...color.Attribute) func(...any) string {
		c := color.New(attributes...)
		if colored {
			c.EnableColor()
		} else {
			c.DisableColor()
		}
		return c.SprintFunc()
	}
	return palette{
		place: paint(color.Bold), failure: paint(color.FgRed, color.Bold), warning: paint(color.FgYellow, color.Bold),
		faint: paint(color.Faint), good: paint(color.FgGreen),
	}
}

type textReporter struct {
	reporter
	palette palette
}

func (w *textReporter) finding(d Diagnostic) {
	place := escape(d.File) + ":"
	if d.Line > 0 {
		place += strconv.Itoa(d.Line) + ":" + strconv.Itoa(d.Column) + ":"
	}
	severity := w.palette.failure("error:")
	if d.Severity == Warning {
		severity = w.palette.warning("warning:")
	}
	w.printf("%s %s %s %s\n", w.palette.place(place), severity, escape(d.Message), w.palette.faint("["+string(d.Rule)+"]"))
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
	indent := strings.Repeat(" ", len([]rune(escape(oneSpaced(before)))))
	w.printf("%s %s\n", w.palette.faint(padded(d.Line)+" |"), line)
	w.printf("%s %s%s\n", w.palette.faint(padded(0)+" |"), indent, w.palette.failure("^"))
}

// oneSpaced replaces tabs by spaces, so that the mark is below the right character.
func oneSpaced(line string) string { return strings.ReplaceAll(line, "\t", " ") }

func padded(line int) string {
	text := ""
	if line > 0 {
		text = strconv.Itoa(line)
	}
	return strings.Repeat(" ", max(6-len(text), 0)) + text
}

func (w *textReporter) summary(r *Result) {
	count := r.Count()
	switch {
	case count.Errors > 0:
		w.printf("%s\n", count)
	case count.Files == 1:
		w.printf("%s %s\n", w.palette.good("OK:"), escape(r.Files[0].Name))
	default:
		w.printf("%s %s\n", w.palette.good("OK:"), count)
	}
}
