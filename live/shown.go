package live

import (
	"time"

	"github.com/oacp-go/oacp/turn/track"
)

// Shown is a file in the inbox that was shown to a session.
type Shown struct {
	// File is empty once the file has left the inbox.
	File string    `json:"file,omitempty"`
	At   time.Time `json:"at"`
	// Key is the key of the message, or empty if the file is not a message.
	Key track.Key `json:"key,omitzero"`
	// Proof is empty once the message is noticed, and for a file that is not a message.
	Proof proof `json:"proof,omitempty"`
	// Prompted reports whether the message came with a prompt of claude and nothing has happened since.
	// Claude drops it if a person takes the prompt back or another hook blocks it. Codex keeps it.
	Prompted bool `json:"prompted,omitempty"`
}

// Noticed reports whether the model is known to have seen the message.
func (t *Shown) Noticed() bool { return t.Key.ID != "" && t.Proof == none }

// A proof is what must still happen before a message counts as noticed: the model must answer a request that it
// got after the message was shown.
type proof string

const (
	// answered needs an answer of the model, which calls a tool or ends the turn.
	answered proof = "answer"
	// stopped needs a Stop: tools that the model called before may still end.
	stopped proof = "stop"
	// delivered needs the end of a tool call or a new prompt first: until then, the program holds back
	// what woke it.
	delivered proof = "delivery"
	// none is the proof of what is noticed.
	none proof = ""
)

// proofAfter returns the proof for a message that a hook of this event shows. working reports whether a
// turn, and perhaps a tool, was running.
func proofAfter(event string, working bool) proof {
	switch {
	case event == FileChanged:
		return delivered
	case event == PostToolUse, event == UserPromptSubmit && working:
		return stopped
	}
	return answered
}

// after returns what is left of a proof after an event.
func (p proof) after(event string, working bool) proof {
	switch {
	case p == none:
		return none
	case event == UserPromptSubmit:
		return proofAfter(event, working)
	case event == Stop && p != delivered, event == PostToolUse && p == answered:
		return none
	case event == PostToolUse:
		return stopped
	}
	return p
}
