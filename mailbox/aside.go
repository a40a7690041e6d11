package mailbox

import (
	"errors"
	"path"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// asideMail ends the name of a folder in RemovedFolder in which a sync puts mail for an agent that was removed on another machine,
// and added again.
const asideMail = "mail"

// Aside is the mail that an agent had when it was removed.
type Aside struct {
	w *Workspace
	// files are those of its messages, by the minute and the sender in their names. Those with other names come under "".
	files map[string][]asideFile
	// handles is set if the agent may have handled a message by deleting its file.
	handles bool
}

type asideFile struct {
	box  Box
	path string
}

// AsideOf lists the mail of the removed agents that had a name. An agent that has the name now does not matter.
func AsideOf(w *Workspace, agent schema.AgentName) (*Aside, error) {
	a := &Aside{w: w, files: make(map[string][]asideFile)}
	folders, err := durable.ListFolder(w.root, w.dir, RemovedFolder)
	err = ignoreMissing(err)
	for _, folder := range folders {
		suffix, isIts := strings.CutPrefix(folder, string(agent)+"-")
		_, stampErr := time.Parse(removedLayout, suffix)
		switch {
		case isIts && suffix == asideMail:
			err = errors.Join(err, a.list(path.Join(RemovedFolder, folder), Inbox))
		case isIts && stampErr == nil:
			a.handles = !IsShared(w)
			for _, box := range []Box{Archive, DeadLetters, Inbox} {
				boxPath := strings.TrimPrefix(schema.BoxPath(agent, box), schema.AgentPath(agent, ""))
				err = errors.Join(err, a.list(path.Join(RemovedFolder, folder, boxPath), box))
			}
		}
	}
	return a, err
}

func (a *Aside) list(folder string, box Box) error {
	names, err := durable.ListFolder(a.w.root, a.w.dir, folder)
	for _, name := range names {
		if schema.IsMessageFile(name) {
			key := ""
			if parsed, err := schema.ParseFileName(name); err == nil {
				key = asideKey(parsed.At, parsed.From)
			}
			a.files[key] = append(a.files[key], asideFile{box, path.Join(folder, name)})
		}
	}
	return ignoreMissing(err)
}

func asideKey(at time.Time, from schema.AgentName) string {
	return at.UTC().Format("20060102T1504Z_") + string(from)
}

// Find returns the box that a message was in, and the reason if it was a dead letter. If it was in none, the box is empty, or
// Archive if the agent may have handled the message by deleting its file.
func (a *Aside) Find(id schema.ID) (box Box, reason DeadLetterReason, err error) {
	candidates := a.files[""]
	if parts, err := schema.ParseID(id); err == nil {
		candidates = append(a.files[asideKey(parts.At, parts.Sender)], candidates...)
	}
	for _, f := range candidates {
		data, readErr := durable.ReadFile(a.w.root, a.w.dir, f.path, schema.MaxFileSize)
		m, _ := validate.Decode(data)
		switch {
		case readErr != nil:
			err = errors.Join(err, ignoreMissing(readErr))
		case m == nil || m.ID != id:
		case f.box == DeadLetters:
			data, err := durable.ReadFile(a.w.root, a.w.dir, f.path+ReasonSuffix, schema.MaxFileSize)
			if err == nil {
				reason, err = decodeReason(a.w, data)
			}
			return f.box, reason, ignoreMissing(err)
		default:
			return f.box, reason, nil
		}
	}
	if a.handles {
		box = Archive
	}
	return box, reason, err
}
