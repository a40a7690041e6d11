package watch

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
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
)

// box is a watched folder of a mailbox.
type box struct {
	// decode reads a message, as of the last openDir.
	decode    func(mailbox.Entry, []byte) (*schema.Message, error)
	workspace *mailbox.Workspace
	agent     schema.AgentName
	name      mailbox.Box
	path      string
	project   string
	// skip reports whether to ignore files of this name; nil ignores none.
	skip func(name string) bool

	// reported is the record of the box. The cursor, which is nil if there is none, stores it.
	reported record
	cursor   *cursor
	// unread is why the last look failed.
	unread error
	// recovers marks the first box of a workspace, which also completes deliveries. unrecovered is why that
	// failed last.
	recovers    bool
	unrecovered error

	// relist asks for a look at new and missing files, and recheck at all of them. todo are the
	// files to look at, in any order and perhaps twice.
	relist, recheck bool
	checkedAt       time.Time
	todo            []string
	// unsettled are files that differ from their record and may still be being written.
	unsettled map[string]Sighting
}

// openBox checks the target and opens its cursor.
func openBox(target Target, options *Options) (*box, error) {
	b := &box{
		workspace: target.Workspace, agent: target.Agent, name: target.Box,
		project: project.Name(target.Workspace), unsettled: make(map[string]Sighting),
	}
	if b.name == "" {
		b.name = mailbox.Inbox
	}
	b.path = b.workspace.BoxPath(b.agent, b.name)
	b.reported = newRecord(b, options.StateID)
	if err := b.workspace.CheckAgent(b.agent); err != nil {
		return nil, err
	}
	fresh := true
	if options.Cursor {
		var err error
		if fresh, err = b.openCursor(); err != nil {
			return nil, err
		}
	}
	if fresh && !options.Since.IsZero() {
		if err := b.seed(options.Since); err != nil {
			return nil, errors.Join(err, b.closeCursor())
		}
	}
	return b, nil
}

// seed records the messages that were last written at a time or earlier.
func (b *box) seed(since time.Time) error {
	dir, err := b.openDir()
	if dir == nil {
		return err
	}
	defer dir.Close() // nothing is written
	names, err := b.list(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		info, err := dir.Lstat(name)
		if err != nil || info.ModTime().After(since) {
			continue
		}
		if c := b.read(dir, name); c.message != nil && c.seen.equal(versionOf(info)) {
			b.apply(c)
		}
	}
	return b.saveCursor()
}

func (b *box) sharesWorkspace(other *box) bool { return b.workspace.Dir() == other.workspace.Dir() }

func (b *box) entry(name string) mailbox.Entry {
	return mailbox.Entry{Agent: b.agent, Box: b.name, Name: name, Path: filepath.Join(b.path, name)}
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
// leaves the rest of a long list to the next look. If the box cannot be read, everything is left to
// the next tick.
func (b *box) look(ctx context.Context, now time.Time, follow bool) (changes []change, err error) {
	dir, err := b.openDir()
	if dir != nil {
		defer dir.Close() // nothing is written
	}
	if err == nil {
		err = b.plan(dir, now)
	}
	b.relist, b.recheck = false, false
	if err != nil {
		b.todo = nil
		clear(b.unsettled)
		return nil, err
	}
	names := b.todo[:min(lookAtMost, len(b.todo))]
	b.todo = b.todo[len(names):]
	for _, name := range names {
		if ctx.Err() != nil {
			return nil, nil
		}
		if c, unchanged := b.find(dir, name, now); unchanged {
			delete(b.unsettled, name)
		} else {
			changes = append(changes, b.compare(c, now, follow)...)
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return schema.CompareAge(a.arrived(), b.arrived()) })
	return changes, nil
}

// openDir opens the box. It returns nil if the box does not exist. If the whole mailbox is missing,
// that is an error: a file system may not be mounted, or a checkout may be half done.
func (b *box) openDir() (*durable.Dir, error) {
	b.decode = b.workspace.Decoder(b.agent, b.name)
	name := schema.BoxPath(b.agent, b.name)
	dir, err := durable.OpenDir(b.workspace.Root(), b.workspace.Dir(), name)
	if errors.Is(err, fs.ErrNotExist) && b.workspace.CheckAgent(b.agent) == nil {
		return nil, nil
	}
	return dir, err
}

// list returns the names of the message files in the box. dir is nil if the folder does not exist.
func (b *box) list(dir *durable.Dir) ([]string, error) {
	if dir == nil {
		return nil, nil
	}
	names, err := dir.Names()
	return slices.DeleteFunc(names, func(name string) bool {
		return !schema.IsMessageFile(name) || b.skip != nil && b.skip(name)
	}), err
}

// plan adds to the files to look at: those that may have settled and, of the folder, new and missing
// ones or, for a recheck, all.
func (b *box) plan(dir *durable.Dir, now time.Time) error {
	for name, seen := range b.unsettled {
		if seen.Settled(now) {
			b.todo = append(b.todo, name)
		}
	}
	if b.relist || b.recheck {
		names, err := b.list(dir)
		if err != nil {
			return err
		}
		there := make(map[string]bool, len(names))
		for _, name := range names {
			there[name] = true
			if b.recheck || !b.isKnown(name) {
				b.todo = append(b.todo, name)
			}
		}
		for name := range b.reported.Messages {
			if !there[name] {
				b.todo = append(b.todo, name)
			}
		}
		for name := range b.reported.Unreadable {
			if !there[name] {
				b.todo = append(b.todo, name)
			}
		}
	}
	if b.recheck {
		b.checkedAt = now
	}
	slices.Sort(b.todo)
	b.todo = slices.Compact(b.todo)
	return nil
}

// isKnown reports whether a file was reported or is looked at when it may have settled.
func (b *box) isKnown(name string) bool {
	_, isMessage := b.reported.Messages[name]
	_, isBad := b.reported.Unreadable[name]
	_, isUnsettled := b.unsettled[name]
	return isMessage || isBad || isUnsettled
}
