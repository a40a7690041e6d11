package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// watching is a loop over a Watcher's events in a goroutine of its own.
type watching struct {
	t      testing.TB
	events chan Event
	end    func() error
}

// startWatching follows the watcher until the test or stop ends it.
func startWatching(t testing.TB, watcher *Watcher) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{t: t, events: make(chan Event, 1<<16)}
	done := make(chan error, 1)
	go func() {
		var failed error
		for event, err := range watcher.Events(ctx) {
			if err != nil {
				failed = err
				break
			}
			w.events <- event
		}
		done <- errors.Join(failed, watcher.Close())
	}()
	w.end = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := w.end(); err != nil {
			t.Errorf("watching: %v", err)
		}
	})
	return w
}

// follow watches the agents of the workspace.
func follow(t testing.TB, w *mailbox.Workspace, options Options, agents ...schema.AgentName) *watching {
	t.Helper()
	return startWatching(t, newTestWatcher(t, w, options, agents...))
}

func newTestWatcher(t testing.TB, w *mailbox.Workspace, options Options, agents ...schema.AgentName) *Watcher {
	t.Helper()
	var targets []Target
	for _, agent := range agents {
		targets = append(targets, Target{Workspace: w, Agent: agent})
	}
	watcher, err := New(targets, &options)
	if err != nil {
		t.Fatalf("making a watcher: %v", err)
	}
	return watcher
}

// next returns the next event, whatever it is.
func (w *watching) next() Event {
	w.t.Helper()
	select {
	case event := <-w.events:
		return event
	case <-time.After(time.Minute):
		w.t.Fatal("no event within a minute")
		return Event{}
	}
}

// want fails the test unless the next event is of the kind and about the file, and returns it.
func (w *watching) want(kind EventKind, name string) Event {
	w.t.Helper()
	event := w.next()
	if event.Kind != kind || event.Name != name {
		w.t.Fatalf("the next event is %s, want %s of %q", describe(event), kind, name)
	}
	return event
}

// stop ends the loop and fails the test if there are events left.
func (w *watching) stop() {
	w.t.Helper()
	if err := w.end(); err != nil {
		w.t.Fatalf("watching: %v", err)
	}
	for len(w.events) > 0 {
		w.t.Errorf("one event too many: %s", describe(<-w.events))
	}
}

func describe(e Event) string {
	text := fmt.Sprintf("%s of %q for %s", e.Kind, e.Name, e.Agent)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// scan returns what one scan of the agent's inbox reports.
func scan(t testing.TB, w *mailbox.Workspace, options Options, agent schema.AgentName) []Event {
	t.Helper()
	watcher := newTestWatcher(t, w, options, agent)
	var events []Event
	for event, err := range watcher.Scan(t.Context()) {
		if err != nil {
			t.Fatalf("scanning: %v", err)
		}
		events = append(events, event)
	}
	if err := watcher.Close(); err != nil {
		t.Fatalf("closing the watcher: %v", err)
	}
	return events
}

// wantScan fails the test unless a scan reports just these events, each written "kind name".
func wantScan(t testing.TB, w *mailbox.Workspace, options Options, agent schema.AgentName, want ...string) {
	t.Helper()
	var got []string
	for _, e := range scan(t, w, options, agent) {
		got = append(got, string(e.Kind)+" "+e.Name)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the scan reports %q, want %q", got, want)
	}
}

// put writes a message that did not come through Send into the inbox, in place, and returns its
// path.
func put(t testing.TB, w *mailbox.Workspace, agent schema.AgentName, name, subject string) string {
	t.Helper()
	path := filepath.Join(w.BoxPath(agent, mailbox.Inbox), name)
	check.WriteFile(t, path, messageText(agent, name, subject))
	return path
}

// messageText is a message whose id follows from the name it is put under.
func messageText(to schema.AgentName, name, subject string) string {
	rand := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.TrimSuffix(name, schema.FileExtension))
	return fmt.Sprintf("id: msg-20260313T1430Z-gemini-id%s\n", rand[max(0, len(rand)-20):]) +
		fmt.Sprintf("from: gemini\nto: %s\ntype: question\npriority: P2\n", to) +
		fmt.Sprintf("created_at_utc: \"2026-03-13T14:30:00Z\"\nsubject: %s\nbody: |\n  First line.\n  Last line.\n", subject)
}

