package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

const (
	// watchChunk is how many files of a mailbox are looked at before what
	// they hold is reported, which bounds the memory that a full inbox takes.
	watchChunk = 256
	// rescanFilesEvery is how often each file is compared, not only the
	// folder: a file that is overwritten leaves its folder as it was.
	rescanFilesEvery = time.Minute
	// coarsestClock is the coarsest time that a file system in use notes for
	// a folder. A folder that changed later than that before it was listed
	// may have changed after it unnoticed.
	coarsestClock = 2500 * time.Millisecond
)

// rescan says how much of an inbox is to be compared with what is known.
type rescan int

const (
	rescanNothing rescan = iota
	rescanNames
	rescanFiles
)

// watched is an inbox that is watched.
type watched struct {
	workspace *Workspace
	agent     schema.AgentName
	project   string
	// cursor is nil where none is kept.
	cursor *cursor
	tracker

	// rescan is what is due, and todo what is left of the last one.
	rescan rescan
	todo   []string
	// hinted are files of which something was heard.
	hinted map[string]bool
	// folder is the inbox as it was when it was listed, nil if it was not
	// there. Nothing can have changed in it unnoticed if it is sure.
	folder     fs.FileInfo
	sure       bool
	comparedAt time.Time
	// attached says that changes are notified; chain are the folders whose
	// notifications that takes.
	attached bool
	chain    []string
	// failure is the error that was reported last and still lasts.
	failure string
}

func (t *watched) is(target WatchTarget) bool {
	return t.agent == target.Agent && t.workspace.dir == target.Workspace.dir
}

func (t *watched) inbox() string { return t.workspace.BoxPath(t.agent, Inbox) }

// open checks the target and takes its cursor.
func (t *watched) open(ctx context.Context, options *WatchOptions) error {
	if err := t.workspace.CheckAgent(t.agent); err != nil {
		return err
	}
	if !options.Cursor {
		return nil
	}
	var err error
	t.cursor, err = openCursor(ctx, t, options.StateID)
	if err != nil {
		return fmt.Errorf("watching %s: %w", t.inbox(), err)
	}
	for name, seen := range t.cursor.file.Messages {
		t.messages[name] = seen
	}
	for name, version := range t.cursor.file.Unreadable {
		t.bad[name] = version
	}
	return nil
}

// closeCursor lets go of the cursor, saved or not.
func (t *watched) closeCursor() error {
	if t.cursor == nil {
		return nil
	}
	err := t.cursor.lock.Unlock()
	t.cursor = nil
	return err
}

// problem is a change that reports an error about no single file.
func (t *watched) problem(kind EventKind, err error) change {
	return change{kind: kind, entry: Entry{Agent: t.agent, Box: Inbox, Path: t.inbox(), Err: err}}
}

// out writes down that a change is out.
func (t *watched) out(c change) {
	if t.cursor != nil && c.entry.Name != "" {
		t.cursor.apply(c)
	}
}

// hint notes that something was heard of a file.
func (t *watched) hint(name string) {
	if !schema.IsMessageFile(name) {
		return
	}
	if t.hinted == nil {
		t.hinted = make(map[string]bool)
	}
	t.hinted[name] = true
}

// busy reports whether there is something to look at right now.
func (t *watched) busy() bool {
	return t.rescan != rescanNothing || len(t.todo) > 0 || len(t.hinted) > 0
}

// seed makes the messages that were last written at the time or earlier count
// as reported, unless there is a cursor that knows better.
func (t *watched) seed(ctx context.Context, since time.Time) error {
	if t.cursor != nil && !t.cursor.fresh {
		return nil
	}
	old, err := t.olderThan(ctx, since)
	if ctx.Err() != nil {
		return err
	}
	for _, seen := range old {
		t.out(t.become(seen.File, change{message: &seen}))
	}
	if t.cursor != nil {
		t.cursor.fresh, t.cursor.dirty = false, true
	}
	return err
}

// olderThan returns the messages that were last written at the time or
// earlier.
func (t *watched) olderThan(ctx context.Context, since time.Time) (old []seenMessage, err error) {
	if !since.After(time.Unix(0, 0)) {
		return nil, nil
	}
	dir, err := t.workspace.openBox(t.agent, Inbox)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	names, err := dir.Names()
	names = slices.DeleteFunc(names, func(name string) bool { return !schema.IsMessageFile(name) })
	for chunk := range slices.Chunk(names, watchChunk) {
		looks, err := t.lookAll(ctx, dir, chunk)
		if err != nil {
			return nil, err
		}
		for i, l := range looks {
			if l.state == fileMessage && !l.version.Modified.After(since) {
				old = append(old, newSeenMessage(chunk[i], l.entry.Message, l.version))
			}
		}
	}
	return old, err
}

