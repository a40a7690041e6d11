package validate

import (
	"fmt"
	"io"
	"strings"
	"testing/iotest"
	"unicode/utf8"
)

// yaml.v3 says what it did not like but hardly where: no column, and a line
// that is that of the problem, of the line before, or of the value around
// it. The place is found by trying: it is where the shortest beginning of
// the text ends that fails the same way.

// maxSearched is the longest text in which a syntax error is searched for;
// in a longer one the place is where the parser stopped reading.
const maxSearched = 64 << 10

// complaint returns what the error of yaml.v3 says besides the line.
func complaint(err error) string {
	if err == nil {
		return ""
	}
	what := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.HasPrefix(what, "line ") {
		_, what, _ = strings.Cut(what, ": ")
	}
	return what
}

// syntaxProblem explains an error of the YAML parser about the text.
func syntaxProblem(text string, err error) Diagnostic {
	what := complaint(err)
	at := errorOffset(text, what)
	if name, ok := strings.CutPrefix(what, "unknown anchor '"); ok {
		name = "*" + strings.TrimSuffix(name, "' referenced")
		at = max(strings.LastIndex(text[:min(at+utf8.UTFMax, len(text))], name), 0)
		line, column := position(text[:at])
		return treeProblem(line, column, nil, RuleAlias, fmt.Sprintf("the alias %s stands for another value", escape(name)), "write the value out, or in quotes if it is a text")
	}
	line, column := position(text[:at])
	if strings.HasPrefix(what, "exceeded max depth") {
		return treeProblem(line, column, nil, RuleDepth, tooDeep, "")
	}
	message, fix := explainSyntax(text, at, what)
	return treeProblem(line, column, nil, RuleSyntax, message, fix)
}

// errorOffset returns the offset of the character at which the parser fails
// with the complaint.
func errorOffset(text, what string) int {
	read := &countingReader{from: iotest.OneByteReader(strings.NewReader(text))}
	_, _, _ = decodeDocuments(read)
	end := read.count
	if len(text) > maxSearched {
		// The parser looks a few characters ahead of what it takes.
		return characterStart(text, max(end-4, 0))
	}
	lines := strings.SplitAfter(text[:end], "\n")
	last := firstFailing(len(lines), func(n int) bool { return failsWith(joined(lines[:n]), what) })
	before := joined(lines[:last-1])
	line := lines[last-1]
	n := firstFailing(len(line), func(n int) bool { return failsWith(before+line[:n], what) })
	if what == complaintNoColon {
		// The line as a whole is the problem.
		n = len(line) - len(strings.TrimLeft(line, " \t")) + 1
	}
	at := characterStart(text, len(before)+max(n-1, 0))
	if strings.HasPrefix(what, complaintUnclosed) {
		if opener := strings.LastIndexAny(text[:at+1], "[{"); opener >= 0 {
			at = opener
		}
	}
	return at
}

// firstFailing returns a number from 1 to most at which failing begins to
// hold; it does at most.
func firstFailing(most int, failing func(int) bool) int {
	low, high := 0, most
	for high-low > 1 {
		if middle := (low + high) / 2; failing(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return max(high, 1)
}

func failsWith(text, what string) bool {
	_, _, err := decodeDocuments(strings.NewReader(text))
	return complaint(err) == what
}

func joined(lines []string) string { return strings.Join(lines, "") }

// characterStart moves an offset back to the beginning of its character.
func characterStart(text string, at int) int {
	at = min(at, len(text))
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// A countingReader counts the bytes read through it.
type countingReader struct {
	from  io.Reader
	count int
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.count += n
	return n, err
}

// Complaints of yaml.v3.
const (
	complaintColon    = "mapping values are not allowed in this context"
	complaintNoColon  = "could not find expected ':'"
	complaintKey      = "did not find expected key"
	complaintUnclosed = "did not find expected ',' or "
	complaintQuote    = "found unexpected end of stream"
	complaintStart    = "found character that cannot start any token"
	complaintTab      = "found a tab character"
	complaintEscape   = "found unknown escape character"
	complaintCode     = "found invalid Unicode character escape code"
	complaintEnd      = "did not find expected <document start>"
)

// explainSyntax says in terms of the text what a complaint of the YAML
// parser at the offset means, and what to do.
func explainSyntax(text string, at int, what string) (message, fix string) {
	start := strings.LastIndexByte(text[:at], '\n') + 1
	line, _, _ := strings.Cut(text[start:], "\n")
	line = strings.TrimSuffix(line, "\r")
	rest := text[at:]
	switch {
	case what == complaintColon:
		return explainColon(line, at-start)
	case what == complaintNoColon:
		if headsBlock(text[:start]) {
			return "the line belongs to the block above, but is not indented", "indent every line of a block by two spaces"
		}
		return "the line is no field: there is no colon behind a name", "write it as name: value"
	case what == complaintKey:
		return explainKey(line)
	case len(text) > maxSearched && (what == complaintQuote || strings.HasPrefix(what, complaintUnclosed)):
		return "a quoted text or a bracket that opens before does not end", "close it"
	case strings.HasPrefix(what, complaintUnclosed):
		return "the bracket that opens here is not closed", "close it with " + strings.TrimPrefix(what, complaintUnclosed)
	case what == complaintQuote:
		return "the quoted text that begins here does not end", "close the quotes"
	case strings.HasPrefix(what, complaintTab), strings.HasPrefix(rest, "\t"):
		return "a tab cannot indent a line", "indent with spaces"
	case what == complaintStart:
		return fmt.Sprintf("a plain value cannot begin with %s", quote(firstCharacter(rest))), "put the value in double quotes"
	case what == complaintEscape:
		return "this escape is unknown in double quotes", `write \\ for a backslash`
	case what == complaintCode:
		return "the escape does not name a character", "write the character itself"
	case what == complaintEnd:
		return "there is something behind the end of the message", "write the whole message as one mapping"
	}
	return "this is not YAML: " + escape(what), ""
}

func firstCharacter(text string) string {
	cut, _ := cutCharacters(text, 1)
	return cut
}

func explainColon(line string, colon int) (message, fix string) {
	key, value, ok := strings.Cut(line, ": ")
	if !ok || colon <= len(key) {
		return "a field begins here inside of another value", "indent the fields of a mapping alike"
	}
	fix = "put the text in double quotes"
	if value = strings.TrimSpace(value); len(line) <= 80 && !strings.ContainsAny(value, `"\`) {
		fix += fmt.Sprintf(`: %s: "%s"`, escape(strings.TrimSpace(key)), escape(value))
	}
	return "a plain text cannot hold a colon followed by a space", fix
}

func explainKey(line string) (message, fix string) {
	trimmed := strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(trimmed, "-"):
		return "a list item stands where a field is expected", "indent the items of a list below their field"
	case strings.Contains(trimmed, "'"), strings.Contains(trimmed, `"`):
		return "there is more text behind the quoted one", `write a quote inside single quotes twice, and inside double quotes as \"`
	}
	return "the line is indented neither like the fields around it nor like the value above it", "indent the fields of a mapping alike"
}

// headsBlock reports whether the text ends with the header of a block, or
// with a block none of whose lines is indented.
func headsBlock(before string) bool {
	lines := strings.Split(strings.TrimRight(before, "\r\n"), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	return strings.HasSuffix(last, "|") || strings.HasSuffix(last, "|-") || strings.HasSuffix(last, ">")
}
