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
	if after, ok := strings.CutPrefix(rest, "{}"); ok {
		v.kind = schema.Mapping
		return v, endsLine(after)
	}
	inside, after, ok := strings.Cut(rest[1:], "]")
	if rest[0] != '[' || !ok || !endsLine(after) {
		return node{}, false
	}
	v.kind = schema.List
	if countSpaces(inside) == len(inside) {
		return v, true
	}
	at := start + 1
	for text := range strings.SplitSeq(inside, ",") {
		column := utf8.RuneCountInString(line[:at+countSpaces(text)]) + 1
		item := node{kind: schema.Text, line: v.line, column: int32(column)}
		at += len(text) + 1
		text = strings.Trim(text, " ")
		if item.text, ok = flowScalar(text); !ok {
			return node{}, false
		}
		if isNull(text) {
			item.kind, item.text = schema.Null, ""
		}
		v.items = append(v.items, item)
	}
	return v, true
}

// flowScalar returns the value of an item of a flow list: a quoted scalar, or a plain one of letters,
// digits and the characters ._-/ only.
func flowScalar(text string) (value string, ok bool) {
	if text == "" {
		return "", false
	}
	if text[0] == '"' || text[0] == '\'' {
		value, end := quoted(text)
		return value, end == len(text)
	}
	for i := range len(text) {
		c := text[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || strings.IndexByte("._-/", c) < 0) {
			return "", false
		}
	}
	return text, true
}
