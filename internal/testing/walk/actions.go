package walk

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

// A letter is a message, and what happened to it at some time on some machine.
type letter struct {
	*mailbox.Receipt
	name, data string
	// pruned says that its bytes may be gone, from the outbox, too.
	pruned bool
	to     map[schema.AgentName]*fate
}

// A fate is what happened to a message for one recipient.
type fate struct {
	// ended says that it was handled, given up or removed with its agent, and by that another program did so. noticed says
	// that the recipient was shown the message somewhere.
	ended, byOther, recalled, noticed, removed bool
	// unnoted says that it was restored in a workspace that is not shared, or whose state was removed.
	unnoted bool
	// restores are those that nobody has ended who had seen them.
	restores map[facts.ID]bool
}

// ends notes that somebody who had seen these restores ended the message.
func (f *fate) ends(seen []facts.ID) {
	for _, id := range seen {
		delete(f.restores, id)
	}
}

// act does something on a machine.
func (w *walk) act(m *Machine) {
	switch x := w.IntN(100); {
	case x < 30:
		w.syncs(m)
	case x < 47:
		w.sends(m)
	case x < 66:
		w.handles(m)
	case x < 71:
		w.restores(m)
	case x < 75:
		w.recalls(m)
	case x < 80:
		w.notices(m)
	case x < 84 && w.Removed:
		w.removes(m)
	case x < 87 && w.OldCopies:
		w.putsBackOldFiles(m)
	case x < 91 && w.Rewound && w.busy == nil:
		w.note("the carrier is %s", w.carrier.Rewind(w.Rand, m))
	case x < 91 && w.Rewound:
		w.note("the carrier is %s", w.carrier.Rewind(w.Rand, nil))
	case x < 92 && w.LostBase && w.busy == nil:
		w.note("%s loses its base", m.Name)
		w.carrier.LoseBase(m)
	case x < 95 && w.Pruned && w.busy == nil:
		w.prunes(m)
	case x == 95 && w.Reborn && w.busy == nil:
		w.removesAgent(m)
	case x == 96:
		w.copies(m)
	}
}

func (w *walk) sends(m *Machine) *letter {
	order := w.Perm(len(w.agents))
	to := []schema.AgentName{w.agents[order[1]], w.agents[order[2]]}[:1+w.IntN(2)]
	r, err := m.Send(w.t.Context(), schema.Message{
		From: w.agents[order[0]], To: to, Type: schema.Notification, Subject: "Look at #42", Body: schema.TextValue("The build is red.\n"),
	}, nil)
	if err != nil {
		w.note("%s sends nothing: %v", m.Name, err) // a box is renamed away
		return nil
	}
	data, readErr := os.ReadFile(r.Outbox)
	name, nameErr := r.Message.LongFileName()
	if err := errors.Join(readErr, nameErr); err != nil {
		w.t.Fatal(err)
	}
	l := &letter{r, name, string(data), false, make(map[schema.AgentName]*fate)}
	for _, to := range r.Message.To {
		l.to[to] = &fate{restores: make(map[facts.ID]bool)}
	}
	w.letters[name] = l
	w.note("%s sends %s to %v", m.Name, l.name, to)
	return l
}

// pending chooses a message that is pending on a machine.
func (w *walk) pending(m *Machine) (e mailbox.Entry, c replica.Copy, f *fate) {
	agent := w.agents[w.IntN(len(w.agents))]
	entries, _ := m.Inbox(w.t.Context(), agent)
	if len(entries) == 0 {
		return e, c, nil
	}
	e = entries[w.IntN(len(entries))]
	name, err := mailbox.LongName(m.Workspace, e)
	if err != nil || w.letters[name] == nil {
		w.t.Errorf("%s: %s is not a message that was sent: %v", m.Name, e.Path, err)
		return e, c, nil
	}
	return e, replica.Copy{Agent: agent, Name: name}, w.letters[name].to[agent]
}

