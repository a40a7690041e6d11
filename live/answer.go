package live

import (
	"encoding/json"
	"path/filepath"
)

// An Answer is what a hook prints, and its exit status.
type Answer struct {
	Stdout, Stderr []byte
	// Exit is 0, or 2 to wake the session.
	Exit int
	// Follow asks the caller to start a process that calls Follow for the session.
	Follow bool
}

// wakeStatus is the exit status with which a hook of claude that has asyncRewake wakes the session. What
// it wrote to standard error becomes the prompt.
const wakeStatus = 2

// hookOutput is the part of a hook's output that both programs know.
type hookOutput struct {
	Decision string       `json:"decision,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	Specific *eventOutput `json:"hookSpecificOutput,omitempty"`
}

type eventOutput struct {
	Event   string `json:"hookEventName"`
	Context string `json:"additionalContext,omitempty"`
	// WatchPaths are folders whose changes cause FileChanged events.
	WatchPaths []string `json:"watchPaths,omitempty"`
}

// write writes a text for the model in the form that the event has in the program.
func (a *Answer) write(h *Hook, event, text string) error {
	var out hookOutput
	switch {
	case event == SessionStart && h.Program == Claude:
		inbox := filepath.Join(h.Workspace.Dir(), filepath.FromSlash(inboxOf(h.Agent)))
		out.Specific = &eventOutput{Event: event, Context: text, WatchPaths: []string{inbox}}
	case text == "":
		return nil
	case event == FileChanged:
		a.Stderr, a.Exit = []byte(text), wakeStatus
		return nil
	case event == Stop && h.Program == Codex:
		out.Decision, out.Reason = "block", text
	default:
		// Of claude's two forms for Stop, this one reaches the model once, a reason to block twice.
		out.Specific = &eventOutput{Event: event, Context: text}
	}
	data, err := json.Marshal(out)
	a.Stdout = append(data, '\n')
	return err
}
