package validate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/visible"
)

// maxDiagnostics is the number of diagnostics listed for one file. A hostile file of one megabyte
// could cause hundreds of thousands.
const maxDiagnostics = 100

// A Diagnostic is one problem of a message.
type Diagnostic struct {
	// File is the name that the caller gave, or empty.
	File string `json:"file,omitempty"`
	// Line and Column count from 1; columns count characters, not bytes. Both are 0 if the
	// diagnostic has no position.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Field is the path of the field, such as to[2] or body.context_bundle.blockers_hit, or empty.
	Field    string   `json:"field,omitempty"`
	Rule     Rule     `json:"rule"`
	Severity Severity `json:"severity"`
	// Message says what is wrong. Text from the file is escaped, so it is safe to print on a
	// terminal.
	Message string `json:"message"`
	// Fix says what to do, if that is clear.
	Fix string `json:"fix,omitempty"`

	// source is the line of the file, which text reports show.
	source string
}

// String returns the diagnostic on one line, with as much of its position as is known.
func (d Diagnostic) String() string {
	var out strings.Builder
	if d.File != "" {
		out.WriteString(visible.Line(d.File) + ":")
	}
	if d.Line > 0 {
		fmt.Fprintf(&out, "%d:%d:", d.Line, d.Column)
	}
	if out.Len() > 0 {
		out.WriteByte(' ')
	}
	fmt.Fprintf(&out, "%s [%s]", d.Message, d.Rule)
	return out.String()
}

// Diagnostics are the problems of one or more messages.
type Diagnostics []Diagnostic

// HasErrors reports whether any diagnostic is an error.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}

// Err returns an *InvalidError with the diagnostics if any of them is an error, and nil otherwise.
func (ds Diagnostics) Err() error {
	if !ds.HasErrors() {
		return nil
	}
	return &InvalidError{Diagnostics: ds}
}

// An InvalidError says why a message is not valid.
type InvalidError struct{ Diagnostics Diagnostics }

// Error returns the first error on one line, and how many more there are.
func (e *InvalidError) Error() string {
	errs := slices.DeleteFunc(slices.Clone(e.Diagnostics), func(d Diagnostic) bool { return d.Severity != Error })
	switch len(errs) {
	case 0:
		return ""
	case 1:
		return errs[0].String()
	}
	return fmt.Sprintf("%s (and %d more)", errs[0], len(errs)-1)
}

// Lines returns each error on one line, with its fix.
func (e *InvalidError) Lines() (lines []string) {
	for _, d := range e.Diagnostics {
		if d.Severity == Error {
			lines = append(lines, strings.TrimSuffix(d.String()+": "+d.Fix, ": "))
		}
	}
	return lines
}

func (e *InvalidError) Explain() (code, hint string) { return "invalid_message", "" }

// in sets the file of the diagnostics, and the lines that they refer to.
func (ds Diagnostics) in(file, text string) Diagnostics {
	for i := range ds {
		ds[i].File = file
		ds[i].source = sourceLine(text, ds[i].Line)
		if d := &ds[i]; d.Rule == ruleMissingField || d.Rule == ruleLostText {
			if value, ok := comment(d.source, d.Column); ok {
				d.Fix = "a # after a space begins a comment: put the text in double quotes"
				if !strings.ContainsAny(value, `"\`) {
					d.Fix += ": " + visible.Line(d.Field+`: "`+value+`"`)
				}
			}
		}
	}
	return ds
}

// comment returns the comment at a column of a line, where a value should be.
func comment(line string, column int) (string, bool) {
	if column < 1 {
		return "", false
	}
	rest := strings.TrimSpace(line[len(visible.Cut(line, column-1)):])
	return rest, strings.HasPrefix(rest, "#")
}

// sourceLine returns the line of the text with the given number, or nothing if it is too long to
// show.
func sourceLine(text string, number int) string {
	if number < 1 {
		return ""
	}
	line := strings.TrimSuffix(lineOf(text, number), "\r")
	if len(line) > 400 {
		return ""
	}
	return strings.Clone(line)
}

// ordered sorts the diagnostics by position, removes exact duplicates and replaces those beyond the
// bound by a count.
func (ds Diagnostics) ordered() Diagnostics {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	ds = slices.Compact(ds)
	if len(ds) <= maxDiagnostics {
		return ds
	}
	last := ds[maxDiagnostics-1]
	return append(ds[:maxDiagnostics:maxDiagnostics], Diagnostic{
		File: last.File, Line: last.Line, Column: last.Column, Rule: ruleManyProblems, Severity: Error,
		Message: "there are more problems, which are not listed", Fix: "fix the listed ones first",
	})
}

// quote returns the text in double quotes, escaped for a terminal and truncated.
func quote[T ~string](text T) string { return visible.Quote(string(text)) }

// path is a position in a message: keys are strings, list indexes are ints.
type path []any

func (p path) String() string {
	const longest = 160
	var out strings.Builder
	for i, step := range p {
		if out.Len() > longest {
			out.WriteString("…")
			break
		}
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&out, "[%d]", step)
		case string:
			if i > 0 {
				out.WriteByte('.')
			}
			out.WriteString(visible.Line(cmp.Or(visible.Short(step, 61), `""`)))
		}
	}
	return out.String()
}
