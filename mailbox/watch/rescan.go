package watch

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

const (
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
