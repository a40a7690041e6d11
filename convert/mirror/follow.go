package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

// rescanEvery is how often Follow looks at everything even without an event: file systems that several machines share
// do not report what the others do.
const rescanEvery = 2 * time.Second

// Follow is Run, and then again whenever something is new, until the context ends; then it returns nil. It calls
// report after each pass that did something, with the pass's error. What failed, for example because the disk is full,
// is tried again, and reported again only if it fails in another way. Report may be nil.
//
// Follow returns an error if it cannot start.
func (m *Mirror) Follow(ctx context.Context, report func(Report, error)) (err error) {
	if report == nil {
		report = func(Report, error) {}
	}
	s, err := m.open()
	if err != nil {
		return err
	}
	f := &follower{session: s, report: report, warned: make(map[string]bool)}
	rescan := time.NewTicker(rescanEvery)
	defer rescan.Stop()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		f.warn("changes are noticed only every %v: %v", rescanEvery, err)
		return f.loop(ctx, nil, nil, rescan.C)
	}
	defer func() { err = errors.Join(err, watcher.Close()) }()
	f.watcher = watcher
	return f.loop(ctx, watcher.Events, watcher.Errors, rescan.C)
}

// follower runs a pass when something changed.
type follower struct {
	session *session
	report  func(Report, error)
	watcher *fsnotify.Watcher // nil if nothing can be watched
	warned  map[string]bool
	failure string // that was reported last
	// settled fires when it is time to look again at the files that were not settled.
	settled <-chan time.Time
}

func (f *follower) warn(format string, args ...any) {
	f.report(Report{Warnings: []string{fmt.Sprintf(format, args...)}}, nil)
}

// loop watches before it looks, so that it misses nothing.
func (f *follower) loop(ctx context.Context, events <-chan fsnotify.Event, problems <-chan error, rescan <-chan time.Time) error {
	f.rescan(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-rescan:
			f.rescan(ctx)
		case <-f.settled:
			f.pass(ctx)
		case problem, ok := <-problems:
			if !ok {
				return nil
			}
			f.warn("watching for changes: %v", problem)
			f.rescan(ctx)
		case event, ok := <-events:
			if !ok {
				return nil
			}
			if f.isNews(event, events) {
				f.rescan(ctx)
			}
		}
	}
}

// rescan watches what is new and looks at everything that changed.
func (f *follower) rescan(ctx context.Context) {
	f.watchAll()
	f.pass(ctx)
}

// isNews reports whether the event, or one of those behind it, may tell of something to carry. The outbox of a file that
// was written is listed again, because writing in place does not change the time of the folder.
func (f *follower) isNews(event fsnotify.Event, events <-chan fsnotify.Event) (news bool) {
	const written = fsnotify.Create | fsnotify.Write | fsnotify.Rename
	log := f.session.mirror.Log.Path()
	for more := true; more; {
		folder := filepath.Dir(event.Name)
		beside := folder == filepath.Dir(log) && event.Name != log
		if event.Op&written != 0 && !beside {
			news = true
			delete(f.session.outward.seen.Outboxes, schema.AgentName(filepath.Base(filepath.Dir(folder))))
		}
		select {
		case event, more = <-events:
		default:
			more = false
		}
	}
	return news
}

// pass runs a pass and reports it.
func (f *follower) pass(ctx context.Context) {
	var report Report
	err := f.session.pass(ctx, &report)
	f.settled = nil
	if len(f.session.outward.unsettled) > 0 {
		f.settled = time.After(watch.Quiet)
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
		f.report(report, err)
	}
}

// watchAll watches what is not watched yet. Watching agents reports the folders that are missing.
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
			f.report(Report{}, err)
		}
		for _, agent := range agents {
			outbox := m.Workspace.BoxPath(agent, mailbox.Outbox)
			folders = append(folders, filepath.Dir(outbox), outbox)
		}
	}
	for _, folder := range folders {
		// Adding a watched folder is cheap, and needed if it was removed and made anew.
		err := f.watcher.Add(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !f.warned[folder] {
			f.warned[folder] = true
			f.warn("changes in %s are noticed only every %v: %v", folder, rescanEvery, err)
		}
	}
}
