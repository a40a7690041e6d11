package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

func TestMain(m *testing.M) { mailboxtest.Main(m) }

// unpublish moves copies of a sent message back to state/outgoing, as a killed delivery leaves
// them.
func unpublish(t testing.TB, w *mailbox.Workspace, id schema.ID, agent schema.AgentName, box mailbox.Box, path string) {
	t.Helper()
	staged := filepath.Join(w.Dir(), outgoingName, string(id)+"@"+string(agent)+"@"+string(box))
	if err := os.Rename(path, staged); err != nil {
		t.Fatal(err)
	}
}

// silent says that a setting is in order.
func silent(*mailbox.Workspace, schema.AgentName) error { return nil }
