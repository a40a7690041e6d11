package ash

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Query asks the agent to run a turn on a prompt, which is Blocks or, if that is nil, Prompt.
type Query struct {
	// Prompt is the prompt as text.
	Prompt string
	// Blocks is the prompt as a JSON array of content blocks, as the agent's SDK takes it.
	Blocks json.RawMessage
	// SessionID names the conversation. The done that ends the turn repeats it.
	SessionID string
	// IncludePartialMessages asks for messages while they are still being written.
	IncludePartialMessages bool
}

// Error reports that something went wrong at the bridge. A [Client] returns it as the error of the query.
type Error struct {
	// Text is what the bridge said.
	Text string
}

// Error returns the text, with a prefix that names the bridge.
func (e Error) Error() string { return "ash: the bridge reports: " + e.Text }

// MaxLine bounds a line without its line feed, in bytes.
const MaxLine = 50 << 20

var (
	// ErrBadLine reports that a line is not a command or event of this protocol.
	ErrBadLine = errors.New("ash: bad line")
	// ErrLineTooLong reports that a line is longer than [MaxLine].
	ErrLineTooLong = fmt.Errorf("ash: line longer than %d bytes", MaxLine)

	// errUnknownName reports that a well-formed line names an unknown command or event.
	errUnknownName = errors.New("ash: unknown name")
)

// A command is a line from host to bridge.
type command struct {
	// name is query, resume, interrupt or shutdown.
	name string
	// Query is the query of a query. A resume has only the session.
	Query
}

// An event is a line from bridge to host.
type event struct {
	// name is ready, message, error or done.
	name string
	// data is that of a message, text that of an error, session that of a done.
	data          json.RawMessage
	text, session string
}

func decodeCommand(line []byte) (c command, err error) {
	o, err := decodeObject(line, "cmd")
	if err != nil {
		return c, err
	}
	switch c.name = o.text("cmd"); c.name {
	case "query":
		switch prompt := o.values["prompt"]; {
		case len(prompt) > 0 && prompt[0] == '[':
			c.Blocks = prompt
		case len(prompt) > 0 && prompt[0] != '"':
			o.fail("prompt: want text or an array of content blocks, got %s", describe(prompt))
		default:
			c.Prompt = o.text("prompt")
		}
		c.SessionID = o.text("sessionId")
		c.IncludePartialMessages = o.flag("includePartialMessages")
	case "resume":
		c.SessionID = o.text("sessionId")
	case "interrupt", "shutdown":
	default:
		o.unknown("command", c.name)
	}
	return c, o.err
}

func decodeEvent(line []byte) (e event, err error) {
	o, err := decodeObject(line, "ev")
	if err != nil {
		return e, err
	}
	switch e.name = o.text("ev"); e.name {
	case "ready":
	case "message":
		e.data = o.value("data")
	case "error":
		e.text = o.text("error")
	case "done":
		e.session = o.text("sessionId")
	default:
		o.unknown("event", e.name)
	}
	return e, o.err
}

// encode returns the command as a line, with its line feed. It returns an error for text that is not
// UTF-8, for blocks that are not JSON, and for lines over [MaxLine].
func (c command) encode() ([]byte, error) {
	e := newEncoder("cmd", c.name)
	if c.name == "query" {
		if c.Blocks != nil {
			e.value("prompt", c.Blocks)
		} else {
			e.text("prompt", c.Prompt)
		}
	}
	if c.name == "query" || c.name == "resume" {
		e.text("sessionId", c.SessionID)
	}
	if c.IncludePartialMessages {
		e.value("includePartialMessages", json.RawMessage("true"))
	}
	return e.end()
}

// encode returns the event as a line, with its line feed. It returns an error for data that is not
// JSON and for lines over [MaxLine]. It makes an error's text valid UTF-8.
func (v event) encode() ([]byte, error) {
	e := newEncoder("ev", v.name)
	switch v.name {
	case "message":
		e.value("data", v.data)
	case "error":
		e.text("error", strings.ToValidUTF8(v.text, "\uFFFD"))
	case "done":
		e.text("sessionId", v.session)
	}
	return e.end()
}

