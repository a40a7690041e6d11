package mailbox

import (
	"errors"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// asideMail ends the name of a folder in RemovedFolder in which a sync puts mail for an agent that was removed on another machine,
// and added again.
const asideMail = "mail"

// removedLayout is the time at the end of the name of a folder in RemovedFolder.
const removedLayout = "20060102T150405.000000000Z"

// Aside is the mail that agents had when they were removed.
type Aside struct {
	w *Workspace
	// files are those of its messages, by the minute and the sender in their names. Those with other names come under "".
	files map[string][]asideFile
	// handles is set if an agent may have handled a message by deleting its file.
	handles bool
}

type asideFile struct {
	box  Box
	path string
}

// AsideOf lists the mail of the removed agents that had a name, or of all if it is empty. An agent that has the name now does
// not matter.
func AsideOf(w *Workspace, agent schema.AgentName) (*Aside, error) {
	a := &Aside{w: w, files: make(map[string][]asideFile)}
	folders, err := durable.ListFolder(w.root, w.dir, RemovedFolder)
	err = ignoreMissing(err)
	for _, folder := range folders {
		name, suffix, ok := cutRemoved(folder)
		switch {
		case !ok || agent != "" && name != agent:
		case suffix == asideMail:
			err = errors.Join(err, a.list(path.Join(RemovedFolder, folder), Inbox))
		default:
			a.handles = !IsShared(w)
			for _, box := range schema.Boxes() {
				boxPath := strings.TrimPrefix(schema.BoxPath(name, box), schema.AgentPath(name, ""))
				err = errors.Join(err, a.list(path.Join(RemovedFolder, folder, boxPath), box))
			}
		}
	}
	return a, err
}

// cutRemoved returns the agent that a folder in RemovedFolder had, and the rest of its name: asideMail or the time.
func cutRemoved(folder string) (agent schema.AgentName, suffix string, ok bool) {
	at := max(0, strings.LastIndexByte(folder, '-'))
	agent, suffix = schema.AgentName(folder[:at]), strings.TrimPrefix(folder[at:], "-")
	_, err := time.Parse(removedLayout, suffix)
	return agent, suffix, agent.Valid() && (suffix == asideMail || err == nil)
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
		if f.box == Outbox {
			continue
		}
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

// findRemoved returns the copies of messages that the text may name in the mail of removed agents.
func findRemoved(w *Workspace, id string) (found []restorable, err error) {
	a, err := AsideOf(w, "")
	for _, key := range slices.Sorted(maps.Keys(a.files)) {
		for _, f := range a.files[key] {
			name := path.Base(f.path)
			if !mayHold(id, name) {
				continue
			}
			data, readErr := durable.ReadFile(w.root, w.dir, f.path, schema.MaxFileSize)
			err = errors.Join(err, ignoreMissing(readErr))
			if m, invalid := validate.Read(data); invalid == nil && m.ID.Match(id) == schema.Matches {
				full := filepath.Join(w.dir, filepath.FromSlash(f.path))
				found = append(found, restorable{Entry{Agent: m.From, Box: Outbox, Name: name, Path: full, Message: m}, data, name})
			}
		}
	}
	return found, err
}
