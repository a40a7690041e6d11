package ash

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// Command is what a host tells a bridge: a [Query], [Resume], [Interrupt] or [Shutdown].
type Command interface{ command() }

// Query asks the agent to run a turn on a prompt. The prompt is either Prompt or Blocks, never both.
type Query struct {
	// Prompt is the prompt as text.
	Prompt string
	// Blocks, when not nil, is the prompt as content blocks: a JSON array as the agent's SDK takes it.
	Blocks json.RawMessage
	// SessionID names the conversation. The done that ends the turn repeats it.
	SessionID string
	// IncludePartialMessages asks for messages while they are still being written.
	IncludePartialMessages bool
	// Extra holds the query's further fields, such as model or maxTurns, by name, each as its JSON value. This package
	// passes them on and reads nothing into them. A Query made by decoding has an Extra only if there are such fields.
	Extra map[string]json.RawMessage
}

// Resume asks the agent to go on with a session it ran before.
type Resume struct {
	SessionID string
}

// Interrupt asks the bridge to end the running turn.
type Interrupt struct{}

// Shutdown asks the bridge process to end.
type Shutdown struct{}

func (Query) command()     {}
func (Resume) command()    {}
func (Interrupt) command() {}
func (Shutdown) command()  {}

// queryFields are the fields of a query that Extra cannot hold.
var queryFields = []string{"cmd", "ev", "prompt", "sessionId", "includePartialMessages"}

// DecodeCommand reads one line, with or without its line feed. The result shares memory with the line. Its error is
// [ErrBadLine], or [ErrUnknownName] for a command that is none of the four.
func DecodeCommand(line []byte) (Command, error) {
	fields, err := decodeObject(line)
	if err != nil {
		return nil, err
	}
	name, err := fields.name("cmd")
	if err != nil {
		return nil, err
	}
	switch name {
	case "query":
		return decodeQuery(fields)
	case "resume":
		session, err := fields.text("sessionId")
		if err != nil {
			return nil, err
		}
		return Resume{SessionID: session}, nil
	case "interrupt":
		return Interrupt{}, nil
	case "shutdown":
		return Shutdown{}, nil
	}
	return nil, fmt.Errorf("%w: command %s", ErrUnknownName, excerpt(name))
}

func decodeQuery(fields object) (Command, error) {
	var query Query
	var err error
	switch prompt, ok := fields["prompt"]; {
	case ok && prompt[0] == '[':
		query.Blocks = prompt
	case ok && prompt[0] != '"':
		return nil, badLine("prompt: want text or an array of content blocks, got %s", describe(prompt))
	default:
		if query.Prompt, err = fields.text("prompt"); err != nil {
			return nil, err
		}
	}
	if query.SessionID, err = fields.text("sessionId"); err != nil {
		return nil, err
	}
	if query.IncludePartialMessages, err = fields.flag("includePartialMessages"); err != nil {
		return nil, err
	}
	for _, known := range queryFields {
		delete(fields, known)
	}
	if len(fields) > 0 {
		query.Extra = fields
	}
	return query, nil
}

// EncodeCommand returns the command as a line, its line feed included. It refuses what the other end could not read as
// it was meant: text that is not UTF-8, blocks that are no JSON array, a line over [MaxLine] ([ErrLineTooLong]).
func EncodeCommand(command Command) ([]byte, error) {
	switch command := command.(type) {
	case Query:
		return encodeQuery(command)
	case Resume:
		line, err := appendText([]byte(`{"cmd":"resume"`), "sessionId", command.SessionID)
		if err != nil {
			return nil, err
		}
		return endLine(append(line, '}'))
	case Interrupt:
		return []byte("{\"cmd\":\"interrupt\"}\n"), nil
	case Shutdown:
		return []byte("{\"cmd\":\"shutdown\"}\n"), nil
	}
	return nil, fmt.Errorf("ash: no such command: %T", command)
}

func encodeQuery(query Query) ([]byte, error) {
	line := []byte(`{"cmd":"query"`)
	var err error
	if query.Blocks == nil {
		line, err = appendText(line, "prompt", query.Prompt)
	} else {
		line, err = appendBlocks(line, query)
	}
	if err != nil {
		return nil, err
	}
	if line, err = appendText(line, "sessionId", query.SessionID); err != nil {
		return nil, err
	}
	if query.IncludePartialMessages {
		line = append(line, `,"includePartialMessages":true`...)
	}
	for _, name := range slices.Sorted(maps.Keys(query.Extra)) {
		if slices.Contains(queryFields, name) {
			return nil, fmt.Errorf("ash: extra field %s: a query has that field itself", name)
		}
		if line, err = appendField(line, name, query.Extra[name]); err != nil {
			return nil, err
		}
	}
	return endLine(append(line, '}'))
}

func appendBlocks(line []byte, query Query) ([]byte, error) {
	if query.Prompt != "" {
		return nil, errors.New("ash: prompt: both text and content blocks")
	}
	blocks := trimSpace(query.Blocks)
	if len(blocks) == 0 || blocks[0] != '[' {
		return nil, errors.New("ash: prompt: content blocks must be a JSON array")
	}
	return appendField(line, "prompt", blocks)
}

// appendText appends a further field whose value is text.
func appendText(line []byte, name, text string) ([]byte, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("ash: %s: not valid UTF-8", name)
	}
	line = append(append(append(line, `,"`...), name...), `":`...)
	return appendString(line, text)
}

// appendField appends a further field whose name may be any text and whose value is JSON.
func appendField(line []byte, name string, value json.RawMessage) ([]byte, error) {
	if !utf8.ValidString(name) {
		return nil, fmt.Errorf("ash: field name %s: not valid UTF-8", excerpt(name))
	}
	line, err := appendString(append(line, ','), name)
	if err != nil {
		return nil, err
	}
	return appendValue(append(line, ':'), name, value)
}
