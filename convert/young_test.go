package convert

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

const longText = "first line\nsecond line\nthird line\n"

// half writes the beginning of a message, which is a message too, into claude's outbox and returns its path
// and what is missing.
func (p *place) half(name string) (path string, rest []byte) {
	p.t.Helper()
	m := question("msg-20260313T1430Z-claude-a8f3", longText)
	data, err := schema.Encode(&m)
	if err != nil {
		p.t.Fatal(err)
	}
	cut := strings.Index(string(data), "  second line")
	path = filepath.Join(p.workspace.BoxPath("claude", mailbox.Outbox), name)
	if err := os.WriteFile(path, data[:cut], 0o644); err != nil {
		p.t.Fatal(err)
	}
	return path, data[cut:]
}

func (p *place) appendTo(path string, data []byte) {
	p.t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.Write(data)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// wantWhole checks that the log holds the message that was written in two parts, whole and once.
func (p *place) wantWhole() {
	p.t.Helper()
	records := p.records()
	if len(records) != 1 || !strings.HasSuffix(records[0].Content, longText) {
		p.t.Errorf("got %+v, want the whole message once", records)
	}
}

// TestHalfWrittenFile: a mirror that runs once waits for who is writing a message in its place.
func TestHalfWrittenFile(t *testing.T) {
	for _, name := range []string{"by hand.yaml", "20260313T1430Z_claude_question.yaml", "20260313143005_claude_question_1f2e.yaml"} {
		p := newPlace(t, "claude", "codex")
		path, rest := p.half(name)
		later := time.Duration(0)
		young := newNursery()
		young.quiet = time.Minute
		young.now = func() time.Time { return time.Now().Add(later) }
		young.pause = func(_ context.Context, d time.Duration) error {
			if rest != nil {
				p.appendTo(path, rest)
				rest = nil
			}
			later += d
			return nil
		}
		m := p.mirror(Out)
		m.young = young
		s, err := m.open()
		if err != nil {
			t.Fatal(err)
		}
		s.outward.patience = time.Hour
		report, err := s.pass(context.Background(), nil)
		if err = errors.Join(err, s.close()); err != nil || report.Recorded != 1 || len(report.Warnings) > 0 {
			t.Errorf("%s: got %+v, %v, want 1 recorded", name, report, err)
		}
		p.wantWhole()
		if report := p.run(Out); !report.Quiet() {
			t.Errorf("%s: got %+v, want nothing new", name, report)
		}
	}
}

// TestFileThatIsWrittenForEver: patience ends, the file is named, and it is recorded another time.
func TestFileThatIsWrittenForEver(t *testing.T) {
	p := newPlace(t, "claude", "codex")
	path, rest := p.half("by hand.yaml")
	young := newNursery()
	young.quiet = time.Hour
	m := p.mirror(Out)
	m.young = young
	report, err := m.Run(context.Background())
	if err != nil || report.Recorded != 0 || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], path) {
		t.Errorf("got %+v, %v, want nothing recorded and a warning that names %s", report, err, path)
	}
	p.appendTo(path, rest)
	if report := p.run(Out); report.Recorded != 1 {
		t.Errorf("got %+v, want the message recorded", report)
	}
	p.wantWhole()
}

// TestFollowHalfWrittenFile: a mirror that follows looks again when the file has been left alone.
func TestFollowHalfWrittenFile(t *testing.T) {
	p := newPlace(t, "claude", "codex")
	f := newFollowing(t)
	m := p.mirror(Out)
	m.young = newNursery()
	var later atomic.Int64
	m.young.now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	m.young.quiet = time.Hour
	s, err := m.open()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	events, ticks, ended := make(chan fsnotify.Event), make(chan time.Time), make(chan error)
	go func() {
		ended <- (&follower{session: s, tell: f.tell, warned: make(map[string]bool)}).loop(ctx, events, nil, ticks)
	}()
	path, rest := p.half("by hand.yaml")
	events <- fsnotify.Event{Name: path, Op: fsnotify.Create}
	ticks <- time.Time{} // so the event was dealt with
	p.appendTo(path, rest)
	events <- fsnotify.Event{Name: path, Op: fsnotify.Write}
	ticks <- time.Time{}
	if got := p.records(); len(got) > 0 {
		t.Errorf("got %+v, want nothing yet", got)
	}
	later.Store(int64(2 * time.Hour))
	ticks <- time.Time{}
	f.until(func() bool { return f.sum.Recorded == 1 })
	stop()
	if err := errors.Join(<-ended, s.close()); err != nil {
		t.Error(err)
	}
	p.wantWhole()
}

