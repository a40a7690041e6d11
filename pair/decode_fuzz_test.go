package pair

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/oacp-go/oacp/bridge"
)

// FuzzManifest checks that a manifest that is read is one that steps leave behind, and that it is
// read in the same way when it was written again.
func FuzzManifest(f *testing.F) {
	s, err := Create(f.TempDir(), f.TempDir(), Settings{Prompt: "x"}, Options{})
	if err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(s.Place().ManifestPath())
	if err != nil {
		f.Fatal(err)
	}
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(bytes.Replace(data, []byte(`"submitted"`), []byte(`"working","current_iteration":1,"cursors":{"claude":"","codex":""},"acknowledged":{"claude":"","codex":""},"round":{"turns":[{"agent":"codex"}]}`), 1))
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(`{"version":1,"turn":7}`))
	f.Add([]byte(`{"version":3,"round":7}`))
	run := bridge.Run{ID: 1, Folder: f.TempDir()}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseManifest(data)
		if err != nil {
			return
		}
		if m.Round != nil {
			_, _, _ = m.Round.proofOutput(), m.progress(), m.Waiting()
		}
		m.ID = run.ID
		if err := run.WriteManifest(m); err != nil {
			t.Fatal(err)
		}
		if again, err := ReadManifest(run); err != nil || !reflect.DeepEqual(normal(t, m), normal(t, again)) {
			t.Errorf("%q is read as\n%+v\nand then, with %v, as\n%+v", data, m, err, again)
		}
	})
}

// normal returns a manifest as JSON, in which empty and missing maps are the same.
func normal(t *testing.T, m Manifest) string {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// FuzzConfig checks that a settings file is refused, or holds settings that a run can have.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		"agent: claude\nreview_mode: codex\nmax_iterations: 3\ntimeout: 90m\nuse_tmux: true\n", "proof: go test ./... && go vet", "agent: ~",
		"{\"done_signal\": \"READY\"}", "agent: [claude]", "- a", "verbose: maybe", "proof: \"a | b\"", "",
	} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "config.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := readConfig(path)
		if err != nil {
			return
		}
		c.Prompt = "any"
		if settings, err := c.Settings.complete(); err != nil || settings.check() != nil {
			t.Errorf("%q is read as %+v, which no run can have: %v", data, c, err)
		}
	})
}

// FuzzEntry checks that an entry of a transcript is one line, which reads back as the same entry.
func FuzzEntry(f *testing.F) {
	f.Add([]byte(`{"type":"event","timestamp":"2026-03-13T14:30:00Z","run_id":1,"agent":"codex","raw":{"a":  1}}`), "a\nb")
	f.Add([]byte(`{"type":"end","duration":7,"usage":{"cost_usd":1}}`), "\xff\u2028")
	f.Fuzz(func(t *testing.T, data []byte, raw string) {
		var e Entry
		if json.Unmarshal(data, &e) != nil {
			return
		}
		for _, e.Raw = range []json.RawMessage{e.Raw, json.RawMessage(raw)} {
			line, err := e.Line()
			if err != nil {
				continue // a year that JSON cannot hold
			}
			if bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
				t.Fatalf("%q is not one line", line)
			}
			var again Entry
			if err := json.Unmarshal(line, &again); err != nil {
				t.Fatal(err)
			}
			if second, err := again.Line(); err != nil || !bytes.Equal(line, second) {
				t.Errorf("%q reads back as %q, %v", line, second, err)
			}
		}
	})
}
