package mailbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/validate"
)

// A HeldError reports that a file in a mailbox is not read as a message, because an agent reads only
// verified messages. It shows no content of the file.
type HeldError struct {
	Path string
	// Agent is the one that reads only verified messages.
	Agent schema.AgentName
	// Status is the outcome of the verification, and Reason says it in words.
	Status signing.Status
	Reason string
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s reads only verified messages, and %s", e.Agent, e.Reason)
}

// A ScreenFunc returns the check of an agent that reads only verified messages, nil if it reads all.
type ScreenFunc func(w *Workspace, agent schema.AgentName) Check

// A Check returns why the bytes of a file are not to be read, nil if they are. In the agent's own mailbox,
// it also holds messages that are not to the agent.
type Check func(data []byte, own bool) *HeldError

// Unscreened is a ScreenFunc that holds nothing.
func Unscreened(*Workspace, schema.AgentName) Check { return nil }

// screenWithoutKeys is the ScreenFunc of a workspace without keys. It holds everything for an agent whose
// settings may ask for verified messages.
func screenWithoutKeys(w *Workspace, agent schema.AgentName) Check {
	const maxSettings = 1 << 20
	data, err := durable.ReadFile(w.root, w.dir, schema.AgentPath(agent, "config.yaml"), maxSettings)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !bytes.Contains(bytes.ToLower(data), []byte("enforce")) {
		return nil
	}
	return func([]byte, bool) *HeldError {
		return &HeldError{Status: signing.Untrusted, Reason: "the workspace was opened without keys"}
	}
}

// ViewAs sets the agent that looks at the workspace. If it reads only verified messages, it checks all mailboxes
// except its own outbox. ViewAs must not be called while others use the workspace.
func (w *Workspace) ViewAs(agent schema.AgentName) {
	w.viewer = func() schema.AgentName { return agent }
}

// Decode reads the bytes of a file in a mailbox as a message. Only Agent, Box, Name and Modified of the entry are used.
// Code that shows a message or acts on it must get it from Decode or from an Entry. The error is a *HeldError for
// a message that must not be shown. Other errors are those of validate.Read.
func (w *Workspace) Decode(e Entry, data []byte) (*schema.Message, error) {
	return decode((folder{w, e.Agent, e.Box}).check(), filepath.Join(w.BoxPath(e.Agent, e.Box), e.Name), data, e.Modified)
}

func decode(check func(data []byte) *HeldError, path string, data []byte, modified time.Time) (m *schema.Message, err error) {
	if held := check(data); held != nil {
		held.Path = path
		return nil, held
	}
	if m, err = validate.Read(data); m != nil {
		m.NoteArrival(modified)
	}
	return m, err
}

// IsHeld reports whether the file of an entry is held.
func (e *Entry) IsHeld() bool {
	_, held := errors.AsType[*HeldError](e.Err)
	return held
}
