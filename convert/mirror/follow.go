package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

// rescanEvery is how often Follow looks at everything even without an event: file systems that
// several machines share do not report what the others do.
const rescanEvery = 2 * time.Second

// Follow is Run, and then again whenever something is new, until the context ends; then it returns
// nil. It calls report after each pass that did something, with the pass's error. What failed, for
// example because the disk is full, is tried again, and reported again only if it fails in another
// way.
//
// Follow returns an error if it cannot start.
func (m *Mirror) Follow(ctx context.Context, report func(Report, error)) error {
	s, err := m.open()
	if err != nil {
		return err
	}
	f := &follower{session: s, report: report}
	rescan := time.NewTicker(rescanEvery)
	defer rescan.Stop()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		f.warn("changes are noticed only every %v: %v", rescanEvery, err)
		f.loop(ctx, nil, nil, rescan.C)
		return nil
	}
	// fsnotify sends some errors while it holds the lock that Add needs, so that another goroutine
	// must receive them.
	problems := make(chan error, 1)
	var receiving sync.WaitGroup
	receiving.Go(func() {
		for problem := range watcher.Errors {
			select {
			case problems <- problem:
			default: // the one that waits has the same consequence
			}
		}
	})
	f.watcher = watcher
	f.loop(ctx, watcher.Events, problems, rescan.C)
	err = watcher.Close()
	receiving.Wait()
	return err
}

// follower runs a pass when something changed.
type follower struct {
	*session
	report    func(Report, error)
	watcher   *fsnotify.Watcher // nil if nothing can be watched
	unwatched bool              // set once a folder could not be watched
	failure   string            // that was reported last
}

func (f *follower) warn(format string, args ...any) {
	f.report(Report{Warnings: []string{fmt.Sprintf(format, args...)}}, nil)
}

// loop watches before it looks, so that it misses nothing.
func (f *follower) loop(ctx context.Context, events <-chan fsnotify.Event, problems <-chan error, rescan <-chan time.Time) {
	for ctx.Err() == nil {
		f.watchAll()
		f.passOnce(ctx)
		var settled <-chan time.Time
		if len(f.unsettled) > 0 {
			settled = time.After(watch.Quiet)
		}
		for news := false; !news; {
			news = true
			select {
			case <-ctx.Done():
			case <-rescan:
			case <-settled:
			case problem := <-problems:
				f.warn("watching for changes: %v", problem)
			case event := <-events:
				news = f.isNews(event, events)
			}
		}
	}
}

// isNews reports whether the event, or one of those behind it, may tell of something to carry. The
// outbox of a file that was written is listed again, because writing in place does not change the
// time of the folder.
func (f *follower) isNews(event fsnotify.Event, events <-chan fsnotify.Event) (news bool) {
	const written = fsnotify.Create | fsnotify.Write | fsnotify.Rename
	log := f.Log.Path()
	for {
		folder := filepath.Dir(event.Name)
		beside := folder == filepath.Dir(log) && event.Name != log
		if event.Op&written != 0 && !beside {
			news = true
			delete(f.out.Outboxes, schema.AgentName(filepath.Base(filepath.Dir(folder))))
		}
		select {
		case event = <-events:
		default:
			return news
		}
	}
}

// passOnce runs a pass and reports it.
func (f *follower) passOnce(ctx context.Context) {
	var report Report
	err := f.pass(ctx, &report)
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		err = nil
	}
	failure := fmt.Sprint(err)
	if failure == f.failure {
		err = nil
	}
	f.failure = failure
	if err != nil || !report.Quiet() {
		f.report(report, err)
	}
}

// watchAll watches what is not watched yet. Adding a watched folder is cheap, and needed if it was
// removed and made anew.
func (f *follower) watchAll() {
	if f.watcher == nil {
		return
	}
	folders := []string{filepath.Dir(f.Log.Path())}
	if f.direction != In {
		folders = append(folders, filepath.Join(f.Workspace.Dir(), schema.AgentsName))
		agents, _ := f.Workspace.Agents() // the pass reports the error
		for _, agent := range agents {
			folders = append(folders, f.Workspace.BoxPath(agent, mailbox.Outbox))
		}
	}
	for _, folder := range folders {
		err := f.watcher.Add(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !f.unwatched {
			f.unwatched = true
			f.warn("some changes are noticed only every %v: cannot watch %s: %v", rescanEvery, folder, err)
		}
	}
}
