package pair

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/bridge"
)

func TestManifests(t *testing.T) {
	t.Parallel()
	var calls []call
	s := newSession(t, Settings{Prompt: "x"}, lines(t, &calls))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := s.Place().ManifestPath()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	change := func(old, new string) string {
		t.Helper()
		if !strings.Contains(string(whole), old) {
			t.Fatalf("the manifest lacks %s", old)
		}
		return strings.Replace(string(whole), old, new, 1)
	}
	for name, test := range map[string]struct {
		text string
		want error
	}{
		"empty":         {"", ErrDamaged},
		"null":          {"null", ErrForeignRun},
		"newer":         {change(`"version": 2`, `"version": 3`), ErrNewerVersion},
		"newer, odd":    {`{"version": 99, "state": 5}`, ErrNewerVersion},
		"no version":    {change(`"version": 2`, `"other": 2`), ErrForeignRun},
		"unknown state": {change(`"submitted"`, `"sleeping"`), ErrDamaged},
		"no turn":       {change(`"submitted"`, `"working"`), ErrDamaged},
		"other run":     {change(`"id": 1`, `"id": 2`), ErrDamaged},
		"two":           {string(whole) + string(whole), ErrDamaged},
	} {
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Resume(s.Place(), Options{}); !errors.Is(err, test.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want %v with the path", name, err, test.want)
		}
	}
	for name, change := range map[string]func(*Manifest){
		"a proof without an answer": func(m *Manifest) { m.Round.Proof = &ProofResult{} },
		"over and done":             func(m *Manifest) { m.State = Complete },
	} {
		m := s.Manifest()
		m.State, m.CurrentIteration, m.TaskRecord, m.Round = Working, 1, "an id", newRound(Codex)
		if err := m.check(); err != nil {
			t.Fatal(err)
		}
		change(&m)
		if err := s.Place().WriteManifest(m); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadManifest(s.Place()); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: error %v, want ErrDamaged", name, err)
		}
	}
	for length := range len(whole) - 2 {
		if err := os.WriteFile(path, whole[:length], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadManifest(s.Place()); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut after %d bytes: error %v, want ErrDamaged", length, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(s.Place(), Options{}); !errors.Is(err, ErrNeverBegun) || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want ErrNeverBegun with the path", err)
	}
}

// TestNeverBegun checks that a run that was killed before it had a manifest keeps its number.
func TestNeverBegun(t *testing.T) {
	t.Parallel()
	root, repository := t.TempDir(), t.TempDir()
	repositoryID, err := bridge.RepositoryID(repository)
	if err != nil {
		t.Fatal(err)
	}
	killed, err := bridge.NewRun(root, repositoryID)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := Resume(killed, Options{}); !errors.Is(err, ErrNeverBegun) {
			t.Errorf("error %v, want ErrNeverBegun", err)
		}
	}
	s, err := Create(root, repository, Settings{Prompt: "x"}, Options{})
	if err != nil || s.Place().ID != 2 {
		t.Fatalf("run %d, %v; want 2", s.Place().ID, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
