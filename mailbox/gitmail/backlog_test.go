package gitmail_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
)

// TestBacklogInPieces publishes many messages to a remote that limits the size of a push. They go in pieces, and arrive.
func TestBacklogInPieces(t *testing.T) {
	notInShort(t)
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	const messages = 2_000
	names := here.hold(messages)
	n.git(n.remote, "config", "receive.maxInputSize", "150k") // less than all together
	pushes := filepath.Join(n.dir, "pushes")
	writeScript(t, filepath.Join(n.remote, "hooks", "post-receive"), "echo push >>'"+pushes+"'")
	if result := here.sync(); result.Out.Total() != 2*messages || len(result.Changes) != 1_000 {
		t.Errorf("%d changes, %d listed, want one for each message that was sent, and one for each that was handled", result.Out.Total(), len(result.Changes))
	}
	if pushed := strings.Count(check.ReadFile(t, pushes), "push"); pushed != 4 {
		t.Errorf("%d pushes, want one for a thousand changes", pushed)
	}
	there.sync()
	if _, err := os.Lstat(filepath.Join(there.w.BoxPath("codex", mailbox.Archive), names[messages-1])); err != nil {
		t.Error(err)
	}
	n.checkEqual()
	n.git(n.remote, "config", "receive.maxInputSize", "100")
	here.send("claude", "codex")
	_, err := here.trySync()
	if refusal, ok := errors.AsType[*gitmail.RemoteError](err); !ok || !refusal.TooLarge() {
		t.Errorf("the error is %v, want one about the size", err)
	}
}

// TestPlanInPieces exchanges many messages with syncs that plan few at once.
func TestPlanInPieces(t *testing.T) {
	notInShort(t)
	t.Parallel()
	n := newNetwork(t, 2, both...)
	const messages, piece = 50, 7
	n.machines[0].hold(messages)
	for _, m := range n.machines {
		plans := 0
		r, err := gitmail.Open(t.Context(), m.w)
		if err != nil {
			t.Fatal(err)
		}
		r.SetPiece(piece)
		r.SetStep(func(step string) {
			if step == "merged" {
				plans++
			}
		})
		if _, err := r.Sync(t.Context(), gitmail.Options{}); err != nil {
			t.Fatal(err)
		}
		if plans != 13 { // with both copies of a message in one, 8 at once
			t.Errorf("%s: %d pieces", m.name, plans)
		}
	}
	n.checkEqual()
	if left := n.machines[0].sync().Changes; len(left) > 0 {
		t.Errorf("the next sync makes %d changes", len(left))
	}
	if arrived := n.machines[1].ids("codex", mailbox.Archive); len(arrived) != messages {
		t.Errorf("%d messages arrived, want %d", len(arrived), messages)
	}
}

// TestReceiveInBatches receives messages that are too large to be held in memory together.
func TestReceiveInBatches(t *testing.T) {
	notInShort(t)
	t.Parallel()
	n := newNetwork(t, 2, both...)
	const messages = 30 // of more than half a megabyte
	message := draft("claude", "codex")
	message.Body = schema.Value{Kind: schema.Mapping, Pairs: []schema.Pair{{Key: "log", Value: schema.TextValue(strings.Repeat("a line\n", 80_000))}}}
	for range messages {
		if _, err := n.machines[0].w.Send(t.Context(), message, nil); err != nil {
			t.Fatal(err)
		}
	}
	n.machines[0].sync()
	r, err := gitmail.Open(t.Context(), n.machines[1].w)
	if err != nil {
		t.Fatal(err)
	}
	batches := 0
	r.SetStep(func(step string) {
		if step == "received" {
			batches++
		}
	})
	if _, err := r.Sync(t.Context(), gitmail.Options{}); err != nil {
		t.Fatal(err)
	}
	if arrived := n.machines[1].ids("codex", mailbox.Inbox); len(arrived) != messages || batches < 2 {
		t.Errorf("%d messages arrived in %d batches, want %d in several", len(arrived), batches, messages)
	}
}

// hold puts that many handled messages from claude to codex into the workspace, 200 a day, and returns their names. They are
// written without the care of a delivery, which takes long.
func (m *machine) hold(messages int) (names []string) {
	m.n.t.Helper()
	for i := range messages {
		message, err := past(i)
		if err != nil {
			m.n.t.Fatal(err)
		}
		name, err := message.LongFileName()
		if err != nil {
			m.n.t.Fatal(err)
		}
		message.Subject += " " + strconv.Itoa(i)
		data, err := schema.Encode(&message)
		if err != nil {
			m.n.t.Fatal(err)
		}
		for _, dir := range []string{m.w.BoxPath("claude", mailbox.Outbox), m.w.BoxPath("codex", mailbox.Archive)} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				m.n.t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				m.n.t.Fatal(err)
			}
		}
		names = append(names, name)
	}
	return names
}
