package ash

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxLine is the longest line either end accepts or sends: 50 MiB, its line feed not counted.
const MaxLine = 50 << 20

// maxFields bounds the fields of one line, so that a hostile line cannot swell into a table many times its size.
const maxFields = 1000

var (
	// ErrBadLine says that a line is no command or no event of this protocol.
	ErrBadLine = errors.New("ash: bad line")
	// ErrUnknownName says that a line is well formed but names a command or event this package does not know.
	ErrUnknownName = errors.New("ash: unknown name")
	// ErrLineTooLong says that a line is longer than [MaxLine].
	ErrLineTooLong = fmt.Errorf("ash: line longer than %d bytes", MaxLine)
)

// object is the top level of one line: its fields by exact name, each value the bytes that stand in the line.
type object map[string]json.RawMessage

// decodeObject splits a line into its fields. The values alias the line.
func decodeObject(line []byte) (object, error) {
	line = trimSpace(line)
	if !utf8.Valid(line) {
		return nil, badLine("not valid UTF-8")
	}
	if !json.Valid(line) {
		return nil, badLine("not valid JSON: %v", syntaxError(line))
	}
	if line[0] != '{' {
		return nil, badLine("want a JSON object, got %s", describe(line))
	}
	fields := make(object, 4)
	for rest := skipSpace(line[1:]); rest[0] != '}'; {
		quoted := rest[:valueLength(rest)]
		name, err := decodeString(quoted)
		if err != nil {
			return nil, badLine("field name %s: %v", excerpt(string(quoted)), err)
		}
		rest = skipSpace(skipSpace(rest[len(quoted):])[1:]) // to the colon and past it
		value := rest[:valueLength(rest)]
		if _, twice := fields[name]; twice {
			return nil, badLine("field %s stands twice", excerpt(name))
		}
		if len(fields) == maxFields {
			return nil, badLine("more than %d fields", maxFields)
		}
		fields[name] = json.RawMessage(value)
		rest = skipSpace(rest[len(value):])
		if rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
	}
	return fields, nil
}

// name takes out of the fields what the line is: the value of cmd or of ev, of which it must have exactly one. want
// says which of the two the caller is prepared for.
func (o object) name(want string) (string, error) {
	_, command := o["cmd"]
	_, event := o["ev"]
	switch {
	case command && event:
		return "", badLine("both cmd and ev: a line is a command or an event")
	case !command && !event:
		return "", badLine("neither cmd nor ev")
	case want == "cmd" && event:
		return "", badLine("an event where a command belongs")
	case want == "ev" && command:
		return "", badLine("a command where an event belongs")
	}
	return o.text(want)
}

// text returns the required text field with this name.
func (o object) text(name string) (string, error) {
	value, ok := o[name]
	if !ok {
		return "", badLine("%s is missing", name)
	}
	if value[0] != '"' {
		return "", badLine("%s: want text, got %s", name, describe(value))
	}
	text, err := decodeString(value)
	if err != nil {
		return "", badLine("%s: %v", name, err)
	}
	return text, nil
}

// flag returns the optional true-or-false field with this name; absent it is false.
func (o object) flag(name string) (bool, error) {
	value, ok := o[name]
	switch {
	case !ok || string(value) == "false":
		return false, nil
	case string(value) == "true":
		return true, nil
	}
	return false, badLine("%s: want true or false, got %s", name, describe(value))
}

// decodeString returns the text of a JSON string.
func decodeString(quoted []byte) (string, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	var text string
	err := json.Unmarshal(quoted, &text)
	return text, err
}

// appendString appends text as a JSON string that keeps <, > and & readable. The text must be valid UTF-8.
func appendString(dst []byte, text string) ([]byte, error) {
	var quoted bytes.Buffer
	quoted.Grow(len(text) + 16)
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return nil, err
	}
	return append(dst, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...), nil
}

// appendValue appends a raw JSON value so that it stays on one line: line feeds, which valid JSON has between its
// tokens alone, become spaces.
func appendValue(dst []byte, field string, value json.RawMessage) ([]byte, error) {
	if !utf8.Valid(value) {
		return nil, fmt.Errorf("ash: %s: not valid UTF-8", field)
	}
	if !json.Valid(value) {
		return nil, fmt.Errorf("ash: %s: not valid JSON: %w", field, syntaxError(value))
	}
	start := len(dst)
	dst = append(dst, value...)
	for appended := dst[start:]; ; {
		i := bytes.IndexByte(appended, '\n')
		if i < 0 {
			return dst, nil
		}
		appended[i] = ' '
		appended = appended[i+1:]
	}
}

// endLine finishes a line for sending.
func endLine(line []byte) ([]byte, error) {
	if len(line) > MaxLine {
		return nil, fmt.Errorf("%w: %d", ErrLineTooLong, len(line))
	}
	return append(line, '\n'), nil
}

// valueLength returns the length of the JSON value at the start of valid JSON text.
func valueLength(text []byte) int {
	switch text[0] {
	case '"':
		return stringLength(text)
	case '{', '[':
		return nestedLength(text)
	}
	if end := bytes.IndexAny(text, ",}] \t\r\n"); end >= 0 {
		return end
	}
	return len(text)
}

// stringLength returns the length of the JSON string at the start of text, both quotes counted.
func stringLength(text []byte) int {
	for end := 1; ; end++ {
		end += bytes.IndexByte(text[end:], '"')
		escapes := 0
		for text[end-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return end + 1
		}
	}
}

// nestedLength returns the length of the JSON object or array at the start of text.
func nestedLength(text []byte) int {
	depth := 0
	for i := 0; ; {
		switch text[i] {
		case '"':
			i += stringLength(text[i:])
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
}

// trimSpace removes outer JSON white space.
func trimSpace(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

func skipSpace(text []byte) []byte {
	for text[0] == ' ' || text[0] == '\t' || text[0] == '\r' || text[0] == '\n' {
		text = text[1:]
	}
	return text
}

// describe says what kind of JSON value this is.
func describe(value []byte) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "text"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

// excerpt quotes at most the first 64 bytes of text, for an error that must not grow with its input.
func excerpt(text string) string {
	if len(text) <= 64 {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q...", text[:64])
}

// syntaxError says what is wrong with invalid JSON.
func syntaxError(text []byte) error {
	var value json.RawMessage
	return json.Unmarshal(text, &value)
}

func badLine(format string, details ...any) error {
	return fmt.Errorf("%w: %w", ErrBadLine, fmt.Errorf(format, details...))
}
