package trust

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// handledName is the folder, below the home, with the messages that agents who enforce have begun or handled. It is
// outside the workspaces, so that who deletes a journal, or copies a file from an archive or another workspace, gives
// no message a second turn. A file <agent>/<digest of the signed bytes> is one handling.
const handledName = "handled"

// reopenedName is a file in the folder of an agent that changes with every message that is reopened.
const reopenedName = "reopened"

type handling struct {
	// Workspace is the path of the workspace.
	Workspace string           `json:"workspace"`
	At        schema.Timestamp `json:"at_utc"`
	// Handled reports whether the message is handled, not only begun.
	Handled bool `json:"handled,omitempty"`
}

func readHandling(file string) (h handling, known bool, err error) {
	data, err := durable.ReadPath(file, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return h, false, nil
	}
	if err == nil && json.Unmarshal(data, &h) != nil {
		h = handling{} // its writer was killed: the message has begun
	}
	return h, err == nil, err
}

// handled says why a verified message in the inbox is not read again, or returns an empty text.
func (p *proof) handled(digest string) string {
	h, known, err := readHandling(filepath.Join(p.home, handledName, string(p.agent), digest))
	at := h.At.Time().Local().Format(time.DateTime)
	switch {
	case err != nil:
		return "whether it was handled before cannot be read: " + err.Error()
	case known && h.Handled:
		return "it was handled before, at " + at
	case known && h.Workspace != "" && h.Workspace != realPath(p.w):
		return fmt.Sprintf("it had a turn in another workspace, %s, at %s", h.Workspace, at)
	}
	return ""
}

// Note implements mailbox.Screen. It keeps nothing of a message that is not verified.
func (p *proof) Note(data []byte, how mailbox.Handling) error {
	r := p.verify(data, false)
	if r.Status != signing.Verified {
		return nil
	}
	if p.home == "" {
		return errNoHome
	}
	folder := filepath.Join(p.home, handledName, string(p.agent))
	content, err := json.Marshal(handling{realPath(p.w), schema.NewTimestamp(time.Now()), how == mailbox.Handled})
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err == nil {
		err = p.keep(folder, r.Digest, append(content, '\n'), how)
	}
	if err != nil {
		return fmt.Errorf("keeping what %s has handled: %w", p.agent, err)
	}
	if reason := p.handled(r.Digest); how == mailbox.Begun && reason != "" { // another process was faster
		return &mailbox.HeldError{Agent: p.agent, Status: signing.Invalid, Reason: reason, Again: true}
	}
	return nil
}

func (p *proof) keep(folder, name string, content []byte, how mailbox.Handling) (err error) {
	dir, err := durable.OpenPath(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	switch how {
	case mailbox.Handled:
		err = dir.Replace(name, content, 0o600)
	case mailbox.Begun:
		if err = durable.AddFile(durable.Disk{}, dir, name, content); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	case mailbox.Reopened:
		if err = dir.Remove(name); err == nil {
			err = dir.Replace(reopenedName, []byte(rand.Text()), 0o600)
		}
	}
	return err
}
