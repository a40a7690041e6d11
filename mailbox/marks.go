package mailbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// MarksFolder holds what a workspace that other machines share has noted of the mail of each agent, in files of lines; see
// facts.FormatMarks. A plain workspace has no such folder, because its files say all. Marks with facts
// that last are in a folder of their own, so that a verb that ends a message reads only these.
const (
	MarksFolder  = schema.StateName + "/facts"
	sharedName   = MarksFolder + "/.shared"
	lastingMarks = "restored"
	unsentFolder = schema.StateName + "/unsent"
	mostMarks    = 64 << 20 // bytes in a file
)

// IsShared reports whether other machines share the workspace: then everything that happens to a message is noted before its
// file moves.
func IsShared(w *Workspace) bool {
	_, err := w.root.Lstat(sharedName)
	return err == nil
}

// Deleting reports whether a program may have handled a message by deleting its file from the inbox of an agent: nothing else
// accounts for a file that is missing from an inbox that is there, unless other machines share the workspace.
func Deleting(w *Workspace, agent schema.AgentName) bool {
	_, err := durable.StatFolder(w.root, w.dir, schema.BoxPath(agent, Inbox))
	return err == nil && !IsShared(w)
}

// Share makes a workspace note what happens to messages. The marks are those with which it begins.
func Share(w *Workspace, marks map[schema.AgentName]map[string]facts.Mark) error {
	if err := w.MakeStateFolder(MarksFolder); err != nil {
		return err
	}
	for agent, some := range marks {
		if _, err := AddMarks(w, agent, some); err != nil {
			return err
		}
	}
	_, err := w.AddFile(sharedName, nil)
	return err
}

// LongName returns the name that the file of a message has on all machines. Messages that were sent before the workspace was
// shared can have short names, which are unique only in their workspace.
func LongName(w *Workspace, e Entry) (string, error) {
	parsed, err := schema.ParseFileName(e.Name)
	if err != nil || parsed.Rand != "" {
		return e.Name, err
	}
	if e.Message != nil {
		return e.Message.LongFileName()
	}
	data, err := ReadUnscreened(w, e)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("it is gone")
	}
	if err != nil {
		return "", err
	}
	m, _ := validate.Decode(data)
	if m == nil {
		return "", errors.New("its name has no random part")
	}
	return m.LongFileName()
}

// Marks returns what is noted of the mail of an agent, by the long names of messages, and the files that say it. With
// lasting, it returns only facts that last.
func Marks(w *Workspace, agent schema.AgentName, lasting bool) (marks map[string]facts.Mark, files []string, err error) {
	marks = make(map[string]facts.Mark)
	top := MarksFolder + "/" + string(agent)
	folders := []string{top + "/" + lastingMarks}
	if !lasting {
		folders = append(folders, top)
	}
	for _, folder := range folders {
		names, listErr := durable.ListFolder(w.root, w.dir, folder)
		err = errors.Join(err, ignoreMissing(listErr))
		for _, name := range names {
			if len(name) != 2*markNameBytes {
				continue // a folder, or a file that is being written
			}
			data, readErr := durable.ReadFile(w.root, w.dir, folder+"/"+name, mostMarks)
			if err = errors.Join(err, ignoreMissing(readErr)); readErr == nil {
				facts.ParseMarks(string(data), marks)
				files = append(files, folder+"/"+name)
			}
		}
	}
	return marks, files, err
}

const markNameBytes = 10

// KeptRecalls returns the long names of the messages that an agent kept although their sender took them back, because it had been
// shown them.
func KeptRecalls(w *Workspace, agent schema.AgentName) (names map[string]bool, err error) {
	if !IsShared(w) {
		return nil, nil
	}
	marks, _, err := Marks(w, agent, true)
	maps.DeleteFunc(marks, func(_ string, m facts.Mark) bool { return !m.Facts.Has(facts.Kept) || !m.Facts.Has(facts.WasRecalled) })
	names = make(map[string]bool, len(marks))
	for name := range marks {
		names[name] = true
	}
	return names, err
}

