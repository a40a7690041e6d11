package contract

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/oacp-go/oacp/schema"
)

// TestCheckOfFromManyGoroutines is for the race detector: validate checks files side by side.
func TestCheckOfFromManyGoroutines(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{"workspace.json": "{}", "agents/a/inbox/x": "", "schemas/question.schema.json": "{}"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(data), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	w := &Workspaces{Program: func() string { return "" }}
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			m := &schema.Message{Type: schema.Question}
			check := w.CheckOf(filepath.Join(dir, "agents", "a", "inbox", "x"), m)
			if check == nil {
				return errors.New("want a function")
			}
			if _, err := check(t.Context()); !errors.Is(err, ErrNotInstalled) {
				return errors.Join(errors.New("want ErrNotInstalled"), err)
			}
			return nil
		})
	}
	defer w.Close()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
