package ash

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// maxDepth bounds the nesting of a field's value. Most JSON readers accept 10,000 levels, of which
// the line is one.
const maxDepth = 9999

// scanWhole checks that text is one JSON value, and returns where it begins and ends.
func scanWhole(text []byte) (start, end int, err error) {
	start, end, err = scanValue(text, 0)
	if err == nil && skipSpace(text, end) < len(text) {
		err = scanError(skipSpace(text, end), "more than one value")
	}
	return start, end, err
}

// scanValue checks the JSON value at text[at:] and returns where it begins and ends. It accepts
// what encoding/json accepts, several times faster, but does not check for UTF-8.
func scanValue(text []byte, at int) (start, end int, err error) {
	at = skipSpace(text, at)
	start = at
	var room [64]byte
	open := room[:0] // the brackets that are not closed yet
	for {
		c := byteAt(text, at)
		switch {
		case c == '{' || c == '[':
			if len(open) == maxDepth {
				return 0, 0, scanError(at, "nested deeper than %d levels", maxDepth)
			}
			open = append(open, c)
			at = skipSpace(text, at+1)
			if byteAt(text, at) == closing(c) {
				break // empty: closed below
			}
			if c == '{' {
				_, at, err = scanName(text, at)
			}
			if err != nil {
				return 0, 0, err
			}
			at = skipSpace(text, at)
			continue
		case c == '"':
			at, err = scanString(text, at)
		default:
			at, err = scanScalar(text, at)
		}
		if err != nil {
			return 0, 0, err
		}
		at, open, err = scanAfterValue(text, at, open)
		if err != nil || len(open) == 0 {
			return start, at, err
		}
	}
}

// scanAfterValue closes what ends after a value and moves to the next value. If nothing is left
// open, it stays at the end of the outermost value.
func scanAfterValue(text []byte, at int, open []byte) (int, []byte, error) {
	for len(open) > 0 {
		inner := open[len(open)-1]
		at = skipSpace(text, at)
		switch byteAt(text, at) {
		case closing(inner):
			open = open[:len(open)-1]
			at++
			continue
		case ',':
			at = skipSpace(text, at+1)
			if inner == '[' {
				return at, open, nil
			}
			_, at, err := scanName(text, at)
			return skipSpace(text, at), open, err
		}
		return 0, nil, scanError(at, "want a comma or %q", closing(inner))
	}
	return at, open, nil
}

// scanName checks the name of a field and its colon. It returns the end of the name, and of the
// colon.
func scanName(text []byte, at int) (end, next int, err error) {
	if byteAt(text, at) != '"' {
		return 0, 0, scanError(at, "want a field name")
	}
	if end, err = scanString(text, at); err != nil {
		return 0, 0, err
	}
	if at = skipSpace(text, end); byteAt(text, at) != ':' {
		return 0, 0, scanError(at, "want a colon")
	}
	return end, at + 1, nil
}

// scanString returns where the string that begins at text[at] ends.
func scanString(text []byte, at int) (int, error) {
	for at++; ; {
		at += plainLength(text[at:])
		switch c := byteAt(text, at); {
		case at >= len(text):
			return 0, scanError(at, "a text does not end")
		case c == '"':
			return at + 1, nil
		case c != '\\':
			return 0, scanError(at, "control character %q in a text", c)
		}
		switch byteAt(text, at+1) {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			at += 2
			continue
		case 'u':
			if isHex(text, at+2, 4) {
				at += 6
				continue
			}
		}
		return 0, scanError(at, "bad escape in a text")
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
		found := (quote - ones) &^ quote
		found |= (backslash - ones) &^ backslash
		found |= (word - ones*' ') &^ word
		if found&highs != 0 {
			break
		}
	}
	for ; n < len(text); n++ {
		if c := text[n]; c == '"' || c == '\\' || c < ' ' {
			break
		}
	}
	return n
}

// scanScalar returns the end of the number, true, false or null at text[at].
func scanScalar(text []byte, at int) (int, error) {
	end, plain := at, byteAt(text, at) != '0' // plain: a whole number without a leading zero
	for c := byteAt(text, end); c == '+' || c == '-' || c == '.' || '0' <= c && c <= '9' || 'a' <= c|' ' && c|' ' <= 'z'; {
		plain = plain && '0' <= c && c <= '9'
		end++
		c = byteAt(text, end)
	}
	if end == at || !plain && !json.Valid(text[at:end]) {
		return 0, scanError(at, "want a value")
	}
	return end, nil
}

func isHex(text []byte, at, length int) bool {
	for i := range length {
		c := byteAt(text, at+i)
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}

func skipSpace(text []byte, at int) int {
	for c := byteAt(text, at); c == ' ' || c == '\t' || c == '\r' || c == '\n'; c = byteAt(text, at) {
		at++
	}
	return at
}

func closing(opening byte) byte {
	if opening == '{' {
		return '}'
	}
	return ']'
}

// byteAt returns the byte at a place, or NUL, which JSON never contains, past the end.
func byteAt(text []byte, at int) byte {
	if at < len(text) {
		return text[at]
	}
	return 0
}

func scanError(at int, format string, details ...any) error {
	return fmt.Errorf("not valid JSON: byte %d: %s", at+1, fmt.Sprintf(format, details...))
}