func TestWatchReportsArrivalsAndRemovals(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex", "gemini")
	before := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	watch := follow(t, w, Options{Archived: true}, "codex", "gemini")
	event := watch.want(EventArrived, sentName(before))
	if event.Message == nil || event.Message.ID != before.Message.ID || event.Message.Body.Text != before.Message.Body.Text {
		t.Errorf("the event has message %+v, want %+v", event.Message, before.Message)
	}
	if event.Agent != "codex" || event.Project != project.Name(w) || event.Path != before.Inboxes[0] || event.Box != mailbox.Inbox {
		t.Errorf("the event is %+v, want the file %s of codex", event, before.Inboxes[0])
	}
	for range 3 {
		r := mailboxtest.Send(t, w, mailboxtest.Draft("gemini"))
		if event := watch.want(EventArrived, sentName(r)); event.Message.ID != r.Message.ID || event.Agent != "gemini" {
			t.Errorf("the event has id %s for %s, want %s for gemini", event.Message.ID, event.Agent, r.Message.ID)
		}
	}
	if err := os.Remove(before.Inboxes[0]); err != nil {
		t.Fatal(err)
	}
	gone := watch.want(EventArchived, sentName(before))
	if m := gone.Message; m == nil || m.ID != before.Message.ID || m.From != "claude" || m.Subject != before.Message.Subject || m.Type != schema.TaskRequest || m.Priority != schema.DefaultPriority {
		t.Errorf("the event has message %+v, want id, from, type, priority and subject of %+v", m, before.Message)
	}
	watch.stop()
}

func TestWatchPassesOverWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	watch := follow(t, w, Options{Archived: true}, "codex")
	inbox := w.BoxPath("codex", mailbox.Inbox)
	for _, name := range []string{".hidden.yaml", ".m.yaml.swp", "m.yaml~", "notes.txt", "4913", "m.yml"} {
		check.WriteFile(t, filepath.Join(inbox, name), "nothing")
		if err := os.Remove(filepath.Join(inbox, name)); err != nil {
			t.Fatal(err)
		}
	}
	watch.want(EventArrived, sentName(mailboxtest.Send(t, w, mailboxtest.Draft("codex"))))
	watch.stop()
}

