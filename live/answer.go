package live

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// An Answer is what a hook prints, and its exit status.
type Answer struct {
	Stdout, Stderr []byte
	// Exit is 0, or 2 to wake the session.
	Exit int
	// Follow asks the caller to start a process that calls Follow for the session.
	Follow bool
	// later is when the hook of FileChanged looks again. It is zero if no mail waits, or another hook looks.
	later time.Time
}

// wakeStatus is the exit status with which a hook of claude that has asyncRewake wakes the session. What
// it wrote to standard error becomes the prompt.
const wakeStatus = 2

// hookOutput is the part of a hook's output that both programs understand.
type hookOutput struct {
	Decision string `json:"decision,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Shown is for the user. The model does not get it.
	Shown    string       `json:"systemMessage,omitempty"`
	Specific *eventOutput `json:"hookSpecificOutput,omitempty"`
}

type eventOutput struct {
	Event   string `json:"hookEventName"`
	Context string `json:"additionalContext,omitempty"`
	// WatchPaths are folders whose changes cause FileChanged events.
	WatchPaths []string `json:"watchPaths,omitempty"`
}

// write writes a text for the model in the form that the event has in the program.
func (a *Answer) write(h *Hook, e Event, text string) error {
	var out hookOutput
	event := e.Name
	if event != SessionStart {
		out.Shown = headline(text)
		if !e.isAsked() && e.Prompt != "" && h.Program == Claude {
			out.Shown = headline(e.Prompt) // it woke the session
		}
	}
	switch {
	case event == SessionStart && h.Program == Claude:
		inbox := filepath.Join(h.Workspace.Dir(), filepath.FromSlash(inboxOf(h.Agent)))
		out.Specific = &eventOutput{Event: event, Context: text, WatchPaths: []string{inbox}}
	case text == "" && out.Shown == "":
		return nil
	case text == "":
	case event == FileChanged:
		a.Stderr, a.Exit = []byte(text), wakeStatus
		return nil
	case event == Stop && h.Program == Codex:
		out.Decision, out.Reason = "block", text
	default:
		// Claude would pass the reason of a block at Stop to the model twice.
		out.Specific = &eventOutput{Event: event, Context: text}
	}
	data, err := json.Marshal(out)
	a.Stdout = append(data, '\n')
	return err
}

// headline returns the first line about a message in a text with a digest, or about a request in a reminder, and how
// many more there are. It returns "" if the text has none.
func headline(text string) string {
	label := "oacp: "
	after, found := strings.CutPrefix(text, owing)
	if found {
		label = "oacp: an answer is owed: "
	} else {
		_, after, found = strings.Cut(text, foreign)
	}
	_, text, isLine := strings.Cut(after, "\n- ")
	if !found || !isLine {
		return ""
	}
	line, rest, _ := strings.Cut(text, "\n")
	if more := strings.Count("\n"+rest, "\n- "); more > 0 {
		line += fmt.Sprintf("; %d more", more)
	}
	return label + line
}
