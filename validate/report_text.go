package validate

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/oacp-go/oacp/internal/visible"
)

// WriteText writes the diagnostics for people: position, severity, message and rule on one line, which
// editors can parse, then the line of the file with a mark below the position, then the fix. A summary
// follows, which quiet omits if there are no errors.
func (r *Result) WriteText(to io.Writer, quiet bool) error {
	out := bufio.NewWriter(to)
	for _, d := range r.Diagnostics() {
		place := visible.Line(d.File) + ":"
		if d.Line > 0 {
			place += fmt.Sprintf("%d:%d:", d.Line, d.Column)
		}
		fmt.Fprintf(out, "%s %s: %s [%s]\n", place, d.Severity, visible.Line(d.Message), d.Rule)
		writeSource(out, d)
		if d.Fix != "" {
			fmt.Fprintf(out, "%6s %s\n", "fix:", visible.Line(d.Fix))
		}
	}
	switch count := r.Count(); {
	case count.Errors > 0:
		fmt.Fprintf(out, "%s\n", count)
	case quiet:
	case count.Files == 1:
		fmt.Fprintf(out, "OK: %s\n", visible.Line(r.Files[0].Name))
	default:
		fmt.Fprintf(out, "OK: %s\n", count)
	}
	return out.Flush() // with the first error of all writes
}

// writeSource shows the line of the file with a mark below the position, unless the position is far to
// the right or most of the line is not printable.
func writeSource(out io.Writer, d Diagnostic) {
	const widest = 110
	before := visible.Cut(d.source, d.Column-1)
	if len(before) == len(d.source) || d.Column > widest {
		return
	}
	line := visible.Line(oneSpaced(visible.Short(d.source, widest+1)))
	if len(line) > 4*widest {
		return
	}
	indent := strings.Repeat(" ", utf8.RuneCountInString(visible.Line(oneSpaced(before))))
	fmt.Fprintf(out, "%6d | %s\n       | %s^\n", d.Line, line, indent)
}

// oneSpaced replaces tabs by spaces, so that the mark is below the right character.
func oneSpaced(line string) string { return strings.ReplaceAll(line, "\t", " ") }
