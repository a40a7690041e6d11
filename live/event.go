package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// An Event is what a hook reads from its standard input. Fields that the program does not send are empty.
type Event struct {
	Name string `json:"hook_event_name"`
	// Session is the program's id of the session.
	Session string `json:"session_id"`
	// Dir is the working folder of the session.
	Dir string `json:"cwd"`
	// Source says how a session starts: startup, resume, clear or compact.
	Source string `json:"source"`
	// StopActive reports whether a hook held the session at its last Stop.
	StopActive bool `json:"stop_hook_active"`
	// Prompt is the prompt that was submitted.
	Prompt string `json:"prompt"`
	// Path is the file that changed, and Change says how: add, change or unlink.
	Path   string `json:"file_path"`
	Change string `json:"event"`
	// Subagent is set if a subagent caused the event, not the session itself.
	Subagent string `json:"agent_id"`
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
// notification, and when Follow rings codex, it is the text of the ring: no person wrote them.
func (e *Event) isAsked() bool {
	isOwn := strings.HasPrefix(e.Prompt, "<task-notification>") || isRing(e.Prompt)
	return e.Name == SessionStart || e.Name == UserPromptSubmit && !isOwn
}

// maxEvent bounds the size of an event, in bytes: results of tools are large.
const maxEvent = 32 << 20

// errEvent is returned for input that is not an event of a hook.
var errEvent = errors.New("standard input is not an event of a hook")

// ReadEvent reads an event. It reads the input to its end, so that the program that writes it never
// fails. It ignores fields with an unexpected type.
func ReadEvent(r io.Reader) (Event, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxEvent))
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	if err != nil {
		return Event{}, err
	}
	var e Event
	err = json.Unmarshal(data, &e)
	_, hasOtherType := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case err != nil && !hasOtherType:
		return Event{}, fmt.Errorf("%w: %w", errEvent, err)
	case e.Name == "":
		return Event{}, fmt.Errorf("%w: hook_event_name is missing", errEvent)
	case !project.ValidSession(e.Session):
		return Event{}, fmt.Errorf("%w: session_id is missing or has characters that no id has", errEvent)
	}
	return e, nil
}
