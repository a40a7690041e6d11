package track

import (
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/schema"
)

// TestInheritHops sends from the process of a turn, as a resident program does, and from others.
func TestInheritHops(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	hold, err := LockInbox(t.Context(), w, "codex", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	mark, other, driver := orphans.OwnerOf("").NewMark(), orphans.OwnerOf("").NewMark(), orphans.OwnerOf("").NewMark()
	f := Started.Of(&Envelope{Key: Key{ID: "msg-20260313T1430Z-claude-aaaa"}, From: "claude", Hops: 4})
	f.Marks = []orphans.Mark{driver, mark}
	ended := Started.Of(&Envelope{Key: Key{ID: "msg-20260313T1431Z-claude-bbbb"}, From: "claude", Hops: 9})
	ended.Marks = f.Marks
	if err := appendFacts(w, "codex", f, ended, Succeeded.Of(&ended.Envelope)); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name             string
		from             schema.AgentName
		marks, agent, id string
		auth             string
		hops, wanted     int
	}{
		{name: "turn", from: "codex", marks: string(mark), wanted: 5},
		{name: "resident program", from: "codex", marks: "x:" + string(driver), wanted: 5},
		{name: "in the name of another agent", from: "gemini", marks: string(mark), agent: "codex", wanted: 5},
		{name: "container", from: "codex", id: "msg-20260313T1430Z-claude-aaaa", wanted: 5},
		{name: "another turn", from: "codex", marks: string(other), hops: 2, wanted: 2},
		{name: "no turn", from: "codex"},
		{name: "no runner", from: "gemini", marks: string(mark), agent: "../codex"},
		{name: "signed", from: "codex", marks: string(mark), auth: "x"},
	}
	for _, test := range tests {
		t.Setenv(orphans.Variable, test.marks)
		t.Setenv("OACP_AGENT", test.agent)
		t.Setenv("OACP_MESSAGE_ID", test.id)
		m := schema.Message{From: test.from, Marks: schema.Marks{Hops: test.hops}, Auth: test.auth}
		if err := InheritHops(w, &m); err != nil || m.Marks.Hops != test.wanted {
			t.Errorf("%s: %d hops, %v; want %d", test.name, m.Marks.Hops, err, test.wanted)
		}
	}
	if err := hold.Release(); err != nil {
		t.Error(err)
	}
	t.Setenv(orphans.Variable, string(mark))
	m := schema.Message{From: "codex"}
	if err := InheritHops(w, &m); err != nil || m.Marks.Hops != 0 {
		t.Errorf("after the runner: %d hops, %v; want none", m.Marks.Hops, err)
	}
}
