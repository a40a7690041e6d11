package mailbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// place encodes a message and puts it into a box under a name, as another tool would.
func place(t testing.TB, w *Workspace, agent schema.AgentName, box Box, name string, m schema.Message) {
	t.Helper()
	data, err := schema.Encode(&m)
	if err != nil {
		t.Fatal(err)
	}
	check.WriteFile(t, filepath.Join(w.BoxPath(agent, box), name), string(data))
}

// message returns a message from claude to codex. Its id ends in rand, and it was created at the
// given second of testTime's minute.
func message(rand string, second int) schema.Message {
	m := draft("codex")
	m.ID = schema.ID("msg-20260313T1430Z-claude-" + rand)
	m.Priority = schema.P2
	m.CreatedAt = schema.Timestamp(fmt.Sprintf("2026-03-13T14:30:%02dZ", second))
	return m
}

func TestInboxIsInProcessingOrder(t *testing.T) {
	messages := []struct {
		rand     string
		priority schema.Priority
		kind     schema.Type
		second   int
	}{
		{"a000", "P0", schema.Notification, 50},
		{"a001", "P1", schema.TaskRequest, 40},
		{"a002", "P1", schema.Question, 30},
		{"a003", "", schema.ReviewRequest, 10}, // counts as P2
		{"a004", "P2", schema.TaskRequest, 20},
		{"a005", "P2", schema.Question, 1},
		{"a006", "P2", schema.Question, 2},
		{"a007", "P2", schema.Notification, 0},
		{"a008", "P3", schema.TaskRequest, 5},
		{"a009", "P3", schema.TaskRequest, 5}, // the id decides
	}
	w := newWorkspace(t, "claude", "codex")
	var want []schema.ID
	for _, i := range rand.Perm(len(messages)) {
		m := message(messages[i].rand, messages[i].second)
		m.Priority, m.Type = messages[i].priority, messages[i].kind
		place(t, w, "codex", Inbox, messages[i].rand+".yaml", m)
	}
	for _, m := range messages {
		want = append(want, message(m.rand, 0).ID)
	}
	if got := inboxIDs(t, w, "codex"); !slices.Equal(got, want) {
		t.Errorf("the inbox lists %v, want %v", got, want)
	}
}

