package validate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDiagnostics is how many findings one file may have before the rest is
// summed up: a hostile file of one megabyte could have hundreds of thousands.
const maxDiagnostics = 100

// A Diagnostic is one finding.
type Diagnostic struct {
	// File is the name the caller gave; empty where there is none.
	File string `json:"file,omitempty"`
	// Line and Column count from 1; a column counts characters, not bytes.
	// Both are 0 where the finding has no place in a file.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Field is the path of the field, such as to[2] or
	// body.context_bundle.blockers_hit; empty where no field is concerned.
	Field    string   `json:"field,omitempty"`
	Rule     Rule     `json:"rule"`
	Severity Severity `json:"severity"`
	// Message says what is wrong. Text quoted from the file is escaped, so
	// it is safe on a terminal.
	Message string `json:"message"`
	// Fix says what to do, where that is clear.
	Fix string `json:"fix,omitempty"`

	// source is the line of the file, for reports that show it.
	source string
}

// String returns the finding on one line, with as much of its place as is
// known.
func (d Diagnostic) String() string {
	var out strings.Builder
	if d.File != "" {
		out.WriteString(escape(d.File) + ":")
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

// Diagnostics are the findings on one or more messages.
type Diagnostics []Diagnostic

// HasErrors reports whether any finding is an error.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}

// Err returns an *InvalidError that carries the findings if any of them is an
// error, and nil otherwise.
func (ds Diagnostics) Err() error {
	if !ds.HasErrors() {
		return nil
	}
	return &InvalidError{Diagnostics: ds}
}

// An InvalidError says why a message is not a valid one.
type InvalidError struct{ Diagnostics Diagnostics }

// Error returns the first error on one line, and how many more there are.
func (e *InvalidError) Error() string {
	var first string
	count := 0
	for _, d := range e.Diagnostics {
		if d.Severity != Error {
			continue
		}
		if count == 0 {
			first = d.String()
		}
		count++
	}
	if count > 1 {
		return fmt.Sprintf("%s (and %d more)", first, count-1)
	}
	return first
}

// in names the file that the findings are about, and adds its lines.
func (ds Diagnostics) in(file, text string) Diagnostics {
	for i := range ds {
		ds[i].File = file
		ds[i].source = sourceLine(text, ds[i].Line)
	}
	return ds
}

// sourceLine returns the line of the text with the number, or none if it is
// too long to be shown.
func sourceLine(text string, number int) string {
	const longest = 400
	if number < 1 {
		return ""
	}
	line := strings.TrimSuffix(lineOf(text, number), "\r")
	if len(line) > longest {
		return ""
	}
	return strings.Clone(line)
}

// ordered sorts the findings by place, drops exact repetitions and sums up
// what exceeds the bound.
func (ds Diagnostics) ordered() Diagnostics {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	ds = slices.Compact(ds)
	if len(ds) <= maxDiagnostics {
		return ds
	}
	rest := len(ds) - maxDiagnostics
	last := ds[maxDiagnostics-1]
	return append(ds[:maxDiagnostics:maxDiagnostics], Diagnostic{
		File: last.File, Line: last.Line, Column: last.Column, Rule: RuleManyProblems, Severity: Error,
		Message: fmt.Sprintf("there are %d more problems from here on", rest),
	})
}

// quote returns the text in double quotes, with everything escaped that could
// disturb a terminal, cut to a length that keeps a message on a line.
func quote(text string) string {
	const most = 60
	if cut, ok := cutCharacters(text, most); ok {
		return strconv.Quote(cut) + "…"
	}
	return strconv.Quote(text)
}

// cutCharacters returns the first n characters of a text that has more.
func cutCharacters(text string, n int) (string, bool) {
	if len(text) <= n {
		return text, false
	}
	for i := range text {
		if n == 0 {
			return text[:i], true
		}
		n--
	}
	return text, false
}

// escape returns the text with control characters and invalid UTF-8 escaped
// and everything else as it is.
func escape(text string) string {
	clean := utf8.ValidString(text)
	for _, r := range text {
		clean = clean && strconv.IsPrint(r)
	}
	if clean {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), `\\`, `\`)
}

// path is where in a message a finding belongs: keys are strings, places in
// lists are ints.
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
			if cut, ok := cutCharacters(step, 60); ok {
				step = cut + "…"
			} else if step == "" {
				step = `""`
			}
			out.WriteString(escape(step))
		}
	}
	return out.String()
}