// fieldNames are the fields of the protocol. Others are ignored.
var fieldNames = []string{"cmd", "ev", "prompt", "sessionId", "includePartialMessages", "data", "error"}

// An object holds the values of the fields of a line by name.
type object struct {
	values map[string]json.RawMessage
	// err is the first error of the methods that read fields.
	err error
}

// decodeObject splits a line into its fields, which are parts of the line. Kind is cmd or ev: a line
// has exactly that one of them.
func decodeObject(line []byte, kind string) (*object, error) {
	if !utf8.Valid(line) {
		return nil, badLine("not valid UTF-8")
	}
	if line = trimSpace(line); byteAt(line, 0) != '{' {
		if !validJSON(line) {
			return nil, badJSON(line)
		}
		return nil, badLine("want a JSON object, got %s", describe(line))
	}
	o := &object{values: make(map[string]json.RawMessage, 4)}
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
		if o.values[name] != nil {
			return nil, badLine("field %s appears twice", excerpt(name))
		}
		if slices.Contains(fieldNames, name) {
			o.values[name] = line[start:end:end]
		}
		at = skipSpace(line, end)
		if more = byteAt(line, at) == ','; more {
			at = skipSpace(line, at+1)
		}
	}
	if at != len(line)-1 || line[at] != '}' {
		return nil, badJSON(line)
	}
	isCommand, isEvent := o.values["cmd"] != nil, o.values["ev"] != nil
	switch {
	case isCommand && isEvent:
		return nil, badLine("both cmd and ev: a line is a command or an event")
	case !isCommand && !isEvent:
		return nil, badLine("neither cmd nor ev")
	case isEvent && kind == "cmd":
		return nil, badLine("an event where a command belongs")
	case isCommand && kind == "ev":
		return nil, badLine("a command where an event belongs")
	}
	return o, nil
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

func (o *object) unknown(kind, name string) {
	if o.err == nil {
		o.err = fmt.Errorf("%w: %s %s", errUnknownName, kind, excerpt(name))
	}
}

// value returns the required field with this name, nil if it is missing.
func (o *object) value(name string) json.RawMessage {
	value := o.values[name]
	if value == nil {
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
		if text, err := decodeText(value); err == nil {
			return text
		}
	}
	o.fail("%s: want text, got %s", name, describe(value))
	return ""
}

// flag returns the optional true-or-false field with this name.
func (o *object) flag(name string) bool {
	value := o.values[name]
	isTrue := string(value) == "true"
	if value != nil && !isTrue && string(value) != "false" {
		o.fail("%s: want true or false, got %s", name, describe(value))
	}
	return isTrue
}

// An encoder builds a line.
type encoder struct {
	line bytes.Buffer
	// err is the first error of the methods that add fields.
	err error
}

func newEncoder(kind, name string) *encoder {
	e := new(encoder)
	e.line.WriteString(`{"` + kind + `":"` + name + `"`)
	return e
}

func (e *encoder) fail(format string, details ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("ash: "+format, details...)
	}
}

// text adds a field with text, in which <, > and & stay readable.
func (e *encoder) text(name, text string) {
	e.line.WriteString(`,"` + name + `":`)
	switch {
	case !utf8.ValidString(text):
		e.fail("%s: not valid UTF-8", name)
	case plainLength([]byte(text)) == len(text) && !strings.ContainsAny(text, "\u2028\u2029"):
		e.line.WriteString(`"` + text + `"`)
	default:
		encoder := json.NewEncoder(&e.line)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(text) // text always has a JSON form
		e.line.Truncate(e.line.Len() - len("\n"))
	}
}

// value adds a field with a JSON value without outer white space, on one line: line feeds, which
// valid JSON has only between tokens, become spaces.
func (e *encoder) value(name string, value json.RawMessage) {
	switch {
	case !utf8.Valid(value):
		e.fail("%s: not valid UTF-8", name)
	case !validJSON(value):
		e.fail("%s: not valid JSON", name)
	default:
		if bytes.IndexByte(value, '\n') >= 0 {
			value = bytes.ReplaceAll(value, []byte("\n"), []byte(" "))
		}
		e.line.Grow(len(value) + 64)
		e.line.WriteString(`,"` + name + `":`)
		e.line.Write(trimSpace(value))
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
