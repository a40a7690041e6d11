package replica

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Hold keeps each box that is read open until the caller calls release: opening a box takes longer than reading a file of it.
func (w *Workspace) Hold() (release func()) {
	w.boxes = make(map[string]*durable.Dir)
	return func() {
		for _, dir := range w.boxes {
			if dir != nil {
				_ = dir.Close() // nothing was written
			}
		}
		w.boxes = nil
	}
}

// held returns a box that Hold keeps open; nil if it does not, or there is no such box.
func (w *Workspace) held(agent schema.AgentName, box mailbox.Box) *durable.Dir {
	path := schema.BoxPath(agent, box)
	dir, opened := w.boxes[path]
	if w.boxes != nil && !opened {
		dir, _ = durable.OpenDir(w.Root(), w.Dir(), path)
		w.boxes[path] = dir
	}
	return dir
}

// ReadFile returns the bytes of a file.
func (w *Workspace) ReadFile(e mailbox.Entry) ([]byte, error) {
	if dir := w.held(e.Agent, e.Box); dir != nil {
		return dir.ReadFile(e.Name, schema.MaxFileSize)
	}
	return mailbox.ReadUnscreened(w.Workspace, e)
}

// exists reports whether a box has a file.
func (w *Workspace) exists(agent schema.AgentName, box mailbox.Box, file string) (bool, error) {
	if dir := w.held(agent, box); dir != nil {
		return dir.Exists(file)
	}
	_, err := w.Root().Lstat(schema.BoxPath(agent, box) + "/" + file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("looking at %s: %w", filepath.Join(w.BoxPath(agent, box), file), at.Err)
	}
	return err == nil, err
}

// find returns the file of a message in a box; its name is empty if there is none.
func (w *Workspace) find(agent schema.AgentName, box mailbox.Box, name string) (mailbox.Entry, error) {
	for _, file := range []string{name, shortName(name)} {
		if file == "" {
			continue
		}
		there, err := w.exists(agent, box, file)
		if err != nil {
			return mailbox.Entry{}, err
		}
		e := mailbox.Entry{Agent: agent, Box: box, Name: file, Path: filepath.Join(w.BoxPath(agent, box), file)}
		if !there {
			continue
		}
		if long, err := mailbox.LongName(w.Workspace, e); err == nil && long == name {
			return e, nil
		}
	}
	return mailbox.Entry{}, nil
}

// Look returns the place of a message and its file, as they are now.
func (w *Workspace) Look(c Copy) (Place, mailbox.Entry, error) {
	boxes := []mailbox.Box{mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters}
	if c.Sent {
		boxes = []mailbox.Box{mailbox.Outbox}
	}
	var failed error
	for _, box := range boxes {
		e, err := w.find(c.Agent, box, c.Name)
		if e.Name != "" && err == nil {
			return PlaceOf(box), e, nil
		}
		failed = cmp.Or(failed, err)
	}
	return Nowhere, mailbox.Entry{}, failed
}

// Read returns the bytes of a message, from the file of the copy or the one in the outbox.
func (w *Workspace) Read(c Copy) ([]byte, error) {
	for _, at := range []Copy{c, {Sender(c.Name), c.Name, true}} {
		if place, e, err := w.Look(at); err != nil {
			return nil, err
		} else if place != Nowhere {
			return w.ReadFile(e)
		}
	}
	return nil, fs.ErrNotExist
}