// AddMarks durably adds marks of the mail of an agent, in files whose names are hashes of what they hold.
func AddMarks(w *Workspace, agent schema.AgentName, marks map[string]facts.Mark) (files []string, err error) {
	top := MarksFolder + "/" + string(agent)
	folders := map[string]map[string]facts.Mark{top: {}, top + "/" + lastingMarks: {}}
	for name, m := range marks {
		folder := top
		if m.Facts.Lasts() {
			folder += "/" + lastingMarks
		}
		folders[folder][name] = m
	}
	for folder, some := range folders {
		if len(some) == 0 {
			continue
		}
		if err := w.MakeStateFolder(folder); err != nil {
			return files, err
		}
		text := []byte(facts.FormatMarks(some))
		sum := sha256.Sum256(text)
		file := folder + "/" + hex.EncodeToString(sum[:markNameBytes])
		if _, err := w.AddFile(file, text); err != nil {
			return files, fmt.Errorf("noting what happens to mail of %s: %w", agent, err)
		}
		files = append(files, file)
	}
	return files, nil
}

// noteEnd notes, in a shared workspace, that messages end. The caller moves their files afterwards.
func noteEnd(w *Workspace, agent schema.AgentName, kind facts.Kind, entries ...Entry) error {
	if !IsShared(w) {
		return nil
	}
	var names []string
	for _, e := range entries {
		name, err := LongName(w, e)
		if _, gone := w.root.Lstat(schema.BoxPath(agent, e.Box) + "/" + e.Name); gone == nil && err == nil { // others do not travel
			names = append(names, name)
		}
	}
	return noteEnds(w, agent, kind, names)
}

// noteEnds is noteEnd for the long names of messages.
func noteEnds(w *Workspace, agent schema.AgentName, kind facts.Kind, names []string) error {
	if len(names) == 0 || !IsShared(w) {
		return nil
	}
	known, _, err := Marks(w, agent, true)
	if err != nil {
		return err
	}
	marks := make(map[string]facts.Mark, len(names))
	for _, name := range names {
		marks[name] = facts.Mark{Facts: known[name].Facts.Join(facts.Known).Add(kind)}
	}
	_, err = AddMarks(w, agent, marks)
	return err
}

// noteRestore notes, in a shared workspace, that a message is put back. The caller moves its file and calls placed.
func noteRestore(w *Workspace, agent schema.AgentName, e Entry) (placed func() error, err error) {
	placed = func() error { return nil }
	name, nameErr := LongName(w, e)
	if !IsShared(w) || nameErr != nil {
		return placed, nil
	}
	known, _, err := Marks(w, agent, true)
	if err != nil {
		return placed, err
	}
	m := facts.Mark{Facts: known[name].Facts.Restore(facts.NewID())}
	_, err = AddMarks(w, agent, map[string]facts.Mark{name: m})
	return func() error {
		m.Placed = facts.Pending
		_, err := AddMarks(w, agent, map[string]facts.Mark{name: m})
		return err
	}, err
}

// noteUnsent notes, in a workspace that syncs with a remote, that nothing has carried a new message yet. Other workspaces have no
// folder for the note. It is a hint: it is not synced, and without it, nobody says that the message is not sent.
func noteUnsent(w *Workspace, name string) {
	if file, err := w.root.Create(path.Join(unsentFolder, name)); err == nil {
		_ = file.Close()
	}
}

// Unsent returns the names of the sent messages that nothing has carried to other machines yet.
func Unsent(w *Workspace) ([]string, error) {
	names, err := durable.ListFolder(w.root, w.dir, unsentFolder)
	return names, ignoreMissing(err)
}

// IsUnsent reports whether nothing has carried a message to other machines yet.
func IsUnsent(w *Workspace, e Entry) bool {
	name, err := LongName(w, e)
	if err != nil {
		return false
	}
	_, err = w.root.Lstat(path.Join(unsentFolder, name))
	return err == nil
}

// MayBeElsewhere reports whether other machines may have a message: a sync with a remote may have carried it.
func MayBeElsewhere(w *Workspace, m *schema.Message) bool {
	_, err := w.root.Lstat(unsentFolder)
	return err == nil && !IsUnsent(w, Entry{Name: m.FileName(), Message: m})
}

// Carried forgets that messages were unsent. From then on, new ones are noted.
func Carried(w *Workspace, names []string) (err error) {
	if err := w.MakeStateFolder(unsentFolder); err != nil {
		return err
	}
	for _, name := range names {
		err = errors.Join(err, ignoreMissing(w.root.Remove(path.Join(unsentFolder, name))))
	}
	return err
}
