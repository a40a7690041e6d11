package watch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
)

func TestMain(m *testing.M) { mailboxtest.Main(m) }

// sentName is the name of the file in the first inbox.
func sentName(r *mailbox.Receipt) string { return filepath.Base(r.Inboxes[0]) }

// addFile adds a whole file to a folder, as a sender does.
func addFile(t testing.TB, folder, name, data string) {
	t.Helper()
	dir, err := durable.OpenPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(durable.AddFile(durable.Disk{}, dir, name, []byte(data)), dir.Close()); err != nil {
		t.Fatal(err)
	}
}

// crashAfterCommit kills a delivery to codex right after the message counts as sent: the inbox copy
// is still staged.
func crashAfterCommit(t *testing.T, w *mailbox.Workspace) *mailbox.Receipt {
	t.Helper()
	r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	staged := filepath.Join(w.Dir(), "state", "outgoing", string(r.Message.ID)+"@codex@inbox")
	if err := os.Rename(r.Inboxes[0], staged); err != nil {
		t.Fatal(err)
	}
	return r
}
