package project_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// FuzzMarker checks that whatever workspace.json holds, the workspace has a name, and init changes
// nothing in it but the repository and the time, or refuses it.
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
		var before, after map[string]json.RawMessage
		readable := json.Unmarshal(data, &before) == nil && before != nil
		if err := project.SetRepository(w, "/elsewhere", mailboxtest.Time); (err == nil) != readable {
			t.Errorf("%q: the repository is noted with %v", data, err)
		}
		written, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !readable {
			if string(written) != string(data) {
				t.Errorf("%q was replaced by %q", data, written)
			}
			return
		}
		if err := json.Unmarshal(written, &after); err != nil || string(after["repo_path"]) != `"/elsewhere"` {
			t.Errorf("%q became %q, %v", data, written, err)
		}
		for name := range before {
			if _, kept := after[name]; !kept {
				t.Errorf("%q lost %q and became %q", data, name, written)
			}
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
