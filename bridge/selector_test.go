package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFindRepository(t *testing.T) {
	top := t.TempDir()
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(top)) // the temporary folder may be in a repository
	deep := filepath.Join(top, "a", "b")
	must(t, os.MkdirAll(deep, 0o700))
	want := func(folder, repository string) {
		t.Helper()
		if got, err := findRepository(folder); err != nil || got != repository {
			t.Errorf("%s: want %s, got %s, %v", folder, repository, got, err)
		}
	}
	want(deep, deep)
	git := filepath.Join(top, "a", ".git")
	must(t, os.Mkdir(git, 0o700))
	want(deep, deep) // an empty folder is no repository
	writeFile(t, filepath.Join(git, "HEAD"), "ref: refs/heads/main\n")
	want(deep, filepath.Join(top, "a"))
	want(top, top)
	must(t, os.RemoveAll(git))
	writeFile(t, filepath.Join(top, ".git"), "gitdir: elsewhere\n")
	want(deep, top)
}

func TestMakeRun(t *testing.T) {
	t.Parallel()
	root, repository := t.TempDir(), t.TempDir()
	now := time.Date(2026, 3, 13, 14, 30, 0, 0, time.UTC)
	made, err := MakeRun(root, repository, 7, now)
	must(t, err)
	found, err := Selector{Root: root, Repository: repository, RunID: 7}.Select()
	if err != nil || found.Run != made || found.Missing {
		t.Errorf("want the run that was made, got %+v, %v", found, err)
	}
	if path, err := made.Repository(); err != nil || path != repository {
		t.Errorf("want the repository %s, got %s, %v", repository, path, err)
	}
	data, err := os.ReadFile(made.ManifestPath())
	must(t, err)
	var fields map[string]any
	must(t, json.Unmarshal(data, &fields))
	if fields["repo_id"] != made.RepositoryID || fields["id"] != 7.0 || fields["created_at"] != "2026-03-13T14:30:00Z" {
		t.Errorf("the manifest does not describe the run: %s", data)
	}

	// An existing run stays as it is.
	writeFile(t, made.ManifestPath(), "{")
	again, err := MakeRun(root, repository, 7, now)
	if err != nil || again != made {
		t.Errorf("want the same run, got %+v, %v", again, err)
	}
	if _, err := again.Repository(); err == nil {
		t.Error("want an error about the broken manifest")
	}
	must(t, os.Remove(made.ManifestPath()))
	if path, err := again.Repository(); err != nil || path != "" {
		t.Errorf("without a manifest: want nothing, got %q, %v", path, err)
	}
	for _, id := range []int{0, -1} {
		if run, err := MakeRun(root, repository, id, now); err == nil {
			t.Errorf("want no run %d, got %+v", id, run)
		}
	}
}

// TestSelect checks which log is meant.
func TestSelect(t *testing.T) {
	root, repository := filepath.Join(t.TempDir(), "runs"), t.TempDir()
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(repository))
	id, err := RepositoryID(repository)
	must(t, err)
	want := func(what string, s Selector, run int, missing bool) Location {
		t.Helper()
		s.Root, s.Dir = root, repository
		got, err := s.Select()
		must(t, err)
		path := filepath.Join(root, id, fmt.Sprint(run), "bridge.jsonl")
		if got.Path != path || got.Run != (Run{id, run, filepath.Dir(path)}) || got.Missing != missing {
			t.Errorf("%s: got %+v, want run %d", what, got, run)
		}
		if (got.Err() != nil) != missing || missing && !errors.Is(got.Err(), ErrNoRun) {
			t.Errorf("%s: the location's error is %v", what, got.Err())
		}
		return got
	}
	first := want("without a run", Selector{}, 1, true)
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("asking for the log made a folder (%v)", err)
	}
	_, err = Selector{Root: root, Repository: repository, RunID: 1}.Select()
	if !errors.Is(err, ErrNoRun) || !strings.Contains(err.Error(), repository) {
		t.Errorf("run 1 gave %v, want ErrNoRun and the repository", err)
	}
	must(t, first.Make(time.Now()))
	must(t, first.Make(time.Now()))
	want("with a run", Selector{}, 1, false)
	must(t, want("a run to make", Selector{RunID: 5, MayMake: true}, 5, true).Make(time.Now()))
	must(t, os.Mkdir(filepath.Join(root, id, "007"), 0o700))
	want("the latest of two runs", Selector{}, 5, false)
	want("by number", Selector{RunID: 1, Repository: repository}, 1, false)

	for path, run := range map[string]int{"5/bridge.jsonl": 5, "007/bridge.jsonl": 0, "log.jsonl": 0} {
		path := filepath.Join(root, id, filepath.FromSlash(path))
		got, err := Selector{File: path}.Select()
		if err != nil || got.Path != path || got.Run.ID != run || got.Missing {
			t.Errorf("file %s: got %+v, %v, want run %d", path, got, err, run)
		}
	}
	if _, err := (Selector{File: filepath.Join(root, "no", "log.jsonl")}).Select(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file in a folder that does not exist gave %v, want fs.ErrNotExist", err)
	}
}

func TestRunNumber(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]int{
		"/runs/0123456789abcdef/12/bridge.jsonl": 12,
		"/srv/bridge.jsonl":                      0,
		"/0/bridge.jsonl":                        0,
		"/007/bridge.jsonl":                      0,
		"bridge.jsonl":                           0,
	} {
		if got := RunNumber(filepath.FromSlash(path)); got != want {
			t.Errorf("%s: want %d, got %d", path, want, got)
		}
	}
}
