package ash

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Event is what a bridge tells its host: a [Ready], [Message], [Error] or [Done].
type Event interface{ event() }

// Ready says that the bridge takes commands.
type Ready struct{}

// Message carries one message of the agent.
type Message struct {
	// Data is the message as the agent's SDK made it, any JSON value; its bytes are never altered, apart from a line
	// feed between tokens, which becomes a space.
	Data json.RawMessage
}

// Error says that something went wrong at the bridge. Within a turn a [Done] still follows. It is the error a
// [Client]'s query ends with when the bridge reported one.
type Error struct {
	// Text is what the bridge said.
	Text string
}

// Error returns what the bridge said, and that it was the bridge.
func (e Error) Error() string { return "ash: the bridge reports: " + e.Text }

// Done says that a turn is over.
type Done struct {
	// SessionID is that of the command the turn answered.
	SessionID string
}

func (Ready) event()   {}
func (Message) event() {}
func (Error) event()   {}
func (Done) event()    {}

// DecodeEvent reads one line, with or without its line feed. The result shares memory with the line. Its error is
// [ErrBadLine], or [ErrUnknownName] for an event that is none of the four; a host ignores those.
func DecodeEvent(line []byte) (Event, error) {
	fields, err := decodeObject(line)
	if err != nil {
		return nil, err
	}
	name, err := fields.name("ev")
	if err != nil {
		return nil, err
	}
	switch name {
	case "ready":
		return Ready{}, nil
	case "message":
		data, ok := fields["data"]
		if !ok {
			return nil, badLine("data is missing")
		}
		return Message{Data: data}, nil
	case "error":
		text, err := fields.text("error")
		if err != nil {
			return nil, err
		}
		return Error{Text: text}, nil
	case "done":
		session, err := fields.text("sessionId")
		if err != nil {
			return nil, err
		}
		return Done{SessionID: session}, nil
	}
	return nil, fmt.Errorf("%w: event %s", ErrUnknownName, excerpt(name))
}

// EncodeEvent returns the event as a line, its line feed included. It refuses data that is not JSON, and a line over
// [MaxLine] ([ErrLineTooLong]). An error's text is made valid UTF-8 instead of being refused: an error must get out.
func EncodeEvent(event Event) ([]byte, error) {
	var line []byte
	var err error
	switch event := event.(type) {
	case Ready:
		return []byte("{\"ev\":\"ready\"}\n"), nil
	case Message:
		line = make([]byte, 0, len(event.Data)+len(`{"ev":"message","data":}`)+1)
		line, err = appendValue(append(line, `{"ev":"message","data":`...), "data", event.Data)
	case Error:
		line, err = appendText([]byte(`{"ev":"error"`), "error", strings.ToValidUTF8(event.Text, "\uFFFD"))
	case Done:
		line, err = appendText([]byte(`{"ev":"done"`), "sessionId", event.SessionID)
	default:
		err = fmt.Errorf("ash: no such event: %T", event)
	}
	if err != nil {
		return nil, err
	}
	return endLine(append(line, '}'))
}
