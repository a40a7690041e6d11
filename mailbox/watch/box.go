package watch

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

const (
	// lookAtMost is how many files of a listing are looked at before they are reported, which
	// bounds the memory that a full box takes.
	lookAtMost = 256
	// recheckEvery is how often every file is compared, not only the names: overwriting a file
	// leaves its folder as it was.
	recheckEvery = time.Minute
	// recent is the age up to which a folder's time may stay the same though the folder changes.
	// File systems count time in steps, of up to two seconds.
	recent = 2*time.Second + tickEvery
)

// box is a watched folder of a mailbox.
type box struct {
	workspace *mailbox.Workspace
	agent     schema.AgentName
	name      mailbox.Box
	path      string
	project   string
	// since is Options.Since during the first look, if that has old messages to skip.
	since time.Time

	// skip tells names of files that are ignored; nil ignores none.
	skip func(name string) bool

	// reported is the record of the box. The cursor, which is nil if there is none, stores it.
	reported record
	cursor   *cursor
	failure  string
	// unread is why the last look failed.
	unread error
	// recovers marks the first box of a workspace. Its events report failed recoveries.
	recovers       bool
	recoverFailure string

	// relist asks for a look at new and missing files, and recheck at all of them. todo are the
	// files to look at, in any order and perhaps twice.
	relist, recheck bool
	todo            []string
	// unsettled are files that differ from their record and may still be being written.
	unsettled map[string]Sighting

	// folder describes the box as it was listed; nil if it did not exist.
	folder    fs.FileInfo
	checkedAt time.Time
	// attached reports whether the system sends notifications.
	attached bool
}

func newBox(target Target, options *Options) *box {
	b := &box{
		workspace: target.Workspace, agent: target.Agent, name: target.Box,
		project: project.Name(target.Workspace), unsettled: make(map[string]Sighting),
	}
	if b.name == "" {
		b.name = mailbox.Inbox
	}
	b.path = b.workspace.BoxPath(b.agent, b.name)
	b.reported = newRecord(b, options.StateID)
	return b
}

// open checks the target and opens its cursor.
func (b *box) open(options *Options) error {
	if err := b.workspace.CheckAgent(b.agent); err != nil {
		return err
	}
	if options.Cursor {
		if err := b.openCursor(); err != nil {
			return err
		}
	}
	if (b.cursor == nil || b.cursor.fresh) && options.Since.After(time.Unix(0, 0)) {
		b.since = options.Since
	} else {
		b.endSeeding()
	}
	return nil
}

// endSeeding ends the first look: messages found from now on are new, however old their files are.
func (b *box) endSeeding() {
	b.since = time.Time{}
	if b.cursor != nil && b.cursor.fresh {
		b.cursor.fresh, b.cursor.dirty = false, true
	}
}

func (b *box) sharesWorkspace(other *box) bool { return b.workspace.Dir() == other.workspace.Dir() }

func (b *box) entry(name string) mailbox.Entry {
	return mailbox.Entry{Agent: b.agent, Box: b.name, Name: name, Path: filepath.Join(b.path, name)}
}

// problem returns a change that reports an error that does not concern a single file.
func (b *box) problem(kind EventKind, err error) change {
	entry := mailbox.Entry{Agent: b.agent, Box: b.name, Path: b.path, Err: err}
	return change{box: b, kind: kind, entry: entry}
}

// nextLook returns when to look at the box: the zero time if nothing is due and no file may settle.
func (b *box) nextLook(now time.Time) time.Time {
	if b.relist || b.recheck || len(b.todo) > 0 {
		return now
	}
	var next time.Time
	for _, seen := range b.unsettled {
		next = earliest(next, seen.quietAt())
	}
	return next
}

