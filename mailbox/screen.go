package mailbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/visible"
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
	// Again reports whether the message is verified, but had its turn.
	Again bool
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s reads only verified messages, and %s", e.Agent, e.Reason)
}

func (e *HeldError) Explain() (code, hint string) {
	return "held", fmt.Sprintf("%s; oacp --as-person read %s --agent %s --unverified shows it to a person",
		e.Remedy(), visible.ShellCommand(filepath.Base(e.Path)), e.Agent)
}

// Precedes says that a message which is held matters more than that it was not found because of it.
func (e *HeldError) Precedes() {}

// Remedy says what lets the agent read the message.
func (e *HeldError) Remedy() string {
	switch {
	case e.Again:
		return "oacp restore ID --agent " + string(e.Agent) + " gives a message another turn"
	case e.Status == signing.Unsigned:
		return "its sender must sign: oacp trust setup --agents SENDER," + string(e.Agent) + " begins that"
	}
	return fmt.Sprintf("oacp trust import FILE --agent %s trusts its sender's key", e.Agent)
}

// A Screen decides what an agent that reads only verified messages reads, and keeps what it has handled.
type Screen interface {
	// Check returns why the bytes of a file in a box are not to be read, nil if they are.
	Check(data []byte, owner schema.AgentName, box Box) *HeldError
	// Note keeps, outside the workspace, how far the agent got with the message in the bytes. It returns how many turns on
	// the message have begun, 0 for one that is not verified.
	Note(data []byte, how Handling) (turns int, err error)
}

// A Handling is how far an agent got with a message.
type Handling int

// The values of Handling. A message that has Begun in one workspace is held in all others. Each time counts as a turn,
// unless that is Interrupted. A message that is Handled is held everywhere, until it is Reopened.
const (
	Begun Handling = iota
	Interrupted
	Handled
	Reopened
)

// A ScreenFunc returns the Screen of an agent, nil if it reads all messages.
type ScreenFunc func(w *Workspace, agent schema.AgentName) Screen

// Unscreened is a ScreenFunc that holds nothing.
func Unscreened(*Workspace, schema.AgentName) Screen { return nil }

// withoutKeys is the Screen of an agent whose settings may ask for verified messages, in a workspace without keys.
type withoutKeys struct{}

var errWithoutKeys = errors.New("the workspace was opened without keys")

func screenWithoutKeys(w *Workspace, agent schema.AgentName) Screen {
	const maxSettings = 1 << 20
	data, err := durable.ReadFile(w.root, w.dir, schema.AgentPath(agent, "config.yaml"), maxSettings)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !bytes.Contains(data, []byte("verify_mode")) {
		return nil
	}
	return withoutKeys{}
}

func (withoutKeys) Check([]byte, schema.AgentName, Box) *HeldError {
	return &HeldError{Status: signing.Untrusted, Reason: errWithoutKeys.Error()}
}

func (withoutKeys) Note([]byte, Handling) (int, error) { return 0, errWithoutKeys }

// Note is Screen.Note for an agent that reads only verified messages. For all others it does nothing.
func Note(w *Workspace, agent schema.AgentName, data []byte, how Handling) (turns int, err error) {
	if screen := w.screen(w, agent); screen != nil {
		return screen.Note(data, how)
	}
	return 0, nil
}

// ProvenOnly reports whether the agent that looks at the workspace reads only verified messages. Then no text of a
// file without a signature may be shown.
func ProvenOnly(w *Workspace) bool {
	viewer := w.viewer()
	return viewer != "" && w.screen(w, viewer) != nil
}

// ViewAs sets the agent that looks at the workspace. If it reads only verified messages, it checks all mailboxes.
// ViewAs must not be called while others use the workspace.
func (w *Workspace) ViewAs(agent schema.AgentName) {
	w.viewer = func() schema.AgentName { return agent }
}

// Read returns the message in the file of an entry, and its bytes. Only Agent, Box, Name and Modified of the entry are
// used. The error is a *HeldError, without bytes, for a message that must not be shown. Other errors are those of validate.Read.
func (w *Workspace) Read(e Entry) (m *schema.Message, data []byte, err error) {
	if data, err = ReadUnscreened(w, e); err != nil {
		return nil, nil, err
	}
	if m, err = w.Decoder(e.Agent, e.Box)(e, data); isHeld(err) {
		return nil, nil, err
	} else if data == nil {
		data = []byte{}
	}
	return m, data, err
}

// ReadUnscreened returns the bytes of a file, even of one that is held. They must reach no agent: code that shows a
// message or acts on it uses Read or an Entry.
func ReadUnscreened(w *Workspace, e Entry) (data []byte, err error) {
	dir, err := (folder{w, e.Agent, e.Box}).open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return dir.ReadFile(e.Name, schema.MaxFileSize)
}

// Decoder returns Read for files of a box that the caller has read. It knows what the agent trusts now, and is meant for one
// look at the box.
func (w *Workspace) Decoder(agent schema.AgentName, box Box) func(e Entry, data []byte) (*schema.Message, error) {
	check, path := (folder{w, agent, box}).check(), w.BoxPath(agent, box)
	return func(e Entry, data []byte) (*schema.Message, error) {
		return decode(check, filepath.Join(path, e.Name), data, e.Modified)
	}
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
func (e *Entry) IsHeld() bool { return isHeld(e.Err) }

func isHeld(err error) bool {
	_, held := errors.AsType[*HeldError](err)
	return held
}

// HeldCopies returns the files of a message in the inbox of an agent that are held.
func HeldCopies(ctx context.Context, w *Workspace, id schema.ID, agent schema.AgentName) ([]Entry, error) {
	held, err := w.ListNamed(ctx, agent, Inbox, func(name string) bool { return mayHold(string(id), name) }, func(e *Entry) bool { return e.IsHeld() })
	return slices.DeleteFunc(held, func(e Entry) bool {
		data, _ := ReadUnscreened(w, e)
		m, _ := validate.Decode(data)
		return m == nil || m.ID != id
	}), err
}
