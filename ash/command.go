package ash

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Command is what a host tells a bridge: a [Query], [Resume], [Interrupt] or [Shutdown].
type Command interface{ command() }

// Query asks the agent to run a turn on a prompt, which is either Prompt or Blocks.
type Query struct {
	// Prompt is the prompt as text.
	Prompt string
	// Blocks is the prompt as a JSON array of content blocks, as the agent's SDK takes it.
	Blocks json.RawMessage
	// SessionID names the conversation. The done that ends the turn repeats it.
	SessionID string
	// IncludePartialMessages asks for messages while they are still being written.
	IncludePartialMessages bool
	// Extra holds all other fields, such as model or maxTurns, as JSON values by name. This package
	// only passes them on. It is nil if there are none.
	Extra map[string]json.RawMessage
}

// Resume asks the agent to continue a session.
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

// DecodeCommand reads a line, with or without its line feed. The result shares memory with the
// line. It returns [ErrBadLine], or [ErrUnknownName] for an unknown command.
func DecodeCommand(line []byte) (Command, error) {
	o, err := decodeObject(line)
	if err != nil {
		return nil, err
	}
	var command Command
	switch name := o.name("cmd"); {
	case o.err != nil:
	case name == "query":
		command = o.query()
	case name == "resume":
		command = Resume{SessionID: o.text("sessionId")}
	case name == "interrupt":
		command = Interrupt{}
	case name == "shutdown":
		command = Shutdown{}
	default:
		o.err = fmt.Errorf("%w: command %s", ErrUnknownName, excerpt(name))
	}
	if o.err != nil {
		return nil, o.err
	}
	return command, nil
}

func (o *object) query() Query {
	var query Query
	switch prompt := o.fields["prompt"]; {
	case len(prompt) > 0 && prompt[0] == '[':
		query.Blocks = prompt
	case len(prompt) > 0 && prompt[0] != '"':
		o.fail("prompt: want text or an array of content blocks, got %s", describe(prompt))
	default:
		query.Prompt = o.text("prompt")
	}
	query.SessionID = o.text("sessionId")
	query.IncludePartialMessages = o.flag("includePartialMessages")
	for _, known := range queryFields {
		delete(o.fields, known)
	}
	if len(o.fields) > 0 {
		query.Extra = o.fields
	}
	return query
}

// EncodeCommand returns the command as a line, with its line feed. It returns an error for text
// that is not UTF-8, for blocks that are not a JSON array, and for lines over [MaxLine].
func EncodeCommand(command Command) ([]byte, error) {
	switch command := command.(type) {
	case Query:
		return encodeQuery(command)
	case Resume:
		e := encoder{line: []byte(`{"cmd":"resume"`)}
		e.text("sessionId", command.SessionID)
		return e.end()
	case Interrupt:
		return []byte("{\"cmd\":\"interrupt\"}\n"), nil
	case Shutdown:
		return []byte("{\"cmd\":\"shutdown\"}\n"), nil
	}
	return nil, fmt.Errorf("ash: no such command: %T", command)
}

func encodeQuery(query Query) ([]byte, error) {
	e := encoder{line: []byte(`{"cmd":"query"`)}
	blocks := trimSpace(query.Blocks)
	switch {
	case query.Blocks == nil:
		e.text("prompt", query.Prompt)
	case query.Prompt != "":
		e.fail("prompt: both text and content blocks")
	case len(blocks) == 0 || blocks[0] != '[':
		e.fail("prompt: content blocks must be a JSON array")
	default:
		e.field("prompt", blocks)
	}
	e.text("sessionId", query.SessionID)
	if query.IncludePartialMessages {
		e.field("includePartialMessages", json.RawMessage("true"))
	}
	for _, name := range slices.Sorted(maps.Keys(query.Extra)) {
		if slices.Contains(queryFields, name) {
			e.fail("extra field %s: a query has that field itself", name)
		}
		e.field(name, query.Extra[name])
	}
	return e.end()
}
