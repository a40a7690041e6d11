package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
)

// scriptedNotifier sends the notifications that a test gives it.
type scriptedNotifier struct {
	events chan fsnotify.Event
	errors chan error
	refuse atomic.Bool
	added  atomic.Int32
	closed atomic.Bool
}

func newScriptedNotifier() *scriptedNotifier {
	return &scriptedNotifier{events: make(chan fsnotify.Event), errors: make(chan error)}
}

func (n *scriptedNotifier) open() (notifier, error) {
	add := func(string) error {
		if n.refuse.Load() {
			return syscall.ENOSPC
		}
		n.added.Add(1)
		return nil
	}
	stop := func() error {
		n.closed.Store(true)
		return nil
	}
	return notifier{add: add, events: n.events, errors: n.errors, stop: stop}, nil
}

// inBubble watches codex under a fake clock: time passes only while all goroutines wait, and the
// notifier sends nothing by itself.
func inBubble(t *testing.T, test func(t *testing.T, w *mailbox.Workspace, watch *watching, n *scriptedNotifier)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := mailboxtest.NewBare(t, "claude", "codex")
		n := newScriptedNotifier()
		watcher := newTestWatcher(t, w, Options{Archived: true}, "codex")
		watcher.open = n.open
		watch := startWatching(t, watcher)
		synctest.Wait()
		test(t, w, watch, n)
		watch.stop()
	})
}

func (w *watching) wantNothing(why string) {
	w.t.Helper()
	synctest.Wait()
	if len(w.events) > 0 {
		w.t.Fatalf("%s: %s, want no event", why, describe(<-w.events))
	}
}

func (w *watching) wantNow(kind EventKind, name string) Event {
	w.t.Helper()
	synctest.Wait()
	if len(w.events) == 0 {
		w.t.Fatalf("no event, want %s of %q", kind, name)
	}
	return w.want(kind, name)
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestWatchSlowWriter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *mailbox.Workspace, watch *watching, n *scriptedNotifier) {
		path := filepath.Join(w.BoxPath("codex", mailbox.Inbox), "m1.yaml")
		text := messageText("codex", "m1.yaml", "slow")
		// Line by line: in the end even the first lines are a valid message.
		for line := range strings.Lines(text) {
			appendTo(t, path, line)
			n.events <- fsnotify.Event{Name: path, Op: fsnotify.Write}
			time.Sleep(Quiet - 60*time.Millisecond)
			watch.wantNothing("while the file is being written")
		}
		time.Sleep(Quiet)
		if event := watch.wantNow(EventArrived, "m1.yaml"); event.Message.Body.Text != "First line.\nLast line.\n" {
			t.Errorf("the message has body %q, want all of it", event.Message.Body.Text)
		}
	})
}

func TestWatchSlowWriterWithoutNotifications(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *mailbox.Workspace, watch *watching, _ *scriptedNotifier) {
		path := filepath.Join(w.BoxPath("codex", mailbox.Inbox), "m1.yaml")
		appendTo(t, path, "id: [")
		time.Sleep(tickEvery + Quiet/2)
		watch.wantNothing("before the file stood still")
		check.WriteFile(t, path, messageText("codex", "m1.yaml", "late"))
		time.Sleep(Quiet + Quiet)
		watch.wantNow(EventArrived, "m1.yaml")
	})
}

func TestWatchGoneForAMoment(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *mailbox.Workspace, watch *watching, n *scriptedNotifier) {
		path := put(t, w, "codex", "m1.yaml", "edited")
		say := func() { n.events <- fsnotify.Event{Name: path, Op: fsnotify.Create} }
		say()
		time.Sleep(time.Second)
		watch.wantNow(EventArrived, "m1.yaml")
		if err := os.Rename(path, path+"~"); err != nil {
			t.Fatal(err)
		}
		say()
		time.Sleep(Quiet / 2)
		put(t, w, "codex", "m1.yaml", "better")
		say()
		time.Sleep(time.Hour)
		watch.wantNothing("an edited message is the same one")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		say()
		time.Sleep(Quiet)
		if event := watch.wantNow(EventArchived, "m1.yaml"); event.Message.Subject != "better" {
			t.Errorf("the removed message has subject %q, want better", event.Message.Subject)
		}
	})
}

