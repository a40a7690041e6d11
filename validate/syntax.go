package validate

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/oacp-go/oacp/internal/visible"
)

// yaml.v3 does not report columns, and its line may be that of the problem, the line before, or the
// value around it. errorOffset finds the position by trial: the end of the shortest prefix of the text
// that fails with the same error.

// maxSearched is the longest text in which errorOffset searches. In longer text the position is
// where the parser stopped reading.
const maxSearched = 64 << 10

// yamlMessage returns the message of an error of yaml.v3 without the line.
func yamlMessage(err error) string {
	if err == nil {
		return ""
	}
	what := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.HasPrefix(what, "line ") {
		_, what, _ = strings.Cut(what, ": ")
	}
	return what
}

// syntaxProblem returns the diagnostic for an error of the YAML parser.
func syntaxProblem(text string, err error) Diagnostic {
	what := yamlMessage(err)
	at := errorOffset(text, what)
	if name, ok := strings.CutPrefix(what, "unknown anchor '"); ok {
		name = "*" + strings.TrimSuffix(name, "' referenced")
		at = max(strings.LastIndex(text[:min(at+utf8.UTFMax, len(text))], name), 0)
		line, column := position(text[:at])
		message := fmt.Sprintf("the alias %s refers to another value", visible.Line(name))
		return treeProblem(line, column, nil, ruleAlias, message, "write the value itself, or quote it if it is text")
	}
	line, column := position(text[:at])
	if strings.HasPrefix(what, "exceeded max depth") {
		return treeProblem(line, column, nil, ruleDepth, tooDeep, "")
	}
	message, fix := explainSyntax(text, at, what)
	return treeProblem(line, column, nil, ruleSyntax, message, fix)
}

// errorOffset returns the offset of the character at which the parser fails with the message.
func errorOffset(text, what string) int {
	from := byteReader{strings.NewReader(text)}
	_, _, _ = decodeDocuments(from)
	end := len(text) - from.Len()
	if len(text) > maxSearched {
		// The parser reads a few characters ahead.
		return characterStart(text, max(end-4, 0))
	}
	lines := strings.SplitAfter(text[:end], "\n")
	last := firstFailing(len(lines), func(n int) bool { return failsWith(strings.Join(lines[:n], ""), what) })
	before := strings.Join(lines[:last-1], "")
	line := lines[last-1]
	n := firstFailing(len(line), func(n int) bool { return failsWith(before+line[:n], what) })
	if what == yamlNoColon {
		// The line as a whole is the problem.
		n = len(line) - len(strings.TrimLeft(line, " \t")) + 1
	}
	at := characterStart(text, len(before)+max(n-1, 0))
	if strings.HasPrefix(what, yamlUnclosed) {
		if opener := strings.LastIndexAny(text[:at+1], "[{"); opener >= 0 {
			at = opener
		}
	}
	return at
}

// firstFailing returns the smallest n from 1 to most for which failing(n) holds, by binary search.
// It holds for most.
func firstFailing(most int, failing func(int) bool) int {
	return 1 + sort.Search(most-1, func(i int) bool { return failing(i + 1) })
}

func failsWith(text, what string) bool {
	_, _, err := decodeDocuments(strings.NewReader(text))
	return yamlMessage(err) == what
}

// characterStart moves an offset back to the start of its character.
func characterStart(text string, at int) int {
	at = min(at, len(text))
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// A byteReader reads one byte at a time, so that its position is that of the parser.
type byteReader struct{ *strings.Reader }

func (r byteReader) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 1)]) }

// Error messages of yaml.v3.
const (
	yamlColon    = "mapping values are not allowed in this context"
	yamlNoColon  = "could not find expected ':'"
	yamlKey      = "did not find expected key"
	yamlUnclosed = "did not find expected ',' or "
	yamlQuote    = "found unexpected end of stream"
)

