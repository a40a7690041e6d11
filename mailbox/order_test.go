package mailbox

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// subjects returns the subjects of the messages in codex's inbox, in the order of the listing.
func subjects(t *testing.T, w *Workspace) []string {
	t.Helper()
	entries, err := w.Inbox(t.Context(), "codex")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		if e.Err != nil {
			t.Fatal(e.Err)
		}
		all = append(all, e.Message.Subject)
	}
	return all
}

// TestSendsKeepTheirOrder sends messages singly and in batches, while the clock stands still and is
// set back.
func TestSendsKeepTheirOrder(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	now := testTime.Add(59*time.Second + 999*time.Millisecond)
	w.now = func() time.Time { return now }
	var want []string
	next := func() schema.Message {
		m := draft("codex")
		m.Type = []schema.Type{schema.Question, schema.ReviewFeedback, schema.BrainstormRequest}[len(want)%3]
		m.From = []schema.AgentName{"claude", "gemini"}[len(want)%2]
		m.Subject = fmt.Sprintf("message %d", len(want))
		want = append(want, m.Subject)
		return m
	}
	for i := range 20 {
		switch i {
		case 5:
			now = now.Add(-time.Hour)
		case 10:
			now = now.Add(time.Hour)
		}
		send(t, w, next())
		for _, r := range w.SendAll(t.Context(), []schema.Message{next(), next(), next()}, nil) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	if got := subjects(t, w); !slices.Equal(got, want) {
		t.Errorf("the inbox has the order\n%q, want\n%q", got, want)
	}
}

// takenOnce is a disk on which another process takes the first name in an outbox just before it is
// published.
type takenOnce struct {
	durable.Disk
	taken bool
}

func (d *takenOnce) Publish(from *durable.Dir, name string, to *durable.Dir, newName string, unique bool) error {
	if !d.taken && strings.Contains(name, "@outbox@") {
		d.taken = true
		return fs.ErrExist
	}
	return d.Disk.Publish(from, name, to, newName, unique)
}

// TestBatchKeepsItsOrderWhenANameIsTaken delivers the first message of a batch after the others.
func TestBatchKeepsItsOrderWhenANameIsTaken(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	files := &takenOnce{}
	w.files = files
	var batch []schema.Message
	var want []string
	for i := range 4 {
		m := draft("codex")
		m.Subject = fmt.Sprintf("message %d", i)
		batch, want = append(batch, m), append(want, m.Subject)
	}
	for _, r := range w.SendAll(t.Context(), batch, nil) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if got := subjects(t, w); !slices.Equal(got, want) || !files.taken {
		t.Errorf("the inbox has the order %q, want %q", got, want)
	}
}

// TestSendWithAGivenTime checks that the id follows the time that the caller gives, in the order of
// the batch.
func TestSendWithAGivenTime(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	var batch []schema.Message
	var want []string
	for i := range 4 {
		m := draft("codex")
		m.Subject, m.CreatedAt = fmt.Sprintf("message %d", i), "2025-01-02T03:04:05Z"
		batch, want = append(batch, m), append(want, m.Subject)
	}
	for _, r := range w.SendAll(t.Context(), batch, nil) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if m := r.Receipt.Message; !strings.HasPrefix(string(m.ID), "msg-20250102T0304Z-claude-3") || m.CreatedAt != batch[0].CreatedAt {
			t.Errorf("a message of the given time has the id %s and the time %s", m.ID, m.CreatedAt)
		}
	}
	if got := subjects(t, w); !slices.Equal(got, want) {
		t.Errorf("the inbox has the order %q, want %q", got, want)
	}
}
