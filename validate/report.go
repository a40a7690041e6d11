package validate

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
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
	for _, file := range r.Files {
		if file.Diagnostics.HasErrors() {
			count.Invalid++
		}
		for _, d := range file.Diagnostics {
			if d.Severity == Error {
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
		return spelling.Plural(c.Files, "file")
	}
	return fmt.Sprintf("%s, %d invalid: %s, %s",
		spelling.Plural(c.Files, "file"), c.Invalid, spelling.Plural(c.Errors, "error"), spelling.Plural(c.Warnings, "warning"))
}

// WriteJSON writes the result as one JSON object: the numbers of files, invalid files, errors and
// warnings, and the array diagnostics.
func (r *Result) WriteJSON(to io.Writer) error {
	all := append(Diagnostics{}, r.Diagnostics()...) // not null
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Count
		Diagnostics Diagnostics `json:"diagnostics"`
	}{r.Count(), all})
}

// WriteGitHub writes the diagnostics as workflow commands, which GitHub Actions shows as
// annotations in a pull request.
func (r *Result) WriteGitHub(to io.Writer) error {
	// In a command these characters end the message or, the last two, a property.
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	out := bufio.NewWriter(to)
	for _, d := range r.Diagnostics() {
		fmt.Fprintf(out, "::%s file=%s", d.Severity, property.Replace(visible.Line(filepath.ToSlash(d.File))))
		if d.Line > 0 {
			fmt.Fprintf(out, ",line=%d,col=%d", d.Line, d.Column)
		}
		text := visible.Line(d.Message)
		if d.Fix != "" {
			text += "\nfix: " + visible.Line(d.Fix)
		}
		fmt.Fprintf(out, ",title=%s::%s\n", property.Replace("oacp "+string(d.Rule)), message.Replace(text))
	}
	return out.Flush()
}
