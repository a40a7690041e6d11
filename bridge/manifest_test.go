package bridge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBeginning checks that a run began when its manifest says, except for a first run that was
// made to hold existing records.
func TestBeginning(t *testing.T) {
	t.Parallel()
	root, repository := t.TempDir(), t.TempDir()
	now := time.Date(2026, 3, 13, 14, 30, 0, 5, time.UTC)
	want := func(what, path string, want time.Time) {
		t.Helper()
		if got, err := Beginning(path); err != nil || !got.Equal(want) {
			t.Errorf("%s: got %v, %v, want %v", what, got, err, want)
		}
	}
	none := time.Time{}
	want("a log that is no run's", filepath.Join(t.TempDir(), "bridge.jsonl"), none)

	first, err := MakeRun(root, repository, 2, now)
	must(t, err)
	want("the first run", first.BridgePath(), none)
	second, err := MakeRun(root, repository, 3, now.Add(time.Hour))
	must(t, err)
	want("the second run", second.BridgePath(), now.Add(time.Hour))
	want("the first run, still", first.BridgePath(), none)

	writeFile(t, first.ManifestPath(), `{"id":"2","prompt":"do it","primary_agent":"claude","created_at":"2026-03-13T15:30:00+01:00","x":[1]}`)
	want("a first run with agents", first.BridgePath(), now.Truncate(time.Second))
	writeFile(t, second.ManifestPath(), `{"created_at":"2026-03-13T14:30:00Z","turn":"`+strings.Repeat("x", 2<<20)+`"}`)
	want("a run with a long answer", second.BridgePath(), now.Truncate(time.Second))
	must(t, os.Remove(second.ManifestPath()))
	want("a run without a manifest", second.BridgePath(), none)
	for _, bad := range []string{"", "{", "[]", `{"created_at":"yesterday"}`} {
		writeFile(t, second.ManifestPath(), bad)
		if got, err := Beginning(second.BridgePath()); err == nil {
			t.Errorf("manifest %q: got %v, want an error", bad, got)
		}
	}
}