// restoresOf returns the restores of a message that a machine knows.
func (w *walk) restoresOf(m *Machine, c replica.Copy) []facts.ID {
	marks, _, err := mailbox.Marks(m.Workspace, c.Agent, true)
	if err != nil {
		w.t.Error(err)
	}
	return marks[c.Name].Facts.Restores()
}

// handles acknowledges a message or gives one up; sometimes another program does so, and sometimes the one that does is killed
// before it moves the file.
func (w *walk) handles(m *Machine) {
	e, c, f := w.pending(m)
	if f == nil {
		return
	}
	f.ended = true
	if len(f.restores) > 0 {
		f.ends(append(w.restoresOf(m, c), w.carrier.Known(m, []replica.Copy{c})[c].Restores()...))
	}
	isDead := w.IntN(4) == 0
	var err error
	switch {
	case w.Others && w.IntN(3) == 0:
		f.byOther = true
		to := map[bool]mailbox.Box{false: mailbox.Archive, true: mailbox.DeadLetters}[isDead]
		w.note("%s: another program moves %s of %s to %s", m.Name, c.Name, c.Agent, to)
		_, err = m.Move(e, to)
	case w.IntN(8) == 0 && mailbox.IsShared(m.Workspace):
		w.note("%s: %s acknowledges %s, and is killed", m.Name, c.Agent, c.Name)
		marks, _, _ := mailbox.Marks(m.Workspace, c.Agent, true)
		_, err = mailbox.AddMarks(m.Workspace, c.Agent, map[string]facts.Mark{c.Name: {Facts: marks[c.Name].Facts.Join(facts.Known).Add(facts.WasHandled)}})
	case isDead:
		w.note("%s: %s gives %s up", m.Name, c.Agent, c.Name)
		_, err = m.DeadLetter(e, mailbox.DeadLetterReason{Reason: "it cannot be done on " + m.Name})
	default:
		w.note("%s: %s acknowledges %s", m.Name, c.Agent, c.Name)
		err = m.Acknowledge(e)
	}
	if err != nil {
		w.t.Errorf("%s: %s cannot be handled: %v", m.Name, e.Path, err)
	}
}

func (w *walk) recalls(m *Machine) {
	_, c, f := w.pending(m)
	if f == nil || m.Noticed(c) {
		return
	}
	w.note("%s recalls %s of %s", m.Name, c.Name, c.Agent)
	f.recalled = true
	f.ends(w.restoresOf(m, c))
	if err := mailbox.Recall(w.t.Context(), m.Workspace, w.letters[c.Name].Message, c.Agent); err != nil {
		w.t.Errorf("%s: recalling %s: %v", m.Name, c, err)
	}
}

// notices shows a message to its recipient.
func (w *walk) notices(m *Machine) {
	if _, c, f := w.pending(m); f != nil {
		w.note("%s: %s notices %s", m.Name, c.Agent, c.Name)
		m.noticed[c], f.noticed = true, true
	}
}

func (w *walk) restores(m *Machine) {
	names := w.letterNames()
	l := w.letters[names[w.IntN(len(names))]]
	c := replica.Copy{Agent: l.Message.To[0], Name: l.name}
	before := w.restoresOf(m, c)
	_, err := m.Restore(w.t.Context(), l.Message, c.Agent, func(mailbox.Entry) error { return nil })
	if err == nil && !mailbox.IsShared(m.Workspace) { // its files say all
		l.to[c.Agent].unnoted = true
	}
	for _, id := range w.restoresOf(m, c) {
		if !slices.Contains(before, id) {
			l.to[c.Agent].restores[id] = true
			w.note("%s restores %s of %s: %v, %v", m.Name, l.name, c.Agent, id, err)
		}
	}
}