// TestFollowLooksAgainByItself: nothing tells that a file is not written any more.
func TestFollowLooksAgainByItself(t *testing.T) {
	p := newPlace(t, "claude", "codex")
	f := newFollowing(t)
	m := p.mirror(Out)
	m.young = newNursery()
	s, err := m.open()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	events, ended := make(chan fsnotify.Event), make(chan error)
	go func() {
		ended <- (&follower{session: s, tell: f.tell, warned: make(map[string]bool)}).loop(ctx, events, nil, nil)
	}()
	path, rest := p.half("by hand.yaml")
	p.appendTo(path, rest)
	events <- fsnotify.Event{Name: path, Op: fsnotify.Write}
	f.until(func() bool { return f.sum.Recorded == 1 })
	stop()
	if err := errors.Join(<-ended, s.close()); err != nil {
		t.Error(err)
	}
	p.wantWhole()
}

// TestMovedFilesAreWhole: what the workspace itself puts into an outbox is not waited for.
func TestMovedFilesAreWhole(t *testing.T) {
	p := newPlace(t, "claude", "codex")
	sent := p.send(question("", longText))
	path := filepath.Join(p.workspace.BoxPath("claude", mailbox.Outbox), sent.FileName())
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if stampOf(info).changed == 0 {
		t.Skip("this system does not tell when a file was moved")
	}
	m := p.mirror(Out)
	m.young = newNursery()
	m.young.quiet = time.Hour
	m.young.pause = func(context.Context, time.Duration) error { return errors.New("it is waited for") }
	if report, err := m.Run(context.Background()); err != nil || report.Recorded != 1 {
		t.Errorf("got %+v, %v, want the message recorded at once", report, err)
	}
}

// TestMovedMark: only what has the mark of the mailbox is taken at once, and not what was touched in another way.
func TestMovedMark(t *testing.T) {
	const ours = "20260313T1430Z_claude_question.yaml"
	second := int64(time.Second)
	back := int64(mailbox.MovedBack)
	for _, test := range []struct {
		what, name        string
		modified, changed int64
		want              bool
	}{
		{"as the mailbox puts it", ours, 5 * second, 5*second + back, true},
		{"and looked at later", ours, 5 * second, 9 * second, true},
		{"of another tool", "by hand.yaml", 5 * second, 5*second + back, false},
		{"being written", ours, 5*second + 123456, 5*second + 123456, false},
		{"renamed soon after it was written", ours, 5*second + 123456, 5*second + 200000, false},
		{"whose mode was changed later", ours, 5*second + 123456, 9 * second, false},
		{"where nothing tells of changes", ours, 5 * second, 0, false},
	} {
		f := &outboxFile{name: test.name, stamp: stamp{modified: test.modified, changed: test.changed}}
		if got := wasMoved(f); got != test.want {
			t.Errorf("a file %s: got %t, want %t", test.what, got, test.want)
		}
	}
}

// TestFileChangesWhileItIsRead: what was read then is not believed.
func TestFileChangesWhileItIsRead(t *testing.T) {
	p := newPlace(t, "claude", "codex")
	sent := p.send(question("", longText))
	s, err := p.mirror(Out).open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	dir, err := s.outboxes.open("claude")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	}()
	o := &scan{dirs: map[schema.AgentName]*durable.Dir{"claude": dir}}
	f := &outboxFile{agent: "claude", name: sent.FileName()}
	if o.load(f); !errors.Is(f.err, errChanging) || f.message != nil {
		t.Errorf("a file that is not as it was found: got %+v, %v, want an error", f.message, f.err)
	}
}

// TestFileChangesBeforeItIsReadAgain: a file that was too much to be kept in memory, and is another one when it is
// read again, is named and left for another time.
func TestFileChangesBeforeItIsReadAgain(t *testing.T) {
	p := newPlace(t, "claude", "codex")
	sent := p.send(question("", longText))
	s, err := p.mirror(Out).open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	dir, err := s.outboxes.open("claude")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx := context.Background()
	if err := errors.Join(s.outward.load(ctx), s.outward.needJournal(ctx)); err != nil {
		t.Fatal(err)
	}
	found := &scan{dirs: map[schema.AgentName]*durable.Dir{"claude": dir}, again: make(map[schema.AgentName]bool)}
	var report Report
	f := &outboxFile{agent: "claude", name: sent.FileName()} // with another stamp than it has now
	if err := s.outward.record(ctx, found, []*outboxFile{f}, &report); err != nil {
		t.Fatal(err)
	}
	if report.Recorded != 0 || !found.again["claude"] || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], f.name) {
		t.Errorf("got %+v, again %v, want a warning that names the file", report, found.again)
	}
}
