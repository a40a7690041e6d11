package ash

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oacp-go/oacp/internal/jsonl"
)

// Query asks the agent to run a turn on a prompt, which is Blocks or, if that is nil, Prompt.
type Query struct {
	// Prompt is the prompt as text.
	Prompt string
	// Blocks is the prompt as a JSON array of content blocks, as the agent's SDK takes it.
	Blocks json.RawMessage
	// SessionID names the conversation. The done that ends the turn repeats it.
	SessionID string
	// Model is the model of the turn, "" for the agent's own.
	Model string
	// Options are the names of the other fields that change how the agent works, such as maxTurns. A handler that does
	// not honor them refuses the query. A client does not send them.
	Options []string
}

// queryOptions are the fields that Ash passes on to the agent's SDK.
var queryOptions = []string{
	"allowedTools", "betas", "disallowedTools", "effort", "initialAgent", "maxBudgetUsd", "maxTurns", "outputFormat", "subagents", "thinking",
}

// Exec is a command line that the host wants to have run by a shell next to the agent.
type Exec struct {
	Command string
	Timeout time.Duration
}

// ExecResult is how a command line has ended.
type ExecResult struct {
	ExitCode       int
	Stdout, Stderr string
}

// execTimeout is the time of a command line that names none, as in Ash, and maxExecTimeout the longest in milliseconds.
const (
	execTimeout    = 30 * time.Second
	maxExecTimeout = 24 * 3600 * 1000
)

// Error reports that something went wrong at the bridge. A [Client] returns it as the error of the query.
type Error struct {
	// Text is what the bridge said.
	Text string
}

func (e Error) Error() string { return "ash: the bridge reports: " + e.Text }

// MaxLine bounds a line without its line feed, in bytes.
const MaxLine = 50 << 20

var (
	// errBadLine reports that a line is not a command or event of this protocol.
	errBadLine = errors.New("ash: bad line")
	// errLineTooLong reports that a line is longer than [MaxLine].
	errLineTooLong = fmt.Errorf("ash: line longer than %d bytes", MaxLine)
	// errUnknownName reports that a well-formed line names an unknown command or event.
	errUnknownName = errors.New("ash: unknown name")
)

// A command is a line from host to bridge.
type command struct {
	// name is query, resume, exec, interrupt or shutdown.
	name string
	// Query is that of a query. A resume has only the session.
	Query
	Exec
}

// An event is a line from bridge to host.
type event struct {
	// name is ready, message, error, exec_result or done.
	name string
	// result is that of an exec_result.
	result ExecResult
	// data is that of a message, text that of an error, session that of a done.
	data          json.RawMessage
	text, session string
}

// decodeFields returns the fields of a line by name. The line must have the field named kind, which is
// cmd or ev, and not the other.
func decodeFields(line []byte, kind string) (fields map[string]json.RawMessage, err error) {
	if !utf8.Valid(line) {
		return nil, badLine("not valid UTF-8")
	}
	err = json.Unmarshal(line, &fields)
	if mistyped := (*json.UnmarshalTypeError)(nil); errors.As(err, &mistyped) {
		return nil, badLine("want a JSON object")
	}
	if err != nil {
		return nil, badLine("not valid JSON: %w", err)
	}
	if fields["cmd"] != nil && fields["ev"] != nil {
		return nil, badLine("both cmd and ev: a line is a command or an event")
	}
	if fields[kind] == nil {
		return nil, badLine("%s is missing", kind)
	}
	return fields, nil
}

// decodeText returns the text of a required field, with U+FFFD for half a surrogate pair.
func decodeText(fields map[string]json.RawMessage, name string) (text string, err error) {
	value := fields[name]
	if value == nil {
		return "", badLine("%s is missing", name)
	}
	if value[0] != '"' || json.Unmarshal(value, &text) != nil {
		return "", badLine("%s: want text", name)
	}
	return text, nil
}

func decodeCommand(line []byte) (c command, err error) {
	fields, err := decodeFields(line, "cmd")
	if err == nil {
		c.name, err = decodeText(fields, "cmd")
	}
	if err != nil {
		return c, err
	}
	switch c.name {
	case "query":
		if prompt := fields["prompt"]; bytes.HasPrefix(prompt, []byte("[")) {
			c.Blocks = prompt
		} else if c.Prompt, err = decodeText(fields, "prompt"); err != nil {
			return c, badLine("prompt: want text or an array of content blocks")
		}
		switch string(fields["includePartialMessages"]) { // checked but ignored: a handler sends whole messages
		case "", "true", "false":
		default:
			return c, badLine("includePartialMessages: want true or false")
		}
		for _, name := range queryOptions {
			if value := fields[name]; value != nil && string(value) != "null" {
				c.Options = append(c.Options, name)
			}
		}
		if model := fields["model"]; model != nil && json.Unmarshal(model, &c.Model) != nil {
			return c, badLine("model: want text")
		}
		c.SessionID, err = decodeText(fields, "sessionId")
	case "exec":
		milliseconds := int64(execTimeout / time.Millisecond)
		if value := fields["timeout"]; value != nil && (json.Unmarshal(value, &milliseconds) != nil || milliseconds <= 0 || milliseconds > maxExecTimeout) {
			return c, badLine("timeout: want a whole number of milliseconds")
		}
		c.Timeout = time.Duration(milliseconds) * time.Millisecond
		c.Command, err = decodeText(fields, "command")
	case "resume":
		c.SessionID, err = decodeText(fields, "sessionId")
	case "interrupt", "shutdown":
	default:
		err = fmt.Errorf("%w: command %s", errUnknownName, excerpt(c.name))
	}
	return c, err
}