// look looks at the files that something was heard of, those that did not
// stand still, and some of those that a rescan brought up.
func (t *watched) look(ctx context.Context) (changes []change, err error) {
	names := t.due(time.Now())
	for name := range t.hinted {
		names = append(names, name)
	}
	if len(names) == 0 && !t.busy() {
		return nil, nil
	}
	dir, err := t.workspace.openBox(t.agent, Inbox)
	if errors.Is(err, fs.ErrNotExist) {
		return t.lookAtNothing(names, err)
	}
	if err != nil {
		t.giveUp()
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if t.rescan != rescanNothing {
		if err := t.list(dir); err != nil {
			t.giveUp()
			return nil, err
		}
	}
	taken := min(watchChunk, len(t.todo))
	names, t.todo = append(names, t.todo[:taken]...), t.todo[taken:]
	slices.Sort(names)
	names = slices.Compact(names)
	looks, err := t.lookAll(ctx, dir, names)
	if err != nil {
		return nil, err
	}
	clear(t.hinted)
	now := time.Now()
	for i, l := range looks {
		changes = append(changes, t.observe(names[i], l, now)...)
	}
	return changes, nil
}

// giveUp puts off what is due until the next tick finds the inbox changed: it
// cannot be looked into now.
func (t *watched) giveUp() {
	t.rescan, t.todo, t.folder, t.sure = rescanNothing, nil, nil, false
	t.comparedAt = time.Time{}
	clear(t.hinted)
	clear(t.settling)
}

// lookAtNothing is look without an inbox: every file in it has gone. Where
// the agent's whole mailbox is missing, nothing is concluded: a file system
// may not be mounted, a checkout half done.
func (t *watched) lookAtNothing(names []string, missing error) ([]change, error) {
	if !t.workspace.Knows(t.agent) {
		t.giveUp()
		return nil, missing
	}
	if t.rescan != rescanNothing {
		for name := range t.messages {
			names = append(names, name)
		}
		for name := range t.bad {
			names = append(names, name)
		}
	}
	t.rescan, t.todo, t.folder, t.comparedAt = rescanNothing, nil, nil, time.Time{}
	clear(t.hinted)
	slices.Sort(names)
	var changes []change
	for _, name := range slices.Compact(names) {
		l := look{state: fileGone, entry: t.entry(name)}
		changes = append(changes, t.observe(name, l, time.Now())...)
	}
	return changes, nil
}

func (t *watched) entry(name string) Entry {
	return Entry{Agent: t.agent, Box: Inbox, Name: name, Path: t.workspace.BoxPath(t.agent, Inbox) + string(os.PathSeparator) + name}
}

// list finds the files that a rescan has to look at: new and missing names
// or, if each file is to be compared, all of them.
func (t *watched) list(dir *durable.Dir) error {
	now := time.Now()
	folder, err := dir.Lstat(".")
	if err != nil {
		return err
	}
	names, err := dir.Names()
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(names))
	t.todo = nil
	for _, name := range names {
		if !schema.IsMessageFile(name) {
			continue
		}
		there[name] = true
		if t.rescan == rescanFiles || !t.knows(name) {
			t.todo = append(t.todo, name)
		}
	}
	for name := range t.messages {
		if !there[name] {
			t.todo = append(t.todo, name)
		}
	}
	for name := range t.bad {
		if !there[name] {
			t.todo = append(t.todo, name)
		}
	}
	slices.Sort(t.todo)
	t.folder, t.sure = folder, now.Sub(folder.ModTime()) > coarsestClock
	if t.rescan == rescanFiles {
		t.comparedAt = now
	}
	t.rescan = rescanNothing
	return nil
}

// lookAll looks at the files on all cores.
func (t *watched) lookAll(ctx context.Context, dir *durable.Dir, names []string) ([]look, error) {
	looks := make([]look, len(names))
	err := eachOnAllCores(ctx, len(names), func(i int) { looks[i] = t.lookAt(dir, names[i]) })
	return looks, err
}

func (t *watched) lookAt(dir *durable.Dir, name string) look {
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return look{state: fileGone, entry: t.entry(name)}
	}
	if err != nil {
		l := look{state: fileBad, entry: t.entry(name)}
		l.entry.Err = err
		return l
	}
	version := versionOf(info)
	l, known := t.recall(name, version)
	if !known || t.hinted[name] {
		l = t.read(dir, name, version)
	}
	if l.state == fileMessage && !l.moving && time.Since(version.Modified) < oldFile {
		l.delivered = t.isDelivered(l.entry.Message, name, version.Size)
	}
	return l
}

// read reads a file that was of the version just before.
func (t *watched) read(dir *durable.Dir, name string, version fileVersion) look {
	l := look{state: fileMessage, version: version, entry: readEntry(dir, t.agent, Inbox, name)}
	info, err := dir.Lstat(name)
	switch {
	case errors.Is(l.entry.Err, fs.ErrNotExist) || errors.Is(err, fs.ErrNotExist):
		return look{state: fileGone, entry: t.entry(name)}
	case l.entry.Err != nil:
		l.state, l.entry.Message = fileBad, nil
	}
	l.moving = err != nil || !versionOf(info).equal(version)
	return l
}

func versionOf(info fs.FileInfo) fileVersion {
	return fileVersion{Modified: info.ModTime().Round(0), Size: info.Size()}
}

// isDelivered reports whether the sender's outbox holds a copy of the same
// size: the copy is put there whole, and a file that is being written in the
// inbox is smaller.
func (t *watched) isDelivered(m *schema.Message, name string, size int64) bool {
	sent := func(name string) bool {
		info, err := t.workspace.root.Lstat(boxName(m.From, Outbox) + "/" + name)
		return err == nil && info.Mode().IsRegular() && info.Size() == size
	}
	if sent(name) || sent(m.FileName()) {
		return true
	}
	long, err := m.LongFileName()
	return err == nil && sent(long)
}

// tick finds out at little cost whether the inbox may have changed since it
// was listed. It reports whether it is another folder than before.
func (t *watched) tick(now time.Time) (replaced bool) {
	folder, err := statFolder(t.inbox())
	replaced = (folder == nil) != (t.folder == nil) || folder != nil && !os.SameFile(folder, t.folder)
	switch {
	case replaced || now.Sub(t.comparedAt) >= rescanFilesEvery || err != nil:
		t.rescan = rescanFiles
	case folder != nil && (!t.sure || !folder.ModTime().Equal(t.folder.ModTime())):
		t.rescan = max(t.rescan, rescanNames)
	}
	return replaced
}

// statFolder describes a folder, nil if there is none. It opens the folder,
// which makes a network file system ask its server.
func statFolder(path string) (fs.FileInfo, error) {
	handle, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := handle.Stat()
	return info, errors.Join(err, handle.Close())
}
