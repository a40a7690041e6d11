package mirror

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// question is a message whose file has the same name as every other one's.
func question(id schema.ID, text string) schema.Message {
	m := message(schema.Question)
	m.ID, m.Body = id, schema.TextValue(text)
	return m
}

// put writes a message file as other tools do: in place, or under another name and then moved.
func (p *place) put(m schema.Message, path string, moved bool) {
	p.t.Helper()
	data, err := schema.Encode(&m)
	target := path
	if moved {
		path = filepath.Join(p.t.TempDir(), "moved")
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err == nil && moved {
		err = os.Rename(path, target)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// TestNameUsedAgain checks that the mirror sees the next message under a name that became free in
// an outbox.
func TestNameUsedAgain(t *testing.T) {
	check.NeedsExclusiveRename(t)
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	first := p.send(question("", "first"))
	if report := p.run(Both); report.Recorded != 1 {
		t.Fatalf("got %+v, want the first message recorded", report)
	}
	path := filepath.Join(p.workspace.BoxPath("claude", mailbox.Outbox), first.FileName())
	err := errors.Join(p.workspace.Acknowledge(p.box("codex", mailbox.Inbox)[0]), os.Remove(path))
	if err != nil {
		t.Fatal(err)
	}
	p.send(question("", "second"))
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("the second message has another name: %v", err)
	}
	if report := p.run(Both); report.Recorded != 1 {
		t.Errorf("got %+v, want the second message recorded", report)
	}
}

// TestNameTakenOver checks that a message that is moved over a recorded one is recorded, too.
func TestNameTakenOver(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	first := question("msg-20260313T1430Z-claude-a8f3", "first")
	path := filepath.Join(p.workspace.BoxPath("claude", mailbox.Outbox), first.FileName())
	p.send(first)
	p.run(Out)
	p.put(question("msg-20260313T1430Z-claude-b8f3", "words2"), path, true) // as long as the first
	if report := p.run(Out); report.Recorded != 1 {
		t.Errorf("got %+v, want the second message recorded", report)
	}
	if report := p.run(Out); !report.quiet() {
		t.Errorf("got %+v, want nothing new", report)
	}
}

// TestChangedBetweenOutAndIn checks that a message whose outbox copy was changed or removed after
// it was recorded is not delivered again.
func TestChangedBetweenOutAndIn(t *testing.T) {
	check.NeedsExclusiveRename(t)
	t.Parallel()
	for _, change := range []string{"changed in place", "changed and moved", "removed"} {
		for _, next := range []Direction{In, Both} {
			p := newPlace(t, "claude", "codex")
			sent := p.send(question("", "as it was"))
			if report := p.run(Out); report.Recorded != 1 {
				t.Fatalf("got %+v, want it recorded", report)
			}
			path := filepath.Join(p.workspace.BoxPath("claude", mailbox.Outbox), sent.FileName())
			changed := *sent
			changed.Body = schema.TextValue("as it is now")
			if change == "removed" {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else {
				p.put(changed, path, change != "changed in place")
			}
			report := p.run(next)
			if got := len(p.box("codex", mailbox.Inbox)); got != 1 || report.Delivered != 0 {
				t.Errorf("%s, then %s: got %+v and %d messages, want the one that was sent", change, next, report, got)
			}
			for range 2 {
				if report := p.run(Both); report.Delivered != 0 {
					t.Errorf("%s, then %s: got %+v later", change, next, report)
				}
			}
		}
	}
}

// TestRemovedThenAnotherLog checks that a message whose outbox copy was removed is not delivered
// again, also after the mirror saw another log in between.
func TestRemovedThenAnotherLog(t *testing.T) {
	check.NeedsExclusiveRename(t)
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	sent := p.send(question("", "gone"))
	if report := p.run(Out); report.Recorded != 1 {
		t.Fatalf("got %+v, want 1 recorded", report)
	}
	log, err := os.ReadFile(p.log.Path())
	if err != nil {
		t.Fatal(err)
	}
	outbox := p.workspace.BoxPath("claude", mailbox.Outbox)
	err = errors.Join(os.Remove(filepath.Join(outbox, sent.FileName())), os.Remove(p.log.Path()))
	if err != nil {
		t.Fatal(err)
	}
	p.append(exampleRecords()...)
	p.send(question("", "another"))
	if report := p.run(Both); report.Recorded != 1 {
		t.Fatalf("got %+v, want 1 recorded", report)
	}
	if err := os.WriteFile(p.log.Path(), log, 0o600); err != nil {
		t.Fatal(err)
	}
	if report := p.run(In); report.Delivered != 0 || report.AlreadyDelivered != 1 {
		t.Errorf("got %+v, want nothing delivered again", report)
	}
}
