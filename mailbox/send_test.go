package mailbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

func TestSendPutsTheSameBytesEverywhere(t *testing.T) {
	check.NeedsExclusiveRename(t)
	w := newWorkspace(t, "claude", "codex", "gemini")
	r := send(t, w, draft("codex", "gemini"))

	const name = "20260313T1430Z_claude_task_request.yaml"
	wantFiles(t, w, "agents/claude/outbox", name)
	wantFiles(t, w, "agents/codex/inbox", name)
	wantFiles(t, w, "agents/gemini/inbox", name)
	wantFiles(t, w, "state/outgoing")
	want := check.ReadFile(t, r.Outbox)
	for _, path := range r.Inboxes {
		if got := check.ReadFile(t, path); got != want {
			t.Errorf("%s holds %q, want the outbox copy %q", path, got, want)
		}
	}
	if r.Message.Priority != schema.P2 {
		t.Errorf("priority is %q, want P2", r.Message.Priority)
	}
	inbox, _ := os.Stat(r.Inboxes[0])
	outbox, _ := os.Stat(r.Outbox)
	if os.SameFile(inbox, outbox) {
		t.Error("inbox and outbox copies are one file, want two")
	}
}

func TestSendTakesTheLongNameWhenTheShortOneIsTaken(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	first := send(t, w, draft("codex"))
	second := send(t, w, draft("codex"))
	parts, err := schema.ParseID(second.Message.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(parts.Rand); got != schema.LongRand {
		t.Errorf("second message's rand %q has %d characters, want %d", parts.Rand, got, schema.LongRand)
	}
	wantName := "20260313T1430Z_claude_task_request_" + parts.Rand + ".yaml"
	wantFiles(t, w, "agents/codex/inbox", filepath.Base(first.Inboxes[0]), wantName)
	wantFiles(t, w, "agents/claude/outbox", filepath.Base(first.Outbox), wantName)
}

func TestSendNeverReplacesAForeignFile(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	path := filepath.Join(w.dir, "agents/codex/inbox/20260313T1430Z_claude_task_request.yaml")
	check.WriteFile(t, path, "foreign")
	r := send(t, w, draft("codex"))
	if got := check.ReadFile(t, path); got != "foreign" {
		t.Errorf("the foreign file holds %q now", got)
	}
	if r.Inboxes[0] == path {
		t.Errorf("the message is reported at %s, which is the foreign file", path)
	}
	if filepath.Base(r.Outbox) != filepath.Base(r.Inboxes[0]) {
		t.Errorf("outbox name %s, inbox name %s, want the same", r.Outbox, r.Inboxes[0])
	}
}

func TestSendWithAGivenIDIsSentOnce(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	m := draft("codex")
	m.ID, m.CreatedAt = "msg-20260313T1430Z-claude-0123456789abcdef", "2026-03-13T14:30:00Z"
	first := send(t, w, m)
	if first.AlreadySent {
		t.Error("the first send says that the message was sent already")
	}
	entries, err := w.Inbox(t.Context(), "codex")
	if err != nil || len(entries) != 1 {
		t.Fatalf("inbox has %d messages (%v), want 1", len(entries), err)
	}
	if err := w.Acknowledge(entries[0]); err != nil {
		t.Fatal(err)
	}
	if again := send(t, w, m); !again.AlreadySent {
		t.Error("the second send does not say that the message was sent already")
	}
	wantFiles(t, w, "agents/codex/inbox")

	m.Subject = "Another subject"
	if _, err := w.Send(t.Context(), m, nil); !errors.Is(err, ErrIDTaken) {
		t.Errorf("another message of the same id gave %v, want ErrIDTaken", err)
	}
	results := w.SendAll(t.Context(), []schema.Message{withID(m, "aaaa"), withID(m, "aaaa")}, nil)
	if results[0].Err != nil || results[1].Err != nil || results[0].Receipt.AlreadySent || !results[1].Receipt.AlreadySent {
		t.Errorf("one message twice in one batch gave %+v, want it sent once", results)
	}
}

// TestSendAgainAfterAKill sends a message again whose first delivery was killed after its commit, into an inbox that cannot be
// used at first: what was sent already counts as queued until it is delivered.
func TestSendAgainAfterAKill(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	killBefore(t, w, true, "publish "+string(faultDraft(true).ID)+"@codex@inbox")
	inbox := w.BoxPath("codex", Inbox)
	if err := os.Rename(inbox, inbox+"-away"); err != nil {
		t.Fatal(err)
	}
	check.WriteFile(t, inbox, "no folder")
	found, err := w.List(t.Context(), "claude", Outbox)
	if err != nil || len(found) != 1 {
		t.Fatalf("the outbox has %v, %v; want the message", found, err)
	}
	r, err := w.Resend(found[0].Message, found[0].Path)
	if queued, ok := errors.AsType[*QueuedError](err); !ok || !r.AlreadySent || !slices.Equal(queued.Agents, []schema.AgentName{"codex"}) {
		t.Fatalf("sending again gave %+v, %v; want a receipt, and that the copy of codex is queued", r, err)
	}
	check.Remove(t, inbox)
	if err := os.Rename(inbox+"-away", inbox); err != nil {
		t.Fatal(err)
	}
	if r, err := w.Resend(found[0].Message, found[0].Path); err != nil || !r.AlreadySent {
		t.Errorf("sending again gave %+v, %v; want that it was sent already", r, err)
	}
	if got := inboxIDs(t, w, "codex"); len(got) != 1 || got[0] != r.Message.ID {
		t.Errorf("the inbox has %v, want %s", got, r.Message.ID)
	}
}

// TestSendWithAGivenIDAndNoTimeIsSentOnce sends the message again minutes later.
func TestSendWithAGivenIDAndNoTimeIsSentOnce(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	m := withID(draft("codex"), "0123456789abcdef")
	first := send(t, w, m)
	w.now = func() time.Time { return testTime.Add(5 * time.Minute) }
	if again := send(t, w, m); !again.AlreadySent || again.Outbox != first.Outbox {
		t.Errorf("the second send gave %+v, want the message already sent as %s", again, first.Outbox)
	}
	wantFiles(t, w, "agents/codex/inbox", filepath.Base(first.Inboxes[0]))
}

func TestSendAgainWhatHasItsShortName(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	first := send(t, w, draft("codex"))
	again := send(t, w, *first.Message)
	if !again.AlreadySent || again.Outbox != first.Outbox {
		t.Errorf("sending %s again gave %+v, want it known at %s", first.Message.ID, again, first.Outbox)
	}
	if got := len(inboxIDs(t, w, "codex")); got != 1 {
		t.Errorf("inbox has %d messages, want 1", got)
	}
}

func withID(m schema.Message, rand string) schema.Message {
	m.ID = schema.ID("msg-20260313T1430Z-claude-" + rand)
	return m
}

func TestSendRefusesBeforeAnythingIsVisible(t *testing.T) {
	long := strings.Repeat("a", 65)
	tests := []struct {
		name   string
		change func(*schema.Message)
		words  []string
	}{
		{"unknown recipient", func(m *schema.Message) { m.To = []schema.AgentName{"codx"} }, []string{`no agent "codx"`, "codex"}},
		{"unknown sender", func(m *schema.Message) { m.From = "cloude" }, []string{`no agent "cloude"`, "claude"}},
		{"parent folder", func(m *schema.Message) { m.To = []schema.AgentName{".."} }, []string{".."}},
		{"path", func(m *schema.Message) { m.To = []schema.AgentName{"a/b"} }, []string{"a/b"}},
		{"option", func(m *schema.Message) { m.To = []schema.AgentName{"-x"} }, []string{"-x"}},
		{"long name", func(m *schema.Message) { m.To = []schema.AgentName{schema.AgentName(long)} }, []string{"64"}},
		{"sender is a path", func(m *schema.Message) { m.From = "../x" }, []string{"../x"}},
		{"to itself", func(m *schema.Message) { m.To = []schema.AgentName{"claude"} }, []string{"to"}},
		{"twice", func(m *schema.Message) { m.To = []schema.AgentName{"codex", "codex"} }, []string{"codex"}},
		{"no subject", func(m *schema.Message) { m.Subject = "" }, []string{"subject"}},
		{"bad type", func(m *schema.Message) { m.Type = "taskrequest" }, []string{"taskrequest"}},
		{"long body", func(m *schema.Message) { m.Body = schema.TextValue(strings.Repeat("ü", 20_001)) }, []string{"20001"}},
		{"not UTF-8", func(m *schema.Message) { m.Body = schema.TextValue("a\xffb") }, []string{"UTF-8"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorkspace(t, "claude", "codex", "gemini")
			before := tree(t, w)
			m := draft("codex")
			test.change(&m)
			_, err := w.Send(t.Context(), m, nil)
			check.Error(t, err, test.words...)
			if after := tree(t, w); after != before {
				t.Errorf("the refused message changed the workspace:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

// tree lists every path below the workspace but the file that counts conversations, also of messages that
// are refused later.
func tree(t testing.TB, w *Workspace) string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(w.dir, func(path string, _ os.DirEntry, err error) error {
		if filepath.Base(path) != "conversations" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(paths, "\n")
}

func TestSendCreatesMailboxesOnlyWhenAsked(t *testing.T) {
	w := newWorkspace(t, "claude")
	if _, err := w.Send(t.Context(), draft("codex"), &SendOptions{Create: true}); err != nil {
		t.Fatal(err)
	}
	if !w.Knows("codex") {
		t.Error("the recipient has no mailbox")
	}
}

func TestSendRefusesFoldersThatAreNone(t *testing.T) {
	outside := t.TempDir()
	tests := []struct {
		name   string
		break_ func(t *testing.T, inbox string)
	}{
		{"a file", func(t *testing.T, inbox string) { check.WriteFile(t, inbox, "no folder") }},
		{"a link out of the workspace", func(t *testing.T, inbox string) {
			if err := os.Symlink(outside, inbox); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorkspace(t, "claude", "codex")
			inbox := filepath.Join(w.dir, "agents/codex/inbox")
			if err := os.RemoveAll(inbox); err != nil {
				t.Fatal(err)
			}
			test.break_(t, inbox)
			_, err := w.Send(t.Context(), draft("codex"), nil)
			check.Error(t, err, "agents/codex/inbox")
			wantFiles(t, w, "agents/claude/outbox")
			wantFiles(t, w, "state/outgoing")
			if entries, _ := os.ReadDir(outside); len(entries) != 0 {
				t.Errorf("the folder outside the workspace holds %v", entries)
			}
		})
	}
}

// TestSendIntoAnInboxThatVanishes removes the inbox between the commit and the publication of the
// copy. Send queues the copy and does not assume that another process published it.
func TestSendIntoAnInboxThatVanishes(t *testing.T) {
	check.NeedsExclusiveRename(t)
	w := newWorkspace(t, "claude", "codex")
	w.files = &interrupted{part: "@codex@inbox", happen: func() { check.Remove(t, w.BoxPath("codex", Inbox)) }}
	r, err := w.Send(t.Context(), draft("codex"), nil)
	var queued *QueuedError
	if r == nil || !errors.As(err, &queued) {
		t.Fatalf("sending gave %v, %v; want a receipt and a QueuedError", r, err)
	}
	mustRecover(t, w)
	if got := inboxIDs(t, w, "codex"); len(got) != 1 || got[0] != r.Message.ID {
		t.Errorf("the new inbox has %v, want %s", got, r.Message.ID)
	}
}

func TestSendStopsBeforeTheCommitWhenCancelled(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Send(ctx, draft("codex"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("sending gave %v, want context.Canceled", err)
	}
	wantFiles(t, w, "agents/codex/inbox")
	wantFiles(t, w, "agents/claude/outbox")
	wantFiles(t, w, "state/outgoing")
}

// TestSendStartsConversations sends messages that start a conversation, and others that do not.
func TestSendStartsConversations(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	plain := draft("codex")
	answer, placed, given := plain, plain, plain
	answer.ParentID, placed.ConversationID, given.ID = "msg-20260313T1400Z-codex-aaaa", "conv-20260101-x-7", "msg-20260313T1430Z-claude-aaaa"
	for _, c := range []struct {
		what     string
		m        schema.Message
		obstacle bool
		want     string
	}{
		{"a message", plain, false, `^conv-20260313-claude-\d{6}$`},
		{"another", plain, false, `^conv-20260313-claude-\d{6}$`},
		{"an answer to a message without one", answer, false, "^$"},
		{"a message of a conversation", placed, false, "^conv-20260101-x-7$"},
		{"a message with its id", given, false, "^$"},
		{"a message that cannot be counted", plain, true, `^conv-20260313-claude-\d{6}$`},
	} {
		if c.obstacle {
			check.Remove(t, filepath.Join(w.dir, "state/conversations"))
			check.WriteFile(t, filepath.Join(w.dir, "state/conversations/folder"), "")
		}
		before, _, _, err := w.Compose(c.m, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		after := send(t, w, c.m).Message
		for _, got := range []schema.ConversationID{before.ConversationID, after.ConversationID} {
			if !regexp.MustCompile(c.want).MatchString(string(got)) {
				t.Errorf("%s: the conversation is %q, want %s", c.what, got, c.want)
			}
		}
	}
}

func TestSendAllKeepsWhatSucceeds(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	bad := draft("codex")
	bad.Subject = ""
	drafts := []schema.Message{draft("codex"), bad, draft("codex")}
	results := w.SendAll(t.Context(), drafts, nil)
	var invalid *validate.InvalidError
	if results[0].Err != nil || !errors.As(results[1].Err, &invalid) || results[2].Err != nil {
		t.Fatalf("results are %v, want the second alone to fail validation", results)
	}
	if got := len(inboxIDs(t, w, "codex")); got != 2 {
		t.Errorf("inbox has %d messages, want 2", got)
	}
}

func TestComposeTouchesNothing(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	before := tree(t, w)
	m, data, _, err := w.Compose(draft("codex"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if decoded, err := validate.Read(data); err != nil || decoded.ID != m.ID {
		t.Errorf("the composed bytes read as %v (%v), want message %s", decoded, err, m.ID)
	}
	if after := tree(t, w); after != before {
		t.Errorf("composing changed the workspace:\n%s", after)
	}
}
