package walk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/replica"
)

// boxes are those of a recipient.
var boxes = []mailbox.Box{mailbox.Inbox, mailbox.DeadLetters, mailbox.Archive}

// check checks what a machine has after all have synced: what it agreed on with the others, and what happened.
func (w *walk) check(m *Machine) {
	held, sent := w.files(m)
	var copies []replica.Copy
	for name, l := range w.letters {
		for to := range l.to {
			copies = append(copies, replica.Copy{Agent: to, Name: name})
		}
	}
	known := w.carrier.Known(m, copies)
	for _, name := range w.letterNames() {
		l := w.letters[name]
		if sent[name] != l.data && !(l.pruned && sent[name] == "") {
			w.t.Errorf("%s: the outbox holds %q as %s", m.Name, sent[name], name)
		}
		for to, f := range l.to {
			c := replica.Copy{Agent: to, Name: name}
			place, at := w.checkFiles(m, l, c, f, held[c]), known[c]
			agreed, again := at.Place(), len(f.restores) > 0
			fail := func(what string) {
				w.t.Errorf("%s: %s: %s for %s: its file is %v, and the machines agree on %v, %s", m.Name, what, name, to, place, agreed, at)
			}
			switch {
			case place != agreed && agreed != replica.Removed && !(place == replica.Nowhere && l.pruned):
				fail("machines differ")
			case agreed == replica.Nowhere:
				fail("lost")
			case agreed == replica.Handled && !f.ended, agreed == replica.Dead && !f.ended && !f.recalled, agreed == replica.Removed && !f.removed:
				fail("ended by nobody")
			case agreed == replica.Pending && f.ended && !again && !f.recalled && !f.unnoted && w.limit(f) == "":
				fail("pending again")
			case agreed != replica.Pending && again && !f.recalled && w.limit(f) == "":
				fail("restore annulled")
			case agreed == replica.Pending && f.recalled && !f.noticed && !f.ended && !again:
				fail("recall undone")
			}
		}
	}
	staged, err := os.ReadDir(filepath.Join(m.Dir(), "state", "outgoing"))
	if len(staged) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Errorf("%s: %v are staged, %v", m.Name, staged, err)
	}
}

// files returns the messages in the boxes of recipients, and those in the outboxes with their bytes.
func (w *walk) files(m *Machine) (held map[replica.Copy][]mailbox.Entry, sent map[string]string) {
	held, sent = make(map[replica.Copy][]mailbox.Entry), make(map[string]string)
	for _, agent := range w.agents {
		for path, err := range (&replica.Workspace{Workspace: m.Workspace}).Scan(agent, nil).Problems {
			w.t.Errorf("%s: %s: %v", m.Name, path, err)
		}
		for _, box := range append(boxes, mailbox.Outbox) {
			entries, err := m.List(w.t.Context(), agent, box)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				w.t.Errorf("%s: %v", m.Name, err)
			}
			for _, e := range entries {
				name, err := mailbox.LongName(m.Workspace, e)
				if w.letters[name] == nil {
					w.t.Errorf("%s: %s is a file of %s, which nobody sent: %v", m.Name, e.Path, name, err)
				}
				if box == mailbox.Outbox {
					sent[name] += w.read(e)
				} else {
					c := replica.Copy{Agent: agent, Name: name}
					held[c] = append(held[c], e)
				}
			}
		}
	}
	return held, sent
}

func (w *walk) read(e mailbox.Entry) string {
	data, err := os.ReadFile(e.Path)
	if err != nil {
		w.t.Error(err)
	}
	return string(data)
}

// checkFiles checks that a message has at most one file, whose bytes are those that were sent, and a reason as a dead letter. It
// returns the place of the file.
func (w *walk) checkFiles(m *Machine, l *letter, c replica.Copy, f *fate, files []mailbox.Entry) replica.Place {
	if len(files) == 0 {
		return replica.Nowhere
	}
	e := files[0]
	if len(files) > 1 {
		w.t.Errorf("%s: %s and %s are files of one message", m.Name, e.Path, files[1].Path)
	}
	if data := w.read(e); data != l.data {
		w.t.Errorf("%s: %s is not what was sent: %q", m.Name, e.Path, data)
	}
	place := replica.PlaceOf(e.Box)
	if _, err := os.Stat(e.Path + mailbox.ReasonSuffix); (err == nil) != (place == replica.Dead) && !f.byOther && !l.pruned && !w.OldCopies {
		w.t.Errorf("%s: %s is %v, and its reason: %v", m.Name, e.Path, place, err)
	}
	return place
}

// limit returns the limit of docs/git.md that a message may have met; empty if there is none.
func (w *walk) limit(f *fate) string {
	switch {
	case f.byOther && (w.Removed || w.OldCopies):
		return "an end by a program that notes nothing, whose file was removed or overwritten before the next sync"
	case f.byOther:
		return "an end by a program that notes nothing, after a kill between a move and its note"
	case w.OldCopies:
		return "an older copy of the archive over a restored message"
	case w.Removed:
		return "restores, and ends of restored messages, that were not synced when state was removed"
	}
	return ""
}
