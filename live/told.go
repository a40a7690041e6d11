package live

import (
	"time"

	"github.com/oacp-go/oacp/turn"
)

// Told is a file in the inbox that a session was told.
type Told struct {
	// File is empty once it has left the inbox.
	File string    `json:"file,omitempty"`
	At   time.Time `json:"at"`
	// Key is that of the message. It is empty for a file that is not one.
	Key turn.Key `json:"key,omitzero"`
	// Proof is empty once the message is noticed, and of a file that is not a message.
	Proof proof `json:"proof,omitempty"`
}

// Noticed reports whether the model is known to have seen the message.
func (t *Told) Noticed() bool { return t.Key.ID != "" && t.Proof == none }

// A proof is what has to happen before the model is known to have seen what a session was told: it must
// have answered a request that was made later. Only then the message is noticed.
type proof string

const (
	// answered needs an answer of the model, which ends with a Stop or calls a tool.
	answered proof = "answer"
	// stopped needs a Stop: tools that the model called before may still end.
	stopped proof = "stop"
	// delivered needs the end of a tool call or a new prompt first: until then, the program holds back
	// what woke it.
	delivered proof = "delivery"
	// none is the proof of what is noticed.
	none proof = ""
)

// proofAfter is what is needed of what a hook of this event has said. Working says that a turn was running:
// tools may be, too.
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