// TestInboxShowsBadFilesAsRows checks that bad files neither fail the listing nor hide a good
// message, and that files without a message's name are left out.
func TestInboxShowsBadFilesAsRows(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	inbox := w.BoxPath("codex", Inbox)
	place(t, w, "codex", Inbox, "20260313T1430Z_claude_task_request.yaml", message("good", 0))
	check.WriteFile(t, filepath.Join(inbox, "b-broken.yaml"), "id: [")
	check.WriteFile(t, filepath.Join(inbox, "c-empty.yaml"), "")
	check.WriteFile(t, filepath.Join(inbox, "d-large.yaml"), "# "+strings.Repeat("x", schema.MaxFileSize))
	if err := os.Mkdir(filepath.Join(inbox, "e-folder.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	check.WriteFile(t, filepath.Join(w.dir, "outside.yaml"), "secret")
	for link, to := range map[string]string{"f-escape.yaml": "../../../outside.yaml", "g-dangling.yaml": "nothing.yaml"} {
		if err := os.Symlink(to, filepath.Join(inbox, link)); err != nil {
			t.Fatal(err)
		}
	}
	makePipe(t, filepath.Join(inbox, "h-pipe.yaml"))
	for _, name := range []string{".hidden.yaml", ".x.tmp-12-abcdef", "notes.txt", "message.yml", "message.yaml.bak"} {
		check.WriteFile(t, filepath.Join(inbox, name), "no message")
	}

	entries, err := w.Inbox(t.Context(), "codex")
	if err != nil {
		t.Fatalf("listing: %v", err)
	}
	if entries[0].Err != nil || entries[0].Message.ID != message("good", 0).ID {
		t.Errorf("the first row is %+v, want the good message", entries[0])
	}
	var invalid *validate.InvalidError
	wants := []struct {
		name  string
		check func(error) bool
	}{
		{"b-broken.yaml", func(err error) bool { return errors.As(err, &invalid) }},
		{"c-empty.yaml", func(err error) bool { return errors.As(err, &invalid) }},
		{"d-large.yaml", func(err error) bool { return errors.Is(err, durable.ErrTooLarge) }},
		{"e-folder.yaml", func(err error) bool { return errors.Is(err, durable.ErrNotRegular) }},
		{"f-escape.yaml", func(err error) bool { return err != nil }},
		{"g-dangling.yaml", func(err error) bool { return err != nil }},
		{"h-pipe.yaml", func(err error) bool { return errors.Is(err, durable.ErrNotRegular) }},
	}
	if len(entries) != 1+len(wants) {
		t.Fatalf("there are %d rows, want %d: %+v", len(entries), 1+len(wants), entries)
	}
	for i, want := range wants {
		e := entries[i+1]
		if e.Name != want.name || !want.check(e.Err) || e.Message != nil {
			t.Errorf("row %d is %s with %v, want %s with its error and no message", i+1, e.Name, e.Err, want.name)
		}
		if e.Path != filepath.Join(inbox, want.name) || e.Agent != "codex" || e.Box != Inbox {
			t.Errorf("row %d says that it is %s in %s of %s", i+1, e.Path, e.Box, e.Agent)
		}
		if e.Modified.IsZero() {
			t.Errorf("%s has no time of arrival", e.Name)
		}
	}
}

// TestInvalidMessages checks what can be read of messages that are not valid: in the listing, behind
// the valid ones, and when they are looked for.
func TestInvalidMessages(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	good := message("aaaa", 2)
	good.ConversationID = "conv-20260313-claude-1"
	place(t, w, "claude", Outbox, "good.yaml", good)
	place(t, w, "codex", Inbox, "other.yaml", message("bbbb", 3))
	inbox := w.BoxPath("codex", Inbox)
	data := check.ReadFile(t, filepath.Join(w.BoxPath("claude", Outbox), "good.yaml"))
	check.WriteFile(t, filepath.Join(inbox, "damaged.yaml"), strings.Replace(data, "task_request", "task-request", 1))
	check.WriteFile(t, filepath.Join(inbox, "no-id.yaml"), strings.TrimPrefix(data, "id: "+string(good.ID)+"\n"))
	check.WriteFile(t, filepath.Join(inbox, "unread.yaml"), "id: [")

	entries, err := w.Inbox(t.Context(), "codex")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
		if m := e.Message; e.Err == nil != (e.Name == "other.yaml") || m == nil != (e.Name == "unread.yaml") || m != nil && m.Subject != good.Subject {
			t.Errorf("%s has the message %+v and the error %v", e.Name, m, e.Err)
		}
	}
	if want := []string{"other.yaml", "unread.yaml", "no-id.yaml", "damaged.yaml"}; !slices.Equal(names, want) {
		t.Errorf("the inbox lists %q, want %q", names, want)
	}

	found, err := w.Find(t.Context(), "aaaa")
	if err != nil || len(found) != 2 || found[0].Name != "good.yaml" || found[1].Name != "damaged.yaml" || found[1].Message.Type != "task-request" {
		t.Errorf("found %+v (%v), want the valid copy and then the damaged one", found, err)
	}
	for _, name := range []string{"aaaa", "damaged.yaml", "no-id.yaml", "unread.yaml"} {
		if e, err := w.Pending(t.Context(), name, "codex"); err != nil || e.Err == nil || e.Box != Inbox {
			t.Errorf("the pending file of %s is %+v (%v), want the one that is not valid", name, e, err)
		}
	}
}

func TestInboxOfNobody(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	var unknown *UnknownAgentError
	if _, err := w.Inbox(t.Context(), "gemni"); !errors.As(err, &unknown) {
		t.Fatalf("listing gave %v, want an UnknownAgentError", err)
	}
	if len(unknown.Known) != 3 || unknown.Known[0] != "gemini" {
		t.Errorf("the known agents are %v, want all three and gemini, the nearest, first", unknown.Known)
	}
	check.Error(t, unknown, "gemni", "gemini", w.dir)
	if _, err := w.Inbox(t.Context(), "../codex"); err == nil || errors.As(err, &unknown) {
		t.Errorf("listing the inbox of a path gave %v, want an invalid name error", err)
	}
	if err := os.RemoveAll(w.BoxPath("codex", Inbox)); err != nil {
		t.Fatal(err)
	}
	if entries, err := w.Inbox(t.Context(), "codex"); err != nil || len(entries) != 0 {
		t.Errorf("a missing inbox lists %v (%v), want nothing", entries, err)
	}
}

func TestInboxStopsWhenCancelled(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	place(t, w, "codex", Inbox, "a.yaml", message("aaaa", 0))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, err := w.Inbox(ctx, "codex"); !errors.Is(err, why) {
		t.Errorf("listing gave %v, want the cause of the cancellation", err)
	}
}

// TestInboxOfMany lists more files than one worker takes at once.
func TestInboxOfMany(t *testing.T) {
	const n = 500
	w := newWorkspace(t, "claude", "codex")
	ids := fillInbox(t, w, "codex", n)
	got := inboxIDs(t, w, "codex")
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		t.Errorf("the inbox lists %d messages, want the %d that are there", len(got), n)
	}
}
