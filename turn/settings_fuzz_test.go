package turn

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/agent"
)

// FuzzSettings checks that whatever an agent's config.yaml holds is settings or an error, and that
// settings name a driver that exists or make no configuration.
func FuzzSettings(f *testing.F) {
	for _, seed := range []string{
		"run:\n  driver: claude\n  model: x\n  allow: edits\n  args: [-a]\n  timeout: 30m\n", "run: null", "run: [1]",
		"run: {driver: exec, command: [cat], reply: true, allow_from: [a], parallel: 2}", "autonomy: {default_mode: always_pause}",
		"run: &a {driver: echo, <<: *a}", "run: {? [a]: b}", "{\"run\":{\"dir\":\"..\"}}", "",
	} {
		f.Add([]byte(seed))
	}
	w := newWorkspace(f)
	path := filepath.Join(w.Dir(), "agents", "codex", "config.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := LoadSettings(w, "codex")
		if err != nil {
			return
		}
		if _, err := s.Config("codex"); err == nil {
			if _, err := agent.FindKind(s.Driver); err != nil {
				t.Errorf("%q names the driver %q: %v", data, s.Driver, err)
			}
		}
	})
}