// look reads files that may have changed or settled, and returns the changes to report or record. It
// leaves the rest of a long list to the next look.
func (b *box) look(ctx context.Context, now time.Time, follow bool) (changes []change, err error) {
	for name, seen := range b.unsettled {
		if seen.isQuiet(now) {
			b.todo = append(b.todo, name)
		}
	}
	dir, err := b.openDir()
	if dir != nil {
		defer func() { err = errors.Join(err, dir.Close()) }()
	}
	if err == nil && (b.relist || b.recheck) {
		err = b.list(dir, now)
	}
	if err != nil {
		b.postpone()
		return nil, err
	}
	slices.Sort(b.todo)
	b.todo = slices.Compact(b.todo)
	names := b.todo[:min(lookAtMost, len(b.todo))]
	b.todo = b.todo[len(names):]
	for _, f := range b.findAll(ctx, dir, names, now) {
		changes = append(changes, b.compare(f, follow)...)
	}
	slices.SortStableFunc(changes, func(a, b change) int { return schema.CompareAge(a.arrived(), b.arrived()) })
	return changes, nil
}

// Unread returns why boxes could not be read when the Watcher last looked, nil if all could. It must
// not be called during a loop.
func (w *Watcher) Unread() error {
	var err error
	for _, b := range w.boxes {
		err = errors.Join(err, b.unread)
	}
	return err
}

// openDir opens the box. It returns nil if the box does not exist. If the whole mailbox is missing,
// that is an error: a file system may not be mounted, or a checkout may be half done.
func (b *box) openDir() (*durable.Dir, error) {
	name := schema.BoxPath(b.agent, b.name)
	dir, err := durable.OpenDir(b.workspace.Root(), b.workspace.Dir(), name)
	if errors.Is(err, fs.ErrNotExist) && b.workspace.CheckAgent(b.agent) == nil {
		return nil, nil
	}
	return dir, err
}

// list finds the files to look at: new and missing ones or, for a recheck, all of them.
func (b *box) list(dir *durable.Dir, now time.Time) (err error) {
	var names []string
	b.folder = nil
	if dir != nil {
		if b.folder, err = dir.Lstat("."); err != nil {
			return err
		}
		if names, err = dir.Names(); err != nil {
			return err
		}
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		if !schema.IsMessageFile(name) || b.skip != nil && b.skip(name) {
			continue
		}
		there[name] = true
		_, isMessage := b.reported.Messages[name]
		_, isBad := b.reported.Unreadable[name]
		_, isUnsettled := b.unsettled[name]
		if b.recheck || !isMessage && !isBad && !isUnsettled {
			b.todo = append(b.todo, name)
		}
	}
	for _, known := range []iter.Seq[string]{maps.Keys(b.reported.Messages), maps.Keys(b.reported.Unreadable)} {
		for name := range known {
			if !there[name] {
				b.todo = append(b.todo, name)
			}
		}
	}
	if b.recheck {
		b.checkedAt = now
	}
	b.relist, b.recheck = false, false
	return nil
}

// postpone leaves everything to the next tick, because the box cannot be read now.
func (b *box) postpone() {
	b.relist, b.recheck, b.todo, b.folder = false, false, nil, nil
	clear(b.unsettled)
}

// findAll looks at files on all cores. It returns nothing if the context ends.
func (b *box) findAll(ctx context.Context, dir *durable.Dir, names []string, now time.Time) []finding {
	const share = 64
	found := make([]finding, len(names))
	var looking sync.WaitGroup
	for start := 0; start < len(names); start += share {
		looking.Go(func() {
			for i := start; i < min(start+share, len(names)) && ctx.Err() == nil; i++ {
				found[i] = b.find(dir, names[i], now)
			}
		})
	}
	looking.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return found
}

// tick checks cheaply whether the box may have changed since it was listed. It reports whether the
// folder appeared, disappeared or was replaced.
func (b *box) tick(now time.Time) (replaced bool) {
	folder, err := statFolder(b.path)
	replaced = (folder == nil) != (b.folder == nil) || folder != nil && !os.SameFile(folder, b.folder)
	switch {
	case replaced || err != nil || now.Sub(b.checkedAt) >= recheckEvery:
		b.recheck = true
	case folder == nil:
	case !folder.ModTime().Equal(b.folder.ModTime()) || now.Sub(folder.ModTime()).Abs() < recent:
		b.relist = true
	}
	return replaced
}

// statFolder describes a folder, nil if there is none. It opens the folder, which makes a network
// file system ask its server.
func statFolder(path string) (fs.FileInfo, error) {
	dir, err := durable.OpenPath(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := dir.Lstat(".")
	return info, errors.Join(err, dir.Close())
}