func TestWatchOverflow(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *mailbox.Workspace, watch *watching, n *scriptedNotifier) {
		r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
		watch.wantNothing("nothing was said")
		n.errors <- fsnotify.ErrEventOverflow
		watch.wantNow(EventArrived, sentName(r))
	})
}

func TestWatchTicksWhereNothingIsNotified(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *mailbox.Workspace, watch *watching, _ *scriptedNotifier) {
		r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
		time.Sleep(tickEvery)
		watch.wantNow(EventArrived, sentName(r))
		// Overwriting a file does not change its folder.
		check.WriteFile(t, r.Inboxes[0], messageText("codex", "m2.yaml", "another"))
		time.Sleep(recheckEvery + 2*tickEvery)
		watch.wantNow(EventArchived, sentName(r))
		watch.wantNow(EventArrived, sentName(r))
	})
}

func TestWatchNotifierFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mailboxtest.NewBare(t, "claude", "codex")
		notifiers := []*scriptedNotifier{newScriptedNotifier(), newScriptedNotifier(), newScriptedNotifier()}
		failures := []func(){
			func() { notifiers[0].errors <- errors.New("read: bad file descriptor") },
			func() { close(notifiers[1].events) },
		}
		watcher, opened := newTestWatcher(t, w, Options{}, "codex"), 0
		watcher.open = func() (notifier, error) { opened++; return notifiers[opened-1].open() }
		watch := startWatching(t, watcher)
		for i, fail := range failures {
			synctest.Wait()
			r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
			fail()
			watch.wantNow(EventArrived, sentName(r))
			time.Sleep(tickEvery)
			synctest.Wait()
			if !notifiers[i].closed.Load() || notifiers[i+1].added.Load() == 0 {
				t.Errorf("after failure %d: notifier closed: %t; the next one watches %d folders, want it replaced",
					i, notifiers[i].closed.Load(), notifiers[i+1].added.Load())
			}
		}
		watch.stop()
	})
}

// TestWatchLimitsExhausted checks that a watch works without notifications, and uses them when it can.
func TestWatchLimitsExhausted(t *testing.T) {
	for limit, open := range map[string]func(n *scriptedNotifier) (notifier, error){
		"watches":   (*scriptedNotifier).open,
		"instances": func(*scriptedNotifier) (notifier, error) { return notifier{}, syscall.EMFILE },
	} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := mailboxtest.NewBare(t, "claude", "codex", "gemini")
				n := newScriptedNotifier()
				n.refuse.Store(true)
				watcher := newTestWatcher(t, w, Options{}, "codex", "gemini")
				watcher.open = func() (notifier, error) {
					if n.refuse.Load() {
						return open(n)
					}
					return n.open()
				}
				watch := startWatching(t, watcher)
				r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
				time.Sleep(tickEvery)
				watch.wantNow(EventArrived, sentName(r))
				n.refuse.Store(false)
				time.Sleep(2 * tickEvery)
				r = mailboxtest.Send(t, w, mailboxtest.Draft("gemini"))
				n.events <- fsnotify.Event{Name: r.Inboxes[0], Op: fsnotify.Create}
				watch.wantNow(EventArrived, sentName(r))
				watch.stop()
			})
		})
	}
}

func TestWatchUnreadableInbox(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *mailbox.Workspace, watch *watching, _ *scriptedNotifier) {
		r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
		time.Sleep(tickEvery)
		watch.wantNow(EventArrived, sentName(r))
		inbox := w.BoxPath("codex", mailbox.Inbox)
		if err := errors.Join(os.Rename(inbox, inbox+"-aside"), os.WriteFile(inbox, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * tickEvery)
		if event := watch.wantNow(EventError, ""); event.Path != inbox || event.Agent != "codex" {
			t.Errorf("the error is about %s of %s, want %s of codex", event.Path, event.Agent, inbox)
		}
		watch.wantNothing("the error was reported, and nothing is known of the messages")
		if err := errors.Join(os.Remove(inbox), os.Rename(inbox+"-aside", inbox)); err != nil {
			t.Fatal(err)
		}
		later := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
		time.Sleep(2 * tickEvery)
		watch.wantNow(EventArrived, sentName(later))

		// It was readable in between, so the same error is reported again.
		if err := errors.Join(os.Rename(inbox, inbox+"-aside"), os.WriteFile(inbox, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * tickEvery)
		watch.wantNow(EventError, "")
	})
}

func TestWatchWorkspaceRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, other := mailboxtest.NewBare(t, "claude", "codex"), mailboxtest.NewBare(t, "claude", "codex")
		watcher, err := New([]Target{{Workspace: w, Agent: "codex"}, {Workspace: other, Agent: "codex"}}, &Options{Cursor: true})
		if err != nil {
			t.Fatal(err)
		}
		watcher.open = newScriptedNotifier().open
		watch := startWatching(t, watcher)
		synctest.Wait()
		if err := os.RemoveAll(w.Dir()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * tickEvery)
		synctest.Wait()
		if err := watch.end(); !errors.Is(err, mailbox.ErrNoWorkspace) {
			t.Errorf("watching a removed workspace ends with %v, want mailbox.ErrNoWorkspace", err)
		}
		watch.end = func() error { return nil }
	})
}

// TestWatchFoldersComeAndGo removes and makes every folder that leads to the inbox, with real
// notifications.
func TestWatchFoldersComeAndGo(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	watch := follow(t, w, Options{Archived: true}, "codex")
	r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	watch.want(EventArrived, sentName(r))
	inbox := w.BoxPath("codex", mailbox.Inbox)
	if err := os.RemoveAll(inbox); err != nil {
		t.Fatal(err)
	}
	watch.want(EventArchived, sentName(r))
	r = mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	watch.want(EventArrived, sentName(r))
	// A folder moved aside and another put in its place.
	if err := os.Rename(inbox, inbox+"-aside"); err != nil {
		t.Fatal(err)
	}
	put(t, w, "codex", "m1.yaml", "in the new folder")
	seen := map[string]bool{}
	for range 2 {
		event := watch.next()
		seen[string(event.Kind)+" "+event.Name] = true
	}
	if !seen["new_message m1.yaml"] || !seen["message_archived "+sentName(r)] {
		t.Errorf("a replaced inbox gives %v, want one message removed and one arrived", seen)
	}
	// The whole mailbox is removed: the watcher reports only that it is missing.
	if err := os.Rename(filepath.Dir(inbox), filepath.Join(w.Dir(), "aside")); err != nil {
		t.Fatal(err)
	}
	if event := watch.want(EventError, ""); !errors.Is(event.Err, os.ErrNotExist) {
		t.Errorf("a missing mailbox gives %s, want an error that says it does not exist", describe(event))
	}
	if err := os.Rename(filepath.Join(w.Dir(), "aside"), filepath.Dir(inbox)); err != nil {
		t.Fatal(err)
	}
	put(t, w, "codex", "m2.yaml", "after the return")
	watch.want(EventArrived, "m2.yaml")
	// Then agents itself, as in a checkout of another branch.
	agents := filepath.Join(w.Dir(), "agents")
	if err := os.Rename(agents, agents+"-aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(agents+"-aside", agents); err != nil {
		t.Fatal(err)
	}
	put(t, w, "codex", "m3.yaml", "after the checkout")
	watch.want(EventArrived, "m3.yaml")
	watch.stop()
}

// TestWatchManyAtOnce writes more files in place, as a checkout does, than the watcher reads
// notifications at once.
func TestWatchManyAtOnce(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	watch := follow(t, w, Options{}, "codex")
	const files = 600
	for i := range files {
		put(t, w, "codex", fmt.Sprintf("m%05d.yaml", i), "one of many")
	}
	seen := map[string]int{}
	for range files {
		event := watch.next()
		if event.Kind != EventArrived {
			t.Fatalf("unexpected event %s", describe(event))
		}
		seen[event.Name]++
	}
	if len(seen) != files {
		t.Errorf("%d files were reported, want %d", len(seen), files)
	}
	watch.stop()
}