func decodeEvent(line []byte) (e event, err error) {
	fields, err := decodeFields(line, "ev")
	if err == nil {
		e.name, err = decodeText(fields, "ev")
	}
	if err != nil {
		return e, err
	}
	switch e.name {
	case "ready":
	case "message":
		if e.data = fields["data"]; e.data == nil {
			err = badLine("data is missing")
		}
	case "error":
		e.text, err = decodeText(fields, "error")
	case "exec_result":
		if json.Unmarshal(fields["exitCode"], &e.result.ExitCode) != nil {
			return e, badLine("exitCode: want an integer")
		}
		if e.result.Stdout, err = decodeText(fields, "stdout"); err == nil {
			e.result.Stderr, err = decodeText(fields, "stderr")
		}
	case "done":
		e.session, err = decodeText(fields, "sessionId")
	default:
		err = fmt.Errorf("%w: event %s", errUnknownName, excerpt(e.name))
	}
	return e, err
}

// encode returns the command, which is not a resume, as a line with its line feed. It returns an
// error for text that is not UTF-8, for blocks that are not JSON, and for lines over [MaxLine].
func (c command) encode() ([]byte, error) {
	e := encoder{line: []byte(`{"cmd":"` + c.name + `"`)}
	if c.name == "query" {
		if c.Blocks != nil {
			e.value("prompt", c.Blocks)
		} else {
			e.text("prompt", c.Prompt)
		}
		e.text("sessionId", c.SessionID)
		if c.Model != "" {
			e.text("model", c.Model)
		}
	}
	if c.name == "exec" {
		e.text("command", c.Command)
		e.value("timeout", json.RawMessage(strconv.FormatInt(c.Timeout.Milliseconds(), 10)))
	}
	return e.end()
}

// encode returns the event as a line, with its line feed. It returns an error for data that is not
// JSON and for lines over [MaxLine]. It makes an error's text valid UTF-8.
func (v event) encode() ([]byte, error) {
	e := encoder{line: []byte(`{"ev":"` + v.name + `"`)}
	switch v.name {
	case "message":
		e.value("data", v.data)
	case "error":
		e.text("error", strings.ToValidUTF8(v.text, "\uFFFD"))
	case "exec_result":
		e.value("exitCode", json.RawMessage(strconv.Itoa(v.result.ExitCode)))
		e.text("stdout", strings.ToValidUTF8(v.result.Stdout, "\uFFFD"))
		e.text("stderr", strings.ToValidUTF8(v.result.Stderr, "\uFFFD"))
	case "done":
		e.text("sessionId", v.session)
	}
	return e.end()
}

// An encoder builds a line.
type encoder struct {
	line []byte
	err  error
}

// text adds a field with text, in which <, > and & stay readable.
func (e *encoder) text(name, text string) {
	if !utf8.ValidString(text) {
		e.err = errors.Join(e.err, fmt.Errorf("ash: %s: not valid UTF-8", name))
	}
	quoted, _ := jsonl.Encode(text) // text always has a JSON form
	e.add(name, bytes.TrimSuffix(quoted, []byte("\n")))
}

// value adds a field with a JSON value as it is, except that line feeds become spaces. Valid JSON has
// them only between tokens.
func (e *encoder) value(name string, value json.RawMessage) {
	switch {
	case !utf8.Valid(value):
		e.err = errors.Join(e.err, fmt.Errorf("ash: %s: not valid UTF-8", name))
	case !json.Valid(value):
		e.err = errors.Join(e.err, fmt.Errorf("ash: %s: not valid JSON", name))
	}
	e.add(name, bytes.ReplaceAll(trimSpace(value), []byte("\n"), []byte(" ")))
}

func (e *encoder) add(name string, value []byte) {
	e.line = append(append(e.line, `,"`+name+`":`...), value...)
}

func (e *encoder) end() ([]byte, error) {
	if e.err == nil && len(e.line) >= MaxLine {
		e.err = fmt.Errorf("%w: %d", errLineTooLong, len(e.line)+1)
	}
	if e.err != nil {
		return nil, e.err
	}
	return append(e.line, "}\n"...), nil
}

// trimSpace removes outer JSON white space.
func trimSpace(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

// excerpt quotes at most 64 bytes of text.
func excerpt(text string) string {
	if len(text) <= 64 {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q...", text[:64])
}

func badLine(format string, details ...any) error {
	return fmt.Errorf("%w: %w", errBadLine, fmt.Errorf(format, details...))
}
