package validate

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/oacp-go/oacp/schema"
)

// endsLine reports whether the rest of a line is white space or a comment.
func endsLine(rest string) bool {
	n := countSpaces(rest)
	return n == len(rest) || n > 0 && rest[n] == '#'
}

// isNull reports whether a plain scalar is null in the core schema of YAML.
func isNull(plain string) bool {
	switch plain {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

// plainScalar returns the plain scalar in the rest of a line, or nothing if the line may hold
// something else.
func plainScalar(rest string) string {
	switch c := rest[0]; {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
	case c >= utf8.RuneSelf, strings.IndexByte("_./()+;=$^~", c) >= 0:
	default:
		return ""
	}
	for i := range len(rest) {
		switch rest[i] {
		case '\t':
			return ""
		case ':':
			if i+1 == len(rest) || rest[i+1] == ' ' {
				return ""
			}
		case '#':
			if rest[i-1] == ' ' {
				return strings.TrimRight(rest[:i], " ")
			}
		}
	}
	return strings.TrimRight(rest, " ")
}

// quoted returns the text of the quoted scalar at the beginning and the offset of its end, or 0 if
// it does not end or contains something unusual.
func quoted(rest string) (text string, end int) {
	quote, escapes := rest[0], false
	for i := 1; i < len(rest); i++ {
		c := rest[i]
		switch {
		case c != quote && c != '\\' && c != '\t':
		case c == '\t':
			return "", 0
		case c == '\\' && quote == '"' && !strings.ContainsRune(`"\nrtu`, rune(rest[min(i+1, len(rest)-1)])):
			return "", 0 // Go and YAML may not agree on other escapes
		case c == '\\' && quote == '"', c == '\'' && quote == c && strings.HasPrefix(rest[i:], "''"):
			escapes = true
			i++
		case c != quote:
		case !escapes:
			return rest[1:i], i + 1
		case quote == '\'':
			return strings.ReplaceAll(rest[1:i], "''", "'"), i + 1
		default:
			text, err := strconv.Unquote(rest[:i+1])
			if err != nil {
				return "", 0
			}
			return text, i + 1
		}
	}
	return "", 0
}

// flow reads a list of simple scalars on one line, or an empty mapping.
func flow(v node, line string, start int) (node, bool) {
	rest := line[start:]
	if strings.HasPrefix(rest, "{}") {
		v.kind = schema.Mapping
		return v, endsLine(rest[2:])
	}
	v.kind = schema.List
	at := 1 + countSpaces(rest[1:])
	if rest[0] != '[' || at == len(rest) {
		return node{}, false
	}
	if rest[at] == ']' {
		return v, endsLine(rest[at+1:])
	}
	for {
		item := node{kind: schema.Text, line: v.line, column: int32(utf8.RuneCountInString(line[:start+at]) + 1)}
		var end int
		if item.text, end = flowScalar(rest[at:]); end == 0 {
			return node{}, false
		}
		if rest[at] != '"' && rest[at] != '\'' && isNull(item.text) {
			item.kind, item.text = schema.Null, ""
		}
		v.items = append(v.items, item)
		at += end
		at += countSpaces(rest[at:])
		if at == len(rest) {
			return node{}, false
		}
		if rest[at] == ']' {
			return v, endsLine(rest[at+1:])
		}
		next := at + 1 + countSpaces(rest[at+1:])
		if rest[at] != ',' || next == at+1 || next == len(rest) {
			return node{}, false
		}
		at = next
	}
}

// flowScalar returns the scalar at the beginning of an item of a flow list and the offset of its
// end, or 0 for anything but quoted text or plain characters of names.
func flowScalar(rest string) (text string, end int) {
	if rest[0] == '"' || rest[0] == '\'' {
		return quoted(rest)
	}
	for end < len(rest) {
		c := rest[end]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case end > 0 && (c == '.' || c == '_' || c == '-' || c == '/'):
		case c == ' ', c == ',', c == ']':
			return rest[:end], end
		default:
			return "", 0
		}
		end++
	}
	return "", 0
}
