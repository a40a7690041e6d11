package project_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// FuzzMarker checks that whatever workspace.json holds, the workspace has a name.
func FuzzMarker(f *testing.F) {
	w := mailboxtest.New(f, "codex")
	path := filepath.Join(w.Dir(), schema.MarkerName)
	data, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`null`))
	f.Add([]byte(`{"project_name":7,"run":{"driver":"echo"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if project.Name(w) == "" {
			t.Errorf("%q: the workspace has no name", data)
		}
	})
}

// FuzzCard checks that whatever an agent's card holds, its runtime is read or an error.
func FuzzCard(f *testing.F) {
	f.Add([]byte("runtime: claude\ncapabilities: [a]\n"))
	f.Add([]byte("runtime: [claude]\n"))
	f.Add([]byte("a: &a [*a]\nruntime: *a\n"))
	f.Add([]byte("--- ---\n? {}\n"))
	w := mailboxtest.New(f, "codex")
	path := filepath.Join(w.Dir(), "agents", "codex", project.CardName)
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		runtime, err := project.RuntimeOf(w, "codex")
		sender, failed := project.InferAgent(w, func(name string) string { return map[string]string{"OACP_RUNTIME": "claude"}[name] })
		if found := failed == nil && sender == "codex"; found != (err == nil && runtime == "claude") {
			t.Errorf("%q has the runtime %q, %v, but the sender is %q, %v", data, runtime, err, sender, failed)
		}
	})
}
