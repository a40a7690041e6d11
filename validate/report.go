package validate

import (
	"fmt"
	"io"
)

// Count holds the number of files and diagnostics.
type Count struct {
	Files    int `json:"files"`
	Invalid  int `json:"invalid"`
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
}

// Count counts the files and diagnostics.
func (r *Result) Count() Count {
	count := Count{Files: len(r.Files)}
	for i := range r.Files {
		found := r.Files[i].Diagnostics
		if found.HasErrors() {
			count.Invalid++
		}
		for j := range found {
			if found[j].Severity == Error {
				count.Errors++
			} else {
				count.Warnings++
			}
		}
	}
	return count
}

// String returns the numbers in words.
func (c Count) String() string {
	if c.Errors == 0 && c.Warnings == 0 {
		return plural(c.Files, "file")
	}
	return fmt.Sprintf("%s, %d invalid: %s, %s", plural(c.Files, "file"), c.Invalid, plural(c.Errors, "error"), plural(c.Warnings, "warning"))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// A reporter writes until the first error and keeps that error.
type reporter struct {
	to  io.Writer
	err error
}

func (w *reporter) printf(format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.to, format, args...)
	}
}