// removesAgent removes an agent, and adds it again, now or after a sync.
func (w *walk) removesAgent(m *Machine) {
	agent := w.agents[w.IntN(len(w.agents))]
	if !mailbox.IsShared(m.Workspace) {
		return
	}
	w.sync(m) // its archive and its outbox go, too
	w.note("%s removes %s", m.Name, agent)
	entries, err := m.Inbox(w.t.Context(), agent)
	for _, e := range entries {
		if name, err := mailbox.LongName(m.Workspace, e); err == nil {
			f := w.letters[name].to[agent]
			f.ended, f.removed = true, true
			f.ends(w.restoresOf(m, replica.Copy{Agent: agent, Name: name}))
		}
	}
	err = errors.Join(err, mailbox.RemoveAgent(w.t.Context(), m.Workspace, agent))
	if w.IntN(2) == 0 {
		for _, l := range w.letters { // no machine keeps what the agent sent, and what was handled
			l.pruned = l.pruned || l.Message.From == agent || l.to[agent] != nil
		}
		w.sync(m)
	}
	w.note("%s adds %s", m.Name, agent)
	_, addErr := project.AddAgent(m.Workspace, agent, project.AgentOptions{})
	if err = errors.Join(err, addErr); err != nil {
		w.t.Error(err)
	}
}

// putsBackOldFiles copies a box, or writes an old copy of its files over it.
func (w *walk) putsBackOldFiles(m *Machine) {
	agent := w.agents[w.IntN(len(w.agents))]
	box := m.BoxPath(agent, []mailbox.Box{mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters}[w.IntN(3)])
	if m.old[box] == nil {
		files := make(map[string]string)
		found, _ := os.ReadDir(box)
		for _, file := range found {
			if data, err := os.ReadFile(filepath.Join(box, file.Name())); err == nil {
				files[file.Name()] = string(data)
			}
		}
		m.old[box] = files
		return
	}
	w.note("%s gets old copies of %d files in %s", m.Name, len(m.old[box]), box)
	for name, data := range m.old[box] {
		// The tool that puts a backup back knows nothing of the other boxes: there may be two files of a message now.
		_ = os.MkdirAll(box, 0o755)
		if err := os.WriteFile(filepath.Join(box, name), []byte(data), 0o644); err != nil {
			w.t.Error(err)
		}
	}
	delete(m.old, box)
}

func (w *walk) letterNames() []string { return slices.Sorted(maps.Keys(w.letters)) }

// removes removes files or folders of a machine that has just synced.
func (w *walk) removes(m *Machine) {
	if w.busy != nil {
		return
	}
	w.sync(m)
	path := w.box(m)
	if w.IntN(2) == 0 {
		w.note("%s is removed", path)
		w.remove(path)
		return
	}
	files, _ := os.ReadDir(path)
	for _, file := range files {
		if schema.IsMessageFile(file.Name()) && w.IntN(2) == 0 {
			w.note("%s is removed from %s", file.Name(), path)
			w.remove(filepath.Join(path, file.Name()))
		}
	}
}

// prunes removes the bytes of some messages from the carrier, and their files here.
func (w *walk) prunes(m *Machine) {
	w.sync(m)
	old, err := m.Prunable(w.t.Context(), time.Now().Add(time.Hour))
	if err != nil {
		w.note("%s prunes nothing: %v", m.Name, err)
		return
	}
	salt := fmt.Sprint(w.IntN(1000))
	may := func(name string) bool {
		hash := fnv.New32a()
		fmt.Fprint(hash, name, salt)
		return hash.Sum32()%3 == 0 && old(name)
	}
	w.note("%s prunes", m.Name)
	if err := w.carrier.Prune(m, may); err != nil {
		w.t.Errorf("%s: pruning: %v", m.Name, err)
	}
	var copies []replica.Copy
	for name, l := range w.letters {
		for agent := range l.to {
			copies = append(copies, replica.Copy{Agent: agent, Name: name})
		}
	}
	known, isPending := w.carrier.Known(m, copies), make(map[string]bool)
	for c, s := range known {
		isPending[c.Name] = isPending[c.Name] || s.Place() == replica.Pending
	}
	for name, l := range w.letters {
		if (may(name) || may(filepath.Base(l.Outbox))) && !isPending[name] && !l.pruned {
			w.note("%s is pruned", name)
			l.pruned = true
		}
	}
	mayNow := func(name string) bool { return may(name) && !isPending[name] }
	if _, err := m.Prune(w.t.Context(), mayNow, false); err != nil {
		w.t.Error(err)
	}
}
