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

// DecodeEvent reads a line, with or without its line feed. The result shares memory with the line.
// It returns [ErrBadLine], or [ErrUnknownName] for an unknown event, which hosts ignore.
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
	var e encoder
	switch event := event.(type) {
	case Ready:
		return []byte("{\"ev\":\"ready\"}\n"), nil
	case Message:
		const begin = `{"ev":"message","data":`
		e.line = append(make([]byte, 0, len(begin)+len(event.Data)+2), begin...)
		e.value("data", event.Data)
	case Error:
		e.line = []byte(`{"ev":"error"`)
		e.text("error", strings.ToValidUTF8(event.Text, "\uFFFD"))
	case Done:
		e.line = []byte(`{"ev":"done"`)
		e.text("sessionId", event.SessionID)
	default:
		e.fail("no such event: %T", event)
	}
	return e.end()
}
