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

// object holds the fields of a line by name.
type object struct {
	fields map[string]json.RawMessage
	// err is the first error of the methods that read fields.
	err error
}

// decodeObject splits a line into its fields. The values are parts of the line.
func decodeObject(line []byte) (*object, error) {
	if !utf8.Valid(line) {
		return nil, badLine("not valid UTF-8")
	}
	if line = trimSpace(line); byteAt(line, 0) != '{' {
		if !validJSON(line) {
			return nil, badJSON(line)
		}
		return nil, badLine("want a JSON object, got %s", describe(line))
	}
	fields := make(map[string]json.RawMessage, 4)
	at := skipSpace(line, 1)
	for more := byteAt(line, at) != '}'; more; {
		nameEnd, start, ok := scanName(line, at)
		if !ok {
			return nil, badJSON(line)
		}
		end, ok := scanValue(line, start, 1)
		if !ok {
			return nil, badJSON(line)
		}
		name, err := decodeText(line[at:nameEnd])
		if err != nil {
			return nil, badLine("not valid JSON: %w", err)
		}
		if _, twice := fields[name]; twice {
			return nil, badLine("field %s appears twice", excerpt(name))
		}
		if len(fields) == maxFields {
			return nil, badLine("more than %d fields", maxFields)
		}
		fields[name] = line[start:end:end]
		at = skipSpace(line, end)
		if more = byteAt(line, at) == ','; more {
			at = skipSpace(line, at+1)
		}
	}
	if at != len(line)-1 || line[at] != '}' {
		return nil, badJSON(line)
	}
	return &object{fields: fields}, nil
}

// badJSON returns the error of encoding/json for a line that is not valid JSON.
func badJSON(line []byte) error {
	var value any
	return badLine("not valid JSON: %w", json.Unmarshal(line, &value))
}

// decodeText returns the text of a JSON string that is valid UTF-8.
func decodeText(value []byte) (text string, err error) {
	if plain := plainLength(value[1:]); plain == len(value)-2 {
		return string(value[1 : 1+plain]), nil
	}
	err = json.Unmarshal(value, &text)
	return text, err
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

// text returns the required text field with this name. Half a surrogate pair becomes U+FFFD.
func (o *object) text(name string) string {
	value := o.value(name)
	if value == nil {
		return ""
	}
	if value[0] == '"' {
		text, err := decodeText(value)
		if err == nil {
			return text
		}
	}
	o.fail("%s: want text, got %s", name, describe(value))
	return ""
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

// An encoder builds a line. It begins with an object that is not closed.
type encoder struct {
	line bytes.Buffer
	// err is the first error of the methods that add fields.
	err error
}

func newEncoder(begin string) *encoder {
	e := new(encoder)
	e.line.WriteString(begin)
	return e
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
	e.line.WriteByte(',')
	e.string("field name", name)
	e.line.WriteByte(':')
}

// string appends text as a JSON string that keeps <, > and & readable.
func (e *encoder) string(field, text string) {
	if !utf8.ValidString(text) {
		e.fail("%s: not valid UTF-8", field)
		return
	}
	if utf8.RuneCountInString(text) == len(text) && plainLength([]byte(text)) == len(text) {
		e.line.WriteByte('"')
		e.line.WriteString(text)
		e.line.WriteByte('"')
		return
	}
	encoder := json.NewEncoder(&e.line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		e.fail("%s: %w", field, err)
		return
	}
	e.line.Truncate(e.line.Len() - len("\n"))
}

// value appends a JSON value without outer white space, on one line: line feeds, which valid JSON
// has only between tokens, become spaces.
func (e *encoder) value(field string, value json.RawMessage) {
	switch {
	case !utf8.Valid(value):
		e.fail("%s: not valid UTF-8", field)
	case !validJSON(value):
		e.fail("%s: not valid JSON", field)
	default:
		if bytes.IndexByte(value, '\n') >= 0 {
			value = bytes.ReplaceAll(value, []byte("\n"), []byte(" "))
		}
		value = trimSpace(value)
		e.line.Grow(len(value) + 64)
		e.line.Write(value)
	}
}

// end closes the object and finishes the line.
func (e *encoder) end() ([]byte, error) {
	if e.err != nil {
		return nil, e.err
	}
	e.line.WriteByte('}')
	if e.line.Len() > MaxLine {
		return nil, fmt.Errorf("%w: %d", ErrLineTooLong, e.line.Len())
	}
	e.line.WriteByte('\n')
	return e.line.Bytes(), nil
}

// trimSpace removes outer JSON white space.
func trimSpace(text []byte) []byte {
	text = text[skipSpace(text, 0):]
	for len(text) > 0 && isSpace(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return text
}

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
