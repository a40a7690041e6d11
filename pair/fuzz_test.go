package pair

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
)

// FuzzStep takes one step from any manifest that can be read, and checks that the result is a
// manifest that can be read again.
func FuzzStep(f *testing.F) {
	manifests, log := stepsOfARun(f)
	for _, manifest := range manifests {
		for _, answer := range []string{"DONE", "PASS", "FAIL", "hm"} {
			f.Add(manifest, answer, uint8(0))
		}
		f.Add(manifest, "", uint8(1))
		f.Add(manifest, "", uint8(2))
	}
	failures := []error{nil, errors.New("a crash"), agent.ErrUnavailable}
	f.Fuzz(func(t *testing.T, data []byte, answer string, failure uint8) {
		m, err := parseManifest(data)
		if err != nil {
			return
		}
		run := bridge.Run{ID: 1, RepositoryID: "0123456789abcdef", Folder: t.TempDir()}
		// Do not run or remove anything that the fuzzer made up.
		m.ID, m.RepoPath, m.WorktreePath = run.ID, run.Folder, ""
		if m.ProofCommand != "" {
			m.ProofCommand = "true"
		}
		if err := errors.Join(os.WriteFile(run.BridgePath(), log, 0o600), run.WriteManifest(m)); err != nil {
			t.Fatal(err)
		}
		s, err := Resume(run, scripted(func(call) (string, error) { return answer, failures[int(failure)%len(failures)] }))
		if err != nil {
			t.Fatalf("a manifest that was read and written cannot be read again: %v", err)
		}
		s.stopDelay = 0 // no stop comes
		if !s.manifest.State.Final() {
			err = s.step(t.Context())
		}
		if _, readErr := ReadManifest(run); readErr != nil {
			t.Errorf("after a step that ended with %v: %v", err, readErr)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// stepsOfARun returns the manifests of a run, one for each step, and its log.
func stepsOfARun(f *testing.F) (manifests [][]byte, log []byte) {
	f.Helper()
	options := scripted(func(c call) (string, error) {
		c.observe(agent.Event{Text: "at work"})
		switch {
		case slices.Contains(c.request.Env, "OACP_ROLE=worker"):
			return "made\nDONE", nil
		case c.agent == Claude && slices.Contains(c.request.Env, "OACP_ITERATION=1"):
			return "broken\nFAIL", nil
		}
		return "fine\nPASS", nil
	})
	var run bridge.Run
	collect := func() {
		data, err := os.ReadFile(run.ManifestPath())
		if err == nil {
			manifests = append(manifests, data)
		}
	}
	options.Observe = func(Entry) { collect() }
	s, err := Create(f.TempDir(), f.TempDir(), Settings{Prompt: "x", Proof: "true"}, options)
	if err != nil {
		f.Fatal(err)
	}
	run = s.Place()
	collect()
	if err := errors.Join(s.Run(context.Background()), s.Close()); err != nil {
		f.Fatal(err)
	}
	if log, err = os.ReadFile(filepath.Join(run.Folder, "bridge.jsonl")); err != nil {
		f.Fatal(err)
	}
	return manifests, log
}
