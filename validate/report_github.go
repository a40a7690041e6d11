package validate

import (
	"bufio"
	"io"
	"path/filepath"
	"strings"
)

// WriteGitHub writes the diagnostics as workflow commands, which GitHub Actions shows as
// annotations in a pull request.
func (r *Result) WriteGitHub(to io.Writer) error {
	buffered := bufio.NewWriter(to)
	w := reporter{to: buffered}
	for i := range r.Files {
		for _, d := range r.Files[i].Diagnostics {
			w.annotation(d)
		}
	}
	if w.err != nil {
		return w.err
	}
	return buffered.Flush()
}

func (w *reporter) annotation(d Diagnostic) {
	w.printf("::%s file=%s", d.Severity, githubProperty(escape(filepath.ToSlash(d.File))))
	if d.Line > 0 {
		w.printf(",line=%d,col=%d", d.Line, d.Column)
	}
	message := escape(d.Message)
	if d.Fix != "" {
		message += "\nfix: " + escape(d.Fix)
	}
	w.printf(",title=%s::%s\n", githubProperty("oacp "+string(d.Rule)), githubData(message))
}

// githubData escapes the characters that end a workflow command.
func githubData(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
}

// githubProperty also escapes the characters that end a property.
func githubProperty(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(githubData(text))
}
