package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// An Event is what a hook says on its standard input. Fields that the program does not send are empty.
type Event struct {
	Name string `json:"hook_event_name"`
	// Session is the program's id of the session.
	Session string `json:"session_id"`
	// Dir is the working folder of the session.
	Dir string `json:"cwd"`
	// Source says how a session starts: startup, resume, clear or compact.
	Source string `json:"source"`
	// StopActive says that a hook held the session at its last Stop.
	StopActive bool `json:"stop_hook_active"`
	// Path is the file that changed, and Change says how: add, change or unlink.
	Path   string `json:"file_path"`
	Change string `json:"event"`
	// Subagent is set if a helper of the model caused the event, not the session itself.
	Subagent string `json:"agent_id"`
}

// maxEvent bounds what is read of an event, in bytes: results of tools can be of any size.
const maxEvent = 16 << 20

// ErrEvent is returned for input that is not an event of a hook.
var ErrEvent = errors.New("standard input is not an event of a hook")

// isSessionID reports whether the text can be the id of a session, which becomes the name of a file.
func isSessionID(text string) bool {
	const most = 128
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	return text != "" && len(text) <= most && !strings.ContainsFunc(text, other)
}

// ReadEvent reads an event. It reads the input to its end, so that the program that writes it never
// fails. Of a field with another type than expected, it takes nothing. The error matches ErrEvent, or is
// that of the reader.
func ReadEvent(r io.Reader) (Event, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxEvent))
	if err != nil {
		return Event{}, err
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return Event{}, err
	}
	var e Event
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(data, &e); err != nil && !errors.As(err, &wrong) {
		return Event{}, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	switch {
	case e.Name == "":
		return Event{}, fmt.Errorf("%w: hook_event_name is missing", ErrEvent)
	case !isSessionID(e.Session):
		return Event{}, fmt.Errorf("%w: session_id is missing or has characters that no id has", ErrEvent)
	}
	return e, nil
}
