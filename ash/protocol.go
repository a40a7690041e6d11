package ash

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Command is a message from a host to a bridge: a [Query], [Resume], [Interrupt] or [Shutdown].
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

// DecodeCommand reads a line, with or without its line feed. It returns [ErrBadLine], or
// [ErrUnknownName] for an unknown command.
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
		e := newEncoder(`{"cmd":"resume"`)
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
	e := newEncoder(`{"cmd":"query"`)
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

// Event is a message from a bridge to its host: a [Ready], [Message], [Error] or [Done].
type Event interface{ event() }

// Ready says that the bridge takes commands.
type Ready struct{}

// Message carries one message of the agent.
type Message struct {
	// Data is the message as the agent's SDK made it, any JSON value. Only line feeds between
	// tokens change, into spaces.
	Data json.RawMessage
}

// Error says that something went wrong at the bridge. Within a turn a [Done] still follows. A
// [Client] returns it as the error of the query.
type Error struct {
	// Text is what the bridge said.
	Text string
}

// Error returns the text, with a prefix that names the bridge.
func (e Error) Error() string { return "ash: the bridge reports: " + e.Text }

// Done says that a turn is over.
type Done struct {
	// SessionID is that of the turn's command, or another name that the bridge gave the session.
	SessionID string
}

func (Ready) event()   {}
func (Message) event() {}
func (Error) event()   {}
func (Done) event()    {}

// DecodeEvent reads a line, with or without its line feed. It returns [ErrBadLine], or
// [ErrUnknownName] for an unknown event, which hosts ignore.
func DecodeEvent(line []byte) (Event, error) {
	o, err := decodeObject(line)
	if err != nil {
		return nil, err
	}
	var event Event
	switch name := o.name("ev"); {
	case o.err != nil:
	case name == "ready":
		event = Ready{}
	case name == "message":
		event = Message{Data: o.value("data")}
	case name == "error":
		event = Error{Text: o.text("error")}
	case name == "done":
		event = Done{SessionID: o.text("sessionId")}
	default:
		o.err = fmt.Errorf("%w: event %s", ErrUnknownName, excerpt(name))
	}
	if o.err != nil {
		return nil, o.err
	}
	return event, nil
}

// EncodeEvent returns the event as a line, with its line feed. It returns an error for data that is
// not JSON and for lines over [MaxLine]. It makes an error's text valid UTF-8.
func EncodeEvent(event Event) ([]byte, error) {
	switch event := event.(type) {
	case Ready:
		return []byte("{\"ev\":\"ready\"}\n"), nil
	case Message:
		e := newEncoder(`{"ev":"message","data":`)
		e.value("data", event.Data)
		return e.end()
	case Error:
		e := newEncoder(`{"ev":"error"`)
		e.text("error", strings.ToValidUTF8(event.Text, "\uFFFD"))
		return e.end()
	case Done:
		e := newEncoder(`{"ev":"done"`)
		e.text("sessionId", event.SessionID)
		return e.end()
	}
	return nil, fmt.Errorf("ash: no such event: %T", event)
}
