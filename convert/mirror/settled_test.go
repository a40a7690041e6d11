package mirror

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

const longText = "first line\nsecond line\nthird line\n"

// half writes the beginning of a message, which is a message too, into claude's outbox and returns
// its path and what is missing.
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

// TestHalfWrittenFile checks that Run waits for a program that writes a message in place.
func TestHalfWrittenFile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"by hand.yaml", "20260313T1430Z_claude_question.yaml", "20260313143005_claude_question_1f2e.yaml"} {
		p := newPlace(t, "claude", "codex")
		path, rest := p.half(name)
		pauses := 0
		m := p.mirror(Out)
		m.now = time.Now
		m.pause = func(ctx context.Context, d time.Duration) error {
			if pauses++; pauses == 1 {
				p.appendTo(path, rest)
			}
			return wait(ctx, d)
		}
		report, err := m.Run(context.Background())
		if err != nil || report.Recorded != 1 || len(report.Warnings) > 0 || pauses == 0 {
			t.Errorf("%s: got %+v, %v after %d pauses, want 1 recorded", name, report, err, pauses)
		}
		p.wantWhole()
		if report := p.run(Out); !report.quiet() {
			t.Errorf("%s: got %+v, want nothing new", name, report)
		}
	}
}

// TestFileThatIsWrittenForever checks that Run gives up waiting, names the file, and records it
// another time.
func TestFileThatIsWrittenForever(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	path, rest := p.half("by hand.yaml")
	m := p.mirror(Out)
	start := time.Now()
	waited := time.Duration(0)
	m.now = func() time.Time { return start.Add(waited) }
	m.pause = func(_ context.Context, d time.Duration) error {
		waited += d
		now := start.Add(waited)
		return os.Chtimes(path, now, now)
	}
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

// TestFollowHalfWrittenFile checks that Follow looks again by itself when the file is settled.
func TestFollowHalfWrittenFile(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	f := newFollowing(t)
	m := p.mirror(Out)
	m.now = time.Now
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	path, rest := p.half("by hand.yaml")
	go func() { ended <- m.Follow(ctx, f.tell) }()
	p.appendTo(path, rest)
	f.until(func() bool { return f.sum.Recorded == 1 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	p.wantWhole()
}

// TestDeliveredFilesAreSettled checks that Run does not wait for files that the workspace itself
// put into an outbox.
func TestDeliveredFilesAreSettled(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	p.send(question("", longText))
	m := p.mirror(Out)
	m.now = time.Now
	m.pause = func(context.Context, time.Duration) error { return errors.New("it waits for the file") }
	if report, err := m.Run(context.Background()); err != nil || report.Recorded != 1 {
		t.Errorf("got %+v, %v, want the message recorded at once", report, err)
	}
}

// TestFileChangesWhileItIsRead checks that a file that changes while it is read counts as
// unsettled.
func TestFileChangesWhileItIsRead(t *testing.T) {
	check.NeedsExclusiveRename(t)
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	sent := p.send(question("", longText))
	session, err := p.mirror(Out).open()
	if err != nil {
		t.Fatal(err)
	}
	var report Report
	entry := mailbox.Entry{Agent: "claude", Box: mailbox.Outbox, Name: sent.FileName()}
	f := &outboxFile{entry: entry, box: &outbox{done: make(map[fileKey]bool)}} // with another key than it has now
	if err := session.record(t.Context(), []*outboxFile{f}, &report); err != nil {
		t.Fatal(err)
	}
	if report.Recorded != 0 || len(f.box.done) != 0 || len(session.unsettled) != 1 {
		t.Errorf("got %+v, unsettled %v, want the file left for another time", report, session.unsettled)
	}
}
