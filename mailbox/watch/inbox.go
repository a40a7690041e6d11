package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// watchChunk is how many files of a mailbox are looked at before what they
// hold is reported, which bounds the memory that a full inbox takes.
const watchChunk = 256

// watched is an inbox that is watched.
type watched struct {
	workspace *mailbox.Workspace
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
	// failure is the error that was reported last, and failedAt when it was
	// there last. It lasts if failing.
	failure  string
	failedAt time.Time
	failing  bool
}

// failureAgain is how long an error must have been gone to be told again.
const failureAgain = time.Minute

func (t *watched) is(target Target) bool {
	return t.agent == target.Agent && t.workspace.Dir() == target.Workspace.Dir()
}

func (t *watched) inbox() string { return t.workspace.BoxPath(t.agent, mailbox.Inbox) }

// open checks the target and takes its cursor.
func (t *watched) open(ctx context.Context, options *Options) error {
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
	return change{kind: kind, entry: mailbox.Entry{Agent: t.agent, Box: mailbox.Inbox, Path: t.inbox(), Err: err}}
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
	dir, err := openBox(t.workspace, t.agent, mailbox.Inbox)
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
	dir, err := openBox(t.workspace, t.agent, mailbox.Inbox)
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

func (t *watched) entry(name string) mailbox.Entry {
	return mailbox.Entry{Agent: t.agent, Box: mailbox.Inbox, Name: name, Path: filepath.Join(t.inbox(), name)}
}