func TestWatchFollowsRenames(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex", "gemini")
	watch := follow(t, w, Options{Archived: true}, "codex")
	r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	watch.want(EventArrived, sentName(r))
	// An editor renames the file away, writes it again and removes the old one: it is the same
	// message. (If this takes longer than a watcher waits, the message leaves and arrives again.)
	data := check.ReadFile(t, r.Inboxes[0])
	for _, step := range []error{
		os.Rename(r.Inboxes[0], r.Inboxes[0]+"~"),
		os.WriteFile(r.Inboxes[0], []byte(data+"# seen\n"), 0o644),
		os.Remove(r.Inboxes[0] + "~"),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	moved := filepath.Join(filepath.Dir(r.Inboxes[0]), "zz.yaml")
	if err := os.Rename(r.Inboxes[0], moved); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for !seen[string(EventArrived)+" zz.yaml"] || !seen[string(EventArchived)+" "+sentName(r)] {
		event := watch.next()
		seen[string(event.Kind)+" "+event.Name] = true
		if event.Kind == EventError {
			t.Fatalf("unexpected event %s", describe(event))
		}
	}
	watch.stop()
}

func TestWatchReplacedMessage(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	path := put(t, w, "codex", "m1.yaml", "one")
	options := Options{Cursor: true, Archived: true}
	watch := follow(t, w, options, "codex")
	watch.want(EventArrived, "m1.yaml")
	replace := func(text string) {
		t.Helper()
		check.WriteFile(t, path+".new", text)
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	replace(messageText("codex", "m2.yaml", "two"))
	if gone := watch.want(EventArchived, "m1.yaml"); gone.Message.Subject != "one" {
		t.Errorf("the removed message has subject %q, want one", gone.Message.Subject)
	}
	if came := watch.want(EventArrived, "m1.yaml"); came.Message.Subject != "two" {
		t.Errorf("the new message has subject %q, want two", came.Message.Subject)
	}
	watch.stop()
	// The same without a watcher, and an edit that is not a new message.
	replace(messageText("codex", "m2.yaml", "still two"))
	wantScan(t, w, options, "codex")
	replace(messageText("codex", "m3.yaml", "three"))
	wantScan(t, w, options, "codex", "message_archived m1.yaml", "new_message m1.yaml")
	wantScan(t, w, options, "codex")
}

func TestWatchReportsBadFilesOncePerVersion(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	inbox := w.BoxPath("codex", mailbox.Inbox)
	old := time.Now().Add(-time.Hour)
	age := func(name string) {
		t.Helper()
		if err := os.Chtimes(filepath.Join(inbox, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	check.WriteFile(t, filepath.Join(inbox, "bad.yaml"), "id: [\n")
	age("bad.yaml")
	if err := os.Mkdir(filepath.Join(inbox, "folder.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	age("folder.yaml")
	put(t, w, "codex", "good.yaml", "good")
	age("good.yaml")
	options := Options{Cursor: true, Since: time.Now()}
	wantScan(t, w, options, "codex", "error bad.yaml", "error folder.yaml")
	wantScan(t, w, options, "codex")
	check.WriteFile(t, filepath.Join(inbox, "bad.yaml"), "id: still bad\n")
	age("bad.yaml")
	wantScan(t, w, options, "codex", "error bad.yaml")
	watch := follow(t, w, options, "codex")
	put(t, w, "codex", "bad.yaml", "mended")
	watch.want(EventArrived, "bad.yaml")
	watch.stop()
	wantScan(t, w, options, "codex")
}

// TestWatchInvalidMail checks that a message that is not valid arrives as an error that shows it,
// arrives again when it is mended, and is archived like others.
func TestWatchInvalidMail(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "codex")
	path := put(t, w, "codex", "a.yaml", "hello")
	valid := check.ReadFile(t, path)
	check.WriteFile(t, path, strings.Replace(valid, "type: question", "type: poem", 1))
	options := Options{Cursor: true, Archived: true}
	if events := scan(t, w, options, "codex"); len(events) != 1 || events[0].Message == nil || events[0].Message.Subject != "hello" {
		t.Errorf("the scan reports %+v, want one error with the message", events)
	}
	wantScan(t, w, options, "codex")
	check.WriteFile(t, path, valid)
	wantScan(t, w, options, "codex", "new_message a.yaml")
	check.WriteFile(t, path, strings.Replace(valid, "type: question", "type: poem", 1))
	wantScan(t, w, options, "codex", "error a.yaml")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	wantScan(t, w, options, "codex", "message_archived a.yaml")
}

func TestWatchSince(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	now := time.Now()
	for name, age := range map[string]time.Duration{"a-day.yaml": 24 * time.Hour, "a-minute.yaml": 2 * time.Minute} {
		path := put(t, w, "codex", name, "old")
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	wantScan(t, w, Options{}, "codex", "new_message a-day.yaml", "new_message a-minute.yaml")
	wantScan(t, w, Options{Since: now}, "codex")
	wantScan(t, w, Options{Since: now.Add(-time.Hour)}, "codex", "new_message a-minute.yaml")
	// The first scan makes a cursor, and after that since has no effect.
	wantScan(t, w, Options{Since: now.Add(-time.Hour), Cursor: true}, "codex", "new_message a-minute.yaml")
	wantScan(t, w, Options{Cursor: true, Archived: true}, "codex")
}

// TestWatchSinceNow checks that a file that another program wrote only now counts as reported.
func TestWatchSinceNow(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	put(t, w, "codex", "just-now.yaml", "old")
	path := put(t, w, "codex", "not-valid.yaml", "old")
	check.WriteFile(t, path, strings.Replace(check.ReadFile(t, path), "type: question", "type: poem", 1))
	wantScan(t, w, Options{Since: time.Now().Add(time.Millisecond)}, "codex")
}

// TestWatchOutbox checks that any box can be watched, and that only inboxes have cursors.
func TestWatchOutbox(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	target := Target{Workspace: w, Agent: "claude", Box: mailbox.Outbox}
	_, err := New([]Target{target}, &Options{Cursor: true})
	check.Error(t, err, w.BoxPath("claude", mailbox.Outbox), "cursor")
	watcher, err := New([]Target{target}, nil)
	if err != nil {
		t.Fatal(err)
	}
	watch := startWatching(t, watcher)
	r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	if event := watch.want(EventArrived, filepath.Base(r.Outbox)); event.Box != mailbox.Outbox || event.Path != r.Outbox {
		t.Errorf("the event is about %s, want %s", event.Path, r.Outbox)
	}
	watch.stop()
}

func TestWatchUnknownAgents(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	var unknown *mailbox.UnknownAgentError
	if _, err := New([]Target{{Workspace: w, Agent: "codx"}}, nil); !errors.As(err, &unknown) {
		t.Errorf("watching an unknown agent: error %v, want an *mailbox.UnknownAgentError", err)
	}
}

func TestWatchBreakDoesNotLoseTheEvent(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	first, second := put(t, w, "codex", "a1.yaml", "first"), put(t, w, "codex", "b1.yaml", "second")
	options := Options{Cursor: true}
	watcher := newTestWatcher(t, w, options, "codex")
	one := func() string {
		for event, err := range watcher.Scan(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			return event.Path
		}
		return ""
	}
	for range 2 {
		if got := one(); got != first {
			t.Errorf("a loop that was left reports %s, want %s again", got, first)
		}
	}
	if err := watcher.Close(); err != nil {
		t.Fatal(err)
	}
	wantScan(t, w, options, "codex", "new_message a1.yaml", "new_message "+filepath.Base(second))
	wantScan(t, w, options, "codex")
}

func TestWatchCompletesDeliveries(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	crashAfterCommit(t, w)
	// The message is older than the watcher, but it arrives now.
	watch := follow(t, w, Options{Cursor: true, Since: time.Now().Add(time.Hour)}, "codex")
	if event := watch.next(); event.Kind != EventArrived {
		t.Errorf("a watcher that starts after a crash reports %s, want %s", describe(event), EventArrived)
	}
	watch.stop()
}

func TestWatchNoticesIncompleteDeliveries(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mailbox.Workspace, watch *watching, _ *scriptedNotifier) {
		crashAfterCommit(t, w)
		mailboxtest.WantFiles(t, w, "agents/codex/inbox")
		time.Sleep(2 * tickEvery)
		if synctest.Wait(); len(watch.events) != 1 {
			t.Fatalf("%d events, want the message", len(watch.events))
		}
		if event := watch.next(); event.Kind != EventArrived || event.Message.From != "claude" {
			t.Errorf("the event is %s, want %s", describe(event), EventArrived)
		}
	})
}

// TestForget checks that a file of the same name and message is reported again after Forget, whether
// it comes back before or after, and that nothing else is.
func TestForget(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	watcher := newTestWatcher(t, w, Options{}, "codex")
	watch := startWatching(t, watcher)
	sent := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	name, away := sentName(sent), filepath.Join(t.TempDir(), "away")
	watch.want(EventArrived, name)
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for _, forgetFirst := range []bool{false, true} {
		rename(sent.Inboxes[0], away)
		if forgetFirst {
			watcher.Forget(name)
		}
		rename(away, sent.Inboxes[0])
		if !forgetFirst {
			watcher.Forget(name)
		}
		watch.want(EventArrived, name)
	}
	watcher.Forget("no such file.yaml")
	watch.want(EventArrived, sentName(mailboxtest.Send(t, w, mailboxtest.Draft("codex"))))
}