// explanations translate the beginnings of other messages.
var explanations = []struct{ yaml, message, fix string }{
	{yamlQuote, "this quoted text is not closed", "close the quotes"},
	{"found a tab character", "a tab cannot indent a line", "indent with spaces"},
	{"found unknown escape character", "this escape is unknown in double quotes", `write \\ for a backslash`},
	{"found invalid Unicode character escape code", "the escape does not name a character", "write the character itself"},
	{"did not find expected <document start>", "there is text after the end of the message", "write the whole message as one mapping"},
}

// explainSyntax translates an error of the YAML parser at the offset into terms of the text, with a
// fix.
func explainSyntax(text string, at int, what string) (message, fix string) {
	start := strings.LastIndexByte(text[:at], '\n') + 1
	line, _, _ := strings.Cut(text[start:], "\n")
	line = strings.TrimSuffix(line, "\r")
	rest := text[at:]
	switch {
	case what == yamlColon:
		return explainColon(line, at-start)
	case what == yamlNoColon:
		if headsBlock(text[:start]) {
			return "the line belongs to the block above, but is not indented", "indent every line of a block by two spaces"
		}
		if message, fix, ok := explainWideColon(line); ok {
			return message, fix
		}
		return "the line is not a field: there is no colon after a name", "write it as name: value"
	case what == yamlKey:
		return explainKey(line)
	case len(text) > maxSearched && (what == yamlQuote || strings.HasPrefix(what, yamlUnclosed)):
		return "an earlier quoted text or bracket is not closed", "close it"
	case strings.HasPrefix(what, yamlUnclosed):
		return "this bracket is not closed", "close it with " + strings.TrimPrefix(what, yamlUnclosed)
	case what == "found character that cannot start any token" && !strings.HasPrefix(rest, "\t"):
		return "a plain value cannot begin with " + quote(visible.Cut(rest, 1)), "put the value in double quotes"
	case strings.HasPrefix(rest, "\t"):
		return "a tab cannot indent a line", "indent with spaces"
	}
	for _, e := range explanations {
		if strings.HasPrefix(what, e.yaml) {
			return e.message, e.fix
		}
	}
	return "this is not YAML: " + visible.Line(what), ""
}

func explainColon(line string, colon int) (message, fix string) {
	key, value, ok := strings.Cut(line, ": ")
	if !ok || colon <= len(key) {
		return "a field begins here inside another value", "indent the fields of a mapping alike"
	}
	fix = "put the text in double quotes"
	if value = strings.TrimSpace(value); len(line) <= 80 && !strings.ContainsAny(value, `"\`) {
		fix += fmt.Sprintf(`: %s: "%s"`, visible.Line(strings.TrimSpace(key)), visible.Line(value))
	}
	return "plain text cannot contain a colon followed by a space", fix
}

// explainWideColon explains a line whose colon is the full-width one of a Chinese or Japanese keyboard.
func explainWideColon(line string) (message, fix string, ok bool) {
	const wide = "\uFF1A"
	name, value, ok := strings.Cut(line, wide)
	if !ok || strings.Contains(name, " ") {
		return "", "", false
	}
	fix = "write a colon and a space"
	if len(line) <= 80 {
		fix += ": " + visible.Line(name+": "+strings.TrimSpace(value))
	}
	return "the colon after the name is a full-width one", fix, true
}

func explainKey(line string) (message, fix string) {
	trimmed := strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(trimmed, "-"):
		return "this is a list item; a field is expected", "indent the items of a list below their field"
	case strings.Contains(trimmed, "'"), strings.Contains(trimmed, `"`):
		return "there is text after the closing quote",
			`write a quote inside single quotes twice, and inside double quotes as \"`
	}
	return "the line is indented neither like the fields around it nor like the value above it",
		"indent the fields of a mapping alike"
}

// headsBlock reports whether the text ends with the header of a block.
func headsBlock(before string) bool {
	lines := strings.Split(strings.TrimRight(before, "\r\n"), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	return strings.HasSuffix(last, "|") || strings.HasSuffix(last, "|-") || strings.HasSuffix(last, ">")
}
