package live

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// An Event is what a hook says on its standard input. Fields that the program does not send are empty.
type Event struct {
	Name string
	// Session is the program's id of the session.
	Session string
	// Dir is the working folder of the session, and Transcript the file in which the program records it.
	Dir        string
	Transcript string
	// Source says how a session starts: startup, resume, clear or compact.
	Source string
	// StopActive reports whether a hook held the session at its last Stop.
	StopActive bool
	// Prompt is the prompt that was submitted.
	Prompt string
	// Path is the file that changed, and Change says how: add, change or unlink.
	Path   string
	Change string
	// Subagent is set if a helper of the model caused the event, not the session itself.
	Subagent string
}

// matters reports whether a Hook may have something to do at the event.
func (e *Event) matters() bool {
	if e.Subagent != "" {
		return false
	}
	switch e.Name {
	case FileChanged:
		return e.Change != "unlink" && schema.IsMessageFile(filepath.Base(e.Path))
	case SessionStart, UserPromptSubmit, PostToolUse, Stop, SessionEnd:
		return true
	}
	return false
}

// isAsked reports whether a person caused the event. When a hook wakes claude, the prompt is a
// notification, which no person wrote.
func (e *Event) isAsked() bool {
	return e.Name == SessionStart || e.Name == UserPromptSubmit && !strings.HasPrefix(e.Prompt, "<task-notification>")
}

// maxEvent bounds how much of an event is read, in bytes: results of tools can have any size.
const maxEvent = 16 << 20

// errEvent is returned for input that is not an event of a hook.
var errEvent = errors.New("standard input is not an event of a hook")

// ReadEvent reads an event. It reads the input to its end, so that the program that writes it never
// fails. It ignores fields with an unexpected type, and fields beyond maxEvent. The error matches errEvent, or
// is that of the reader.
func ReadEvent(r io.Reader) (Event, error) {
	limited := &io.LimitedReader{R: r, N: maxEvent}
	var e Event
	err := e.decode(json.NewDecoder(limited))
	if limited.N == 0 {
		err = nil // the rest is missing
	}
	if _, readErr := io.Copy(io.Discard, r); readErr != nil {
		return Event{}, readErr
	}
	switch {
	case err != nil:
		return Event{}, fmt.Errorf("%w: %w", errEvent, err)
	case e.Name == "":
		return Event{}, fmt.Errorf("%w: hook_event_name is missing", errEvent)
	case !project.ValidSession(e.Session):
		return Event{}, fmt.Errorf("%w: session_id is missing or has characters that no id has", errEvent)
	}
	return e, nil
}

// decode reads one object, a field at a time.
func (e *Event) decode(d *json.Decoder) error {
	fields := map[string]any{
		"hook_event_name": &e.Name, "session_id": &e.Session, "cwd": &e.Dir, "transcript_path": &e.Transcript, "source": &e.Source, "stop_hook_active": &e.StopActive,
		"prompt": &e.Prompt, "file_path": &e.Path, "event": &e.Change, "agent_id": &e.Subagent,
	}
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return cmp.Or(err, errors.New("it is not an object"))
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if field := fields[name.(string)]; field != nil {
			_ = json.Unmarshal(value, field) // it may have another type
		}
	}
	_, err := d.Token()
	return err
}
