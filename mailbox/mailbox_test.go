package mailbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/memoryfolder"
	"github.com/oacp-go/oacp/schema"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(runChild(role))
	}
	if err := memoryfolder.Use(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// testTime is the clock of the tests.
var testTime = time.Date(2026, 3, 13, 14, 30, 0, 0, time.UTC)

// newWorkspace makes a workspace with the agents in a temporary folder.
func newWorkspace(t testing.TB, agents ...schema.AgentName) *Workspace {
	t.Helper()
	return newWorkspaceIn(t, t.TempDir(), agents...)
}

func newWorkspaceIn(t testing.TB, dir string, agents ...schema.AgentName) *Workspace {
	t.Helper()
	folders := []string{schema.AgentsName, outgoingName}
	for _, agent := range agents {
		for _, box := range []Box{Inbox, Outbox, DeadLetters} {
			folders = append(folders, schema.BoxPath(agent, box))
		}
	}
	for _, folder := range folders {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return openWorkspace(t, dir)
}

// openWorkspace opens a workspace whose clock stands still at testTime.
func openWorkspace(t testing.TB, dir string) *Workspace {
	t.Helper()
	w, err := Open(dir, nil)
	if err != nil {
		t.Fatalf("opening the workspace: %v", err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("closing the workspace: %v", err)
		}
	})
	w.now, w.times = func() time.Time { return testTime }, new(schema.Clock)
	return w
}

// draft returns a valid message from claude.
func draft(to ...schema.AgentName) schema.Message {
	return schema.Message{
		From: "claude", To: to, Type: schema.TaskRequest,
		Subject: "Implement rate limiting", Body: schema.TextValue("Token bucket, 100 requests a minute.\n"),
	}
}

// send sends the draft and fails the test if it is not accepted.
func send(t testing.TB, w *Workspace, m schema.Message) *Receipt {
	t.Helper()
	r, err := w.Send(t.Context(), m, nil)
	if err != nil {
		t.Fatalf("sending: %v", err)
	}
	return r
}

// files returns the names of a folder's entries below the workspace, sorted and without hidden
// placeholders. A missing folder has none.
func files(t testing.TB, w *Workspace, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.dir, folder))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Name() != ".gitkeep" && entry.Name() != string(Archive) { // it is a folder in the inbox
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	return names
}

func wantFiles(t testing.TB, w *Workspace, folder string, want ...string) {
	t.Helper()
	if got := files(t, w, folder); !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", folder, got, want)
	}
}

// inboxIDs returns the ids in an agent's inbox in processing order.
func inboxIDs(t testing.TB, w *Workspace, agent schema.AgentName) []schema.ID {
	t.Helper()
	entries, err := w.Inbox(t.Context(), agent)
	if err != nil {
		t.Fatalf("listing the inbox of %s: %v", agent, err)
	}
	var ids []schema.ID
	for _, e := range entries {
		if e.Err != nil {
			t.Fatalf("%s: %v", e.Path, e.Err)
		}
		ids = append(ids, e.Message.ID)
	}
	return ids
}

// TestSendAsksForASignature checks what the workspace's SignFunc learns of each message.
func TestSendAsksForASignature(t *testing.T) {
	check.NeedsExclusiveRename(t)
	for _, options := range []SendOptions{{}, {Sign: true}, {Unsigned: true}} {
		var asked []bool
		dir := newWorkspace(t, "claude", "codex").Dir()
		w, err := Open(dir, &Options{NoSync: true, Sign: func(_ *Workspace, _ *schema.Message, file []byte, ask bool) ([]byte, error) {
			asked = append(asked, ask)
			return file, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Send(t.Context(), draft("codex"), &options); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		want := []bool{options.Sign}
		if options.Unsigned {
			want = nil
		}
		if !slices.Equal(asked, want) {
			t.Errorf("%+v: the signer was asked %v, want %v", options, asked, want)
		}
	}
}
