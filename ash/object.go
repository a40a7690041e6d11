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
	if !utf8.Valid(line) {
		return nil, badLine("not valid UTF-8")
	}
	at := skipSpace(line, 0)
	if byteAt(line, at) != '{' {
		return nil, notAnObject(line)
	}
	fields := make(object, 4)
	at = skipSpace(line, at+1)
	for first := true; byteAt(line, at) != '}'; first = false {
		if !first {
			if byteAt(line, at) != ',' {
				return nil, badLine("%w", scanError(at, "want a comma or %q", '}'))
			}
			at = skipSpace(line, at+1)
		}
		end, next, err := scanName(line, at)
		if err != nil {
			return nil, badLine("%w", err)
		}
		name := decodeString(line[at:end])
		start, end, err := scanValue(line, next)
		if err != nil {
			return nil, badLine("%w", err)
		}
		if _, twice := fields[name]; twice {
			return nil, badLine("field %s stands twice", excerpt(name))
		}
		if len(fields) == maxFields {
			return nil, badLine("more than %d fields", maxFields)
		}
		fields[name] = json.RawMessage(line[start:end:end])
		at = skipSpace(line, end)
	}
	if at = skipSpace(line, at+1); at < len(line) {
		return nil, badLine("%w", scanError(at, "more than one value"))
	}
	return fields, nil
}

func notAnObject(line []byte) error {
	start, end, err := scanValue(line, 0)
	switch {
	case err != nil:
		return badLine("%w", err)
	case skipSpace(line, end) < len(line):
		return badLine("%w", scanError(end, "more than one value"))
	}
	return badLine("want a JSON object, got %s", describe(line[start:]))
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
	return decodeString(value), nil
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

// decodeString returns the text of a JSON string that has been checked. Half a surrogate pair, which no UTF-8 text can
// hold, becomes U+FFFD.
func decodeString(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		panic("ash: a JSON string passed the check and is none: " + err.Error())
	}
	return text
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

// appendValue appends a raw JSON value, without outer white space, so that it stays on one line: line feeds, which valid JSON has between its
// tokens alone, become spaces.
func appendValue(dst []byte, field string, value json.RawMessage) ([]byte, error) {
	if !utf8.Valid(value) {
		return nil, fmt.Errorf("ash: %s: not valid UTF-8", field)
	}
	begin, end, err := scanValue(value, 0)
	if err == nil && skipSpace(value, end) < len(value) {
		err = scanError(end, "more than one value")
	}
	if err != nil {
		return nil, fmt.Errorf("ash: %s: %w", field, err)
	}
	start := len(dst)
	dst = append(dst, value[begin:end]...)
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

// trimSpace removes outer JSON white space.
func trimSpace(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

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

func badLine(format string, details ...any) error {
	return fmt.Errorf("%w: %w", ErrBadLine, fmt.Errorf(format, details...))
}
