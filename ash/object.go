package ash

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxLine bounds a line without its line feed, in bytes.
const MaxLine = 50 << 20

// maxFields bounds the fields of a line, and with them the memory for their table.
const maxFields = 1000

var (
	// ErrBadLine says that a line is not a command or event of this protocol.
	ErrBadLine = errors.New("ash: bad line")
	// ErrUnknownName says that a well-formed line names an unknown command or event.
	ErrUnknownName = errors.New("ash: unknown name")
	// ErrLineTooLong says that a line is longer than [MaxLine].
	ErrLineTooLong = fmt.Errorf("ash: line longer than %d bytes", MaxLine)
)

// object holds the fields of a line by name, each with the bytes of its value.
type object struct {
	fields map[string]json.RawMessage
	// err is the first error of the methods that read fields.
	err error
}

// decodeObject splits a line into its fields. The values alias the line.
func decodeObject(line []byte) (*object, error) {
	if !utf8.Valid(line) {
		return nil, badLine("not valid UTF-8")
	}
	at := skipSpace(line, 0)
	if byteAt(line, at) != '{' {
		if _, _, err := scanWhole(line); err != nil {
			return nil, badLine("%w", err)
		}
		return nil, badLine("want a JSON object, got %s", describe(line[at:]))
	}
	fields := make(map[string]json.RawMessage, 4)
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
			return nil, badLine("field %s appears twice", excerpt(name))
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
	return &object{fields: fields}, nil
}

func (o *object) fail(format string, details ...any) {
	if o.err == nil {
		o.err = badLine(format, details...)
	}
}

// name returns the value of cmd or ev, of which a line must have exactly one. Want is the expected
// one.
func (o *object) name(want string) string {
	_, command := o.fields["cmd"]
	_, event := o.fields["ev"]
	switch {
	case command && event:
		o.fail("both cmd and ev: a line is a command or an event")
	case !command && !event:
		o.fail("neither cmd nor ev")
	case want == "cmd" && event:
		o.fail("an event where a command belongs")
	case want == "ev" && command:
		o.fail("a command where an event belongs")
	}
	return o.text(want)
}

// value returns the required field with this name, nil if it is missing.
func (o *object) value(name string) json.RawMessage {
	value, ok := o.fields[name]
	if !ok {
		o.fail("%s is missing", name)
	}
	return value
}

// text returns the required text field with this name.
func (o *object) text(name string) string {
	value := o.value(name)
	switch {
	case value == nil:
		return ""
	case value[0] != '"':
		o.fail("%s: want text, got %s", name, describe(value))
		return ""
	}
	return decodeString(value)
}

// flag returns the optional true-or-false field with this name.
func (o *object) flag(name string) bool {
	value, ok := o.fields[name]
	isTrue := string(value) == "true"
	if ok && !isTrue && string(value) != "false" {
		o.fail("%s: want true or false, got %s", name, describe(value))
	}
	return isTrue
}

// decodeString returns the text of a valid JSON string. Half a surrogate pair becomes U+FFFD.
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

// An encoder builds a line. It begins with an object that is not closed.
type encoder struct {
	line []byte
	// err is the first error of the methods that add fields.
	err error
}

func (e *encoder) fail(format string, details ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("ash: "+format, details...)
	}
}

// text adds a field whose value is text.
func (e *encoder) text(name, text string) {
	e.name(name)
	e.string(name, text)
}

// field adds a field whose value is JSON.
func (e *encoder) field(name string, value json.RawMessage) {
	e.name(name)
	e.value(name, value)
}

func (e *encoder) name(name string) {
	e.line = append(e.line, ',')
	e.string("field name "+excerpt(name), name)
	e.line = append(e.line, ':')
}

// string appends text as a JSON string that keeps <, > and & readable.
func (e *encoder) string(field, text string) {
	if !utf8.ValidString(text) {
		e.fail("%s: not valid UTF-8", field)
		return
	}
	if isPlain(text) {
		e.line = append(append(append(e.line, '"'), text...), '"')
		return
	}
	var quoted bytes.Buffer
	quoted.Grow(len(text) + 16)
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		e.fail("%s: %w", field, err)
	}
	e.line = append(e.line, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
}

// isPlain reports whether text needs no escapes in a JSON string.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// value appends a JSON value without outer white space, on one line: line feeds, which valid JSON
// has only between tokens, become spaces.
func (e *encoder) value(field string, value json.RawMessage) {
	if !utf8.Valid(value) {
		e.fail("%s: not valid UTF-8", field)
		return
	}
	begin, end, err := scanWhole(value)
	if err != nil {
		e.fail("%s: %w", field, err)
		return
	}
	start := len(e.line)
	e.line = append(e.line, value[begin:end]...)
	for appended := e.line[start:]; ; {
		i := bytes.IndexByte(appended, '\n')
		if i < 0 {
			return
		}
		appended[i] = ' '
		appended = appended[i+1:]
	}
}

// end closes the object and finishes the line.
func (e *encoder) end() ([]byte, error) {
	if e.err != nil {
		return nil, e.err
	}
	if len(e.line)+1 > MaxLine {
		return nil, fmt.Errorf("%w: %d", ErrLineTooLong, len(e.line)+1)
	}
	return append(e.line, '}', '\n'), nil
}

// trimSpace removes outer JSON white space.
func trimSpace(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

// describe names the kind of a JSON value.
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

// excerpt quotes at most 64 bytes of text.
func excerpt(text string) string {
	if len(text) <= 64 {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q...", text[:64])
}

func badLine(format string, details ...any) error {
	return fmt.Errorf("%w: %w", ErrBadLine, fmt.Errorf(format, details...))
}
