package ash

import (
	"encoding/binary"
	"encoding/json"
)

// The functions in this file accept what encoding/json accepts, several times as fast if the JSON
// consists mostly of text, as the messages of agents do.

// maxDepth bounds the nesting of objects and arrays, as in encoding/json.
const maxDepth = 10000

// validJSON reports whether text is one JSON value.
func validJSON(text []byte) bool {
	end, ok := scanValue(text, skipSpace(text, 0), 0)
	return ok && skipSpace(text, end) == len(text)
}

// scanValue returns the end of the value at text[at:], which is inside depth other values.
func scanValue(text []byte, at, depth int) (end int, ok bool) {
	switch c := byteAt(text, at); c {
	case '"':
		return scanString(text, at)
	case '{', '[':
		return scanItems(text, at, depth, c+2) // in ASCII the closing bracket is the next but one
	}
	for end = at; isScalar(byteAt(text, end)); {
		end++
	}
	return end, json.Valid(text[at:end])
}

func isScalar(c byte) bool {
	return c == '+' || c == '-' || c == '.' || '0' <= c && c <= '9' || 'a' <= c|' ' && c|' ' <= 'z'
}

// scanItems returns the end of the object or array at text[at:].
func scanItems(text []byte, at, depth int, closing byte) (end int, ok bool) {
	if depth == maxDepth {
		return at, false
	}
	at = skipSpace(text, at+1)
	if byteAt(text, at) == closing {
		return at + 1, true
	}
	for {
		if closing == '}' {
			if _, at, ok = scanName(text, at); !ok {
				return at, false
			}
		}
		if at, ok = scanValue(text, at, depth+1); !ok {
			return at, false
		}
		at = skipSpace(text, at)
		switch byteAt(text, at) {
		case closing:
			return at + 1, true
		case ',':
			at = skipSpace(text, at+1)
		default:
			return at, false
		}
	}
}

// scanName returns the end of the field name at text[at:] and the beginning of its value.
func scanName(text []byte, at int) (end, value int, ok bool) {
	end, ok = scanString(text, at)
	colon := skipSpace(text, end)
	return end, skipSpace(text, colon+1), ok && byteAt(text, colon) == ':'
}

// scanString returns the end of the string at text[at:].
func scanString(text []byte, at int) (end int, ok bool) {
	if byteAt(text, at) != '"' {
		return at, false
	}
	for at++; ; {
		at += plainLength(text[at:])
		switch byteAt(text, at) {
		case '"':
			return at + 1, true
		case '\\':
		default:
			return at, false
		}
		switch byteAt(text, at+1) {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			at += 2
		case 'u':
			if at+6 > len(text) || !json.Valid(append(append([]byte{'"'}, text[at:at+6]...), '"')) {
				return at, false
			}
			at += 6
		default:
			return at, false
		}
	}
}

// plainLength returns how many bytes precede the first quote, backslash or control character. It
// looks at eight bytes at a time: the highest bit of each byte of found marks such a byte.
func plainLength(text []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(text)-n >= 8; n += 8 {
		word := binary.LittleEndian.Uint64(text[n:])
		quote, backslash := word^(ones*'"'), word^(ones*'\\')
		found := (quote-ones)&^quote | (backslash-ones)&^backslash | (word-ones*' ')&^word
		if found&highs != 0 {
			break
		}
	}
	for n < len(text) && text[n] != '"' && text[n] != '\\' && text[n] >= ' ' {
		n++
	}
	return n
}

func skipSpace(text []byte, at int) int {
	for isSpace(byteAt(text, at)) {
		at++
	}
	return at
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// byteAt returns the byte at a place, or NUL, which JSON never contains, past the end.
func byteAt(text []byte, at int) byte {
	if at < len(text) {
		return text[at]
	}
	return 0
}
