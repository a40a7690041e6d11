package watch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
)

// TestAwaitIsWokenByEvents changes the folder only after the first look.
func TestAwaitIsWokenByEvents(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude")
	inbox := w.BoxPath("claude", mailbox.Inbox)
	looks := 0
	err := Await(t.Context(), []string{inbox, filepath.Join(w.Dir(), "missing")}, func() (bool, error) {
		if looks++; looks == 1 {
			return false, os.WriteFile(filepath.Join(inbox, "new"), nil, 0o644)
		}
		_, err := os.Stat(filepath.Join(inbox, "new"))
		return err == nil, err
	})
	if err != nil || looks < 2 {
		t.Errorf("waiting gave %v after %d looks, want nil after two", err, looks)
	}
	failure := errors.New("no")
	if err := Await(t.Context(), nil, func() (bool, error) { return false, failure }); !errors.Is(err, failure) {
		t.Errorf("a look that fails gave %v, want its error", err)
	}
}
