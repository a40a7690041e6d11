package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// rescanEvery is how often Follow looks at everything, whether or not it heard of a change: file systems
// that several machines share tell nobody what the others do.
const rescanEvery = 2 * time.Second

// Follow is Run, and then again whenever something is new, until the context ends; then it returns nil.
// It calls tell after each pass that has something to tell, with the pass's error: what failed, a full disk
// for example, is tried again, and told of again only when it fails in another way. Tell may be nil.
//
// The error is about what cannot be followed at all, such as a workspace that is no more.
func (m *Mirror) Follow(ctx context.Context, tell func(Report, error)) (err error) {
	if tell == nil {
		tell = func(Report, error) {}
	}
	s, err := m.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	f := &follower{session: s, tell: tell, warned: make(map[string]bool)}
	rescan := time.NewTicker(rescanEvery)
	defer rescan.Stop()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		// Looking every now and then is slower, and finds the same.
		tell(Report{Warnings: []string{fmt.Sprintf("changes are found by looking every %v only: %v", rescanEvery, err)}}, nil)
		return f.loop(ctx, nil, nil, rescan.C)
	}
	defer func() { err = errors.Join(err, watcher.Close()) }()
	f.watcher = watcher
	return f.loop(ctx, watcher.Events, watcher.Errors, rescan.C)
}

// follower runs a pass when something changed.
type follower struct {
	session *session
	tell    func(Report, error)
	watcher *fsnotify.Watcher // nil where nothing can be watched
	warned  map[string]bool
	failure string // what was told of last
	// grown fires when the files that somebody was still writing are to be looked at again.
	grown <-chan time.Time
}

// loop watches first and looks then, so that nothing can come in between unseen.
func (f *follower) loop(ctx context.Context, events <-chan fsnotify.Event, problems <-chan error, rescan <-chan time.Time) error {
	f.rescan(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-rescan:
			f.rescan(ctx)
		case <-f.grown:
			f.pass(ctx, f.session.outward.young.names())
		case problem, ok := <-problems:
			if !ok {
				return nil
			}
			f.tell(Report{Warnings: []string{fmt.Sprintf("watching for changes: %v", problem)}}, nil)
			f.rescan(ctx)
		case event, ok := <-events:
			if !ok {
				return nil
			}
			f.heard(ctx, event, events)
		}
	}
}

// rescan looks at everything.
func (f *follower) rescan(ctx context.Context) {
	f.watchAll()
	f.pass(ctx, nil)
}

// heard looks at what the event, and those that have come in meanwhile, tell of.
func (f *follower) heard(ctx context.Context, event fsnotify.Event, events <-chan fsnotify.Event) {
	named := newChanges()
	newFolder, touched := false, false
	for {
		switch agent, name := f.outboxFile(event.Name); {
		case agent != "":
			if event.Has(fsnotify.Create) || event.Has(fsnotify.Write) || event.Has(fsnotify.Rename) {
				named.add(agent, name)
				touched = true
			}
		case event.Name == f.session.mirror.Log.Path():
			touched = true
		case f.isMailboxFolder(event.Name):
			newFolder = newFolder || event.Has(fsnotify.Create)
		}
		select {
		case next, ok := <-events:
			if ok {
				event = next
				continue
			}
		default:
		}
		break
	}
	switch {
	case newFolder:
		f.rescan(ctx)
	case touched:
		f.pass(ctx, named)
	}
}

// pass runs a pass and tells of it.
func (f *follower) pass(ctx context.Context, named *changes) {
	report, err := f.session.pass(ctx, named)
	f.grown = nil
	if young := f.session.outward.young; len(young.waiting) > 0 {
		f.grown = time.After(young.due.Sub(young.now()))
	}
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		err = nil
	}
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	repeated := failure == f.failure
	if f.failure = failure; repeated {
		err = nil
	}
	if err != nil || !report.Quiet() {
		f.tell(report, err)
	}
}

// outboxFile returns whose outbox a path is a message file of.
func (f *follower) outboxFile(path string) (agent schema.AgentName, name string) {
	folder, name := filepath.Split(path)
	folder = filepath.Clean(folder)
	agent = schema.AgentName(filepath.Base(filepath.Dir(folder)))
	if !agent.Valid() || folder != f.session.mirror.Workspace.BoxPath(agent, mailbox.Outbox) || !schema.IsMessageFile(name) {
		return "", ""
	}
	return agent, name
}

// isMailboxFolder reports whether a path is that of an agent's folder, or of a box in it.
func (f *follower) isMailboxFolder(path string) bool {
	agents := filepath.Join(f.session.mirror.Workspace.Dir(), "agents")
	return filepath.Dir(path) == agents || filepath.Base(path) == string(mailbox.Outbox) && filepath.Dir(filepath.Dir(path)) == agents
}

// watchAll watches what is to be watched and is not yet. A folder that is missing is watched for in the one
// above it.
func (f *follower) watchAll() {
	if f.watcher == nil {
		return
	}
	m := f.session.mirror
	folders := []string{filepath.Dir(m.Log.Path())}
	if f.session.direction != In {
		folders = append(folders, filepath.Join(m.Workspace.Dir(), "agents"))
		agents, err := m.Workspace.Agents()
		if err != nil {
			f.tell(Report{}, err)
		}
		for _, agent := range agents {
			outbox := m.Workspace.BoxPath(agent, mailbox.Outbox)
			folders = append(folders, filepath.Dir(outbox), outbox)
		}
	}
	for _, folder := range folders {
		// Watching a watched folder is cheap, and needed where it was removed and made anew.
		err := f.watcher.Add(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !f.warned[folder] {
			f.warned[folder] = true
			f.tell(Report{Warnings: []string{fmt.Sprintf("%s is looked at every %v only: %v", folder, rescanEvery, err)}}, nil)
		}
	}
}
