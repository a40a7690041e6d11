package bridge

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRepositoryID(t *testing.T) {
	// printf /home/user/project | sha256sum | cut -c-16
	if got, err := RepositoryID("/home/user/project"); filepath.IsAbs("/home") && (err != nil || got != "9dad1e4e08b0b11c") {
		t.Errorf("want 9dad1e4e08b0b11c, got %s, %v", got, err)
	}
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	must(t, err)
	want, err := RepositoryID(here)
	must(t, err)
	for _, path := range []string{".", "x/..", here + "/"} {
		if got, err := RepositoryID(path); err != nil || got != want {
			t.Errorf("%s: want %s, got %s, %v", path, want, got, err)
		}
	}
}

func TestDefaultRoot(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	if got, err := DefaultRoot(); err != nil || got != filepath.Join(home, ".agentpair", "runs") {
		t.Errorf("want %s/.agentpair/runs, got %s, %v", home, got, err)
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	root := filepath.Join(t.TempDir(), "not", "there", "yet")
	const id = "0123456789abcdef"
	if runs, err := Runs(root, id); err != nil || len(runs) != 0 {
		t.Errorf("want no runs, got %v, %v", runs, err)
	}
	if ids, err := Repositories(root); err != nil || len(ids) != 0 {
		t.Errorf("want no repositories, got %v, %v", ids, err)
	}
	for want := 1; want <= 11; want++ {
		run, err := NewRun(root, id)
		if err != nil || run.ID != want || run.Folder != filepath.Join(root, id, filepath.Base(run.Folder)) {
			t.Fatalf("want run %d, got %+v, %v", want, run, err)
		}
	}
	for _, other := range []string{"007", "0", "-1", "x", "12x"} {
		must(t, os.Mkdir(filepath.Join(root, id, other), 0o700))
	}
	writeFile(t, filepath.Join(root, id, "12"), "a file")
	must(t, os.Mkdir(filepath.Join(root, "no-repository"), 0o700))
	runs, err := Runs(root, id)
	if err != nil || len(runs) != 11 || runs[1].ID != 2 || runs[10].ID != 11 {
		t.Errorf("want runs 1 to 11 by number, got %v, %v", runs, err)
	}
	if run, err := NewRun(root, id); err != nil || run.ID != 13 {
		t.Errorf("want run 13, for 12 is taken, got %+v, %v", run, err)
	}
	if ids, err := Repositories(root); err != nil || len(ids) != 1 || ids[0] != id {
		t.Errorf("want %s, got %v, %v", id, ids, err)
	}
	run := runs[1]
	for got, want := range map[string]string{
		run.BridgePath(): "bridge.jsonl", run.ManifestPath(): "manifest.json", run.TranscriptPath(): "transcript.jsonl",
	} {
		if got != filepath.Join(root, id, "2", want) {
			t.Errorf("want %s in the run's folder, got %s", want, got)
		}
	}
	l, err := run.Open(&Options{NoSync: true, RunID: 99})
	must(t, err)
	if status, err := l.Status(ctx); err != nil || status.TotalMessages != 0 {
		t.Errorf("want an empty log, got %+v, %v", status, err)
	}
	if receipt := mustSend(t, l, task("a", "b", "1"))[0]; receipt.RunID != 2 {
		t.Errorf("want run id 2, got %d", receipt.RunID)
	}
	must(t, l.Close())
	for _, bad := range []string{"", "..", "../../etc", "0123456789ABCDEF", "0123456789abcdef0"} {
		if _, err := NewRun(root, bad); err == nil {
			t.Errorf("repository id %q: want an error", bad)
		}
		if _, err := Runs(root, bad); err == nil {
			t.Errorf("repository id %q: want an error", bad)
		}
	}
}

// TestRemoveRun checks that the number of a run that was removed is not used again.
func TestRemoveRun(t *testing.T) {
	t.Parallel()
	root, repository := t.TempDir(), strings.Repeat("a", 16)
	var runs []Run
	for range 3 {
		run, err := NewRun(root, repository)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	for _, i := range []int{2, 0} { // the number of the latest stays, whatever is removed then
		if err := runs[i].Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := Runs(root, repository); err != nil || len(left) != 1 || left[0] != runs[1] {
		t.Errorf("runs %v, %v; want %v", left, err, runs[1:2])
	}
	if entries, err := os.ReadDir(filepath.Join(root, repository)); err != nil || len(entries) != 2 {
		t.Errorf("entries %v, %v; want one run and the number of the last", entries, err)
	}
	if run, err := NewRun(root, repository); err != nil || run.ID != 4 {
		t.Errorf("the next run is %d, %v; want 4", run.ID, err)
	}
	if err := runs[0].Remove(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removing a run again: %v, want that it does not exist", err)
	}
}
