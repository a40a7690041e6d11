package trust

import (
	"context"
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
// no message a turn that it would not have had. A file <agent>/<digest of the signed bytes> is one handling.
const handledName = "handled"

// The other files in the folder of an agent: one changes with every message that is reopened.
const (
	reopenedName = "reopened"
	handledLock  = "lock"
)

type handling struct {
	// Workspace is the path of the workspace.
	Workspace string           `json:"workspace"`
	At        schema.Timestamp `json:"at_utc"`
	// Turns counts the turns that began and were not interrupted.
	Turns int `json:"turns,omitempty"`
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
func (p *proof) Note(data []byte, how mailbox.Handling) (turns int, err error) {
	r := p.verify(data, false)
	if r.Status != signing.Verified {
		return 0, nil
	}
	if p.home == "" {
		return 0, errNoHome
	}
	folder := filepath.Join(p.home, handledName, string(p.agent))
	var dir *durable.Dir
	if err = os.MkdirAll(folder, 0o700); err == nil {
		dir, err = durable.OpenPath(folder)
	}
	if err == nil {
		err = dir.Locked(context.Background(), handledLock, func() (err error) {
			turns, err = p.keep(dir, r.Digest, how)
			return err
		})
		err = errors.Join(err, dir.Close())
	}
	if _, held := errors.AsType[*mailbox.HeldError](err); err != nil && !held {
		err = fmt.Errorf("keeping what %s has handled: %w", p.agent, err)
	}
	return turns, err
}

// keep changes the file of a handling, under the lock of its folder.
func (p *proof) keep(dir *durable.Dir, digest string, how mailbox.Handling) (turns int, err error) {
	if how == mailbox.Reopened {
		if err = dir.Remove(digest); err == nil {
			err = dir.Replace(reopenedName, []byte(rand.Text()), 0o600)
		}
		return 0, err
	}
	h, _, err := readHandling(dir.Path(digest))
	if err != nil {
		return 0, err
	}
	switch how {
	case mailbox.Handled:
		h.Handled = true
	case mailbox.Begun:
		if reason := p.handled(digest); reason != "" { // another process was faster
			return 0, &mailbox.HeldError{Agent: p.agent, Status: signing.Invalid, Reason: reason, Again: true}
		}
		h.Turns++
	case mailbox.Interrupted:
		h.Turns = max(h.Turns-1, 0)
	}
	h.Workspace, h.At = realPath(p.w), schema.NewTimestamp(time.Now())
	content, err := json.Marshal(h)
	if err == nil {
		err = dir.Replace(digest, append(content, '\n'), 0o600)
	}
	return h.Turns, err
}
