package pair

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/bridge"
)

// recorded returns a copy of a run that an earlier version left in testdata/recorded. In run 1 the
// process was killed during the second review; run 2 is complete.
func recorded(t *testing.T, id int) bridge.Run {
	t.Helper()
	repository := t.TempDir()
	run := bridge.Run{ID: id, RepositoryID: "a820261b74d04e3c", Folder: filepath.Join(t.TempDir(), "run")}
	if err := os.CopyFS(run.Folder, os.DirFS(filepath.Join("testdata", "recorded", strconv.Itoa(id)))); err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(run.ManifestPath())
	if err != nil {
		t.Fatal(err)
	}
	manifest = bytes.Replace(manifest, []byte("/home/ann/project"), []byte(filepath.ToSlash(repository)), 1)
	if err := os.WriteFile(run.ManifestPath(), manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	return run
}

// TestRecordedRun resumes a run of an earlier version in the turn in which its process was killed.
func TestRecordedRun(t *testing.T) {
	t.Parallel()
	run := recorded(t, 1)
	before, err := os.ReadFile(run.TranscriptPath())
	if err != nil {
		t.Fatal(err)
	}
	var calls []call
	s, err := Resume(run, lines(t, &calls, "claude: good\nPASS"))
	if err != nil {
		t.Fatal(err)
	}
	known := records(t, s)
	if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	prompt := calls[0].request.Prompt
	if !strings.Contains(prompt, "cut off") || strings.Count(prompt, "step 2") != 1 || strings.Contains(prompt, "step 1") {
		t.Errorf("the resumed turn has the prompt\n%s", prompt)
	}
	m, err := ReadManifest(run)
	if err != nil || m.State != Complete || m.CurrentIteration != 2 || m.Prompt != `Count to three, "quickly" & well` {
		t.Errorf("manifest %+v, %v; want it completed in iteration 2", m, err)
	}
	if s, err = Resume(run, Options{}); err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(known), "2 review claude>codex good|PASS", "2 signal claude>codex PASS in iteration 2PASS")
	if got := records(t, s); len(known) != 7 || !slices.Equal(got, want) {
		t.Errorf("records\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(run.TranscriptPath()); err != nil || !bytes.HasPrefix(after, before) {
		t.Errorf("the transcript lost entries: %v", err)
	}
}

// TestRecordedRunStaysOver opens a run that an earlier version completed.
func TestRecordedRunStaysOver(t *testing.T) {
	t.Parallel()
	run := recorded(t, 2)
	var calls []call
	s, err := Resume(run, lines(t, &calls))
	if err != nil {
		t.Fatal(err)
	}
	if got := records(t, s); len(got) != 15 {
		t.Errorf("%d records, want 15:\n%s", len(got), strings.Join(got, "\n"))
	}
	if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil || s.Manifest().State != Complete {
		t.Errorf("error %v, state %s, want a completed run", err, s.Manifest().State)
	}
}
