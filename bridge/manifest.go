package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/jsonl"
)

// Manifest holds the fields of manifest.json that identify the run. Programs that keep more in the file
// embed Manifest in their own type.
type Manifest struct {
	RepoPath     string    `json:"repo_path"`
	Prompt       string    `json:"prompt"`
	PrimaryAgent string    `json:"primary_agent"`
	CreatedAt    time.Time `json:"created_at"`
}

// maxManifest bounds a manifest in bytes. It has room for the longest prompt and answer of a pair, escaped.
const maxManifest = 32 << 20

// ReadManifest returns the bytes of the run's manifest. A run that never began has none: the error
// matches fs.ErrNotExist.
func (r Run) ReadManifest() ([]byte, error) { return durable.ReadPath(r.ManifestPath(), maxManifest) }

// WriteManifest atomically replaces the run's manifest with the JSON of m.
func (r Run) WriteManifest(m any) error {
	line, err := jsonl.Encode(m)
	if err != nil {
		return err
	}
	var data bytes.Buffer
	if err := json.Indent(&data, line, "", "  "); err != nil {
		return err
	}
	return durable.Replace(r.ManifestPath(), data.Bytes(), 0o600)
}

// The states in which a run has ended, in the field state of its manifest.
const (
	StateCompleted = "completed"
	StateFailed    = "failed"
)

// facts are the fields of a manifest that this package reads.
type facts struct {
	Manifest
	State string `json:"state"`
	// Version is that of oacp pair, which works the records of its runs. A log and a run of AgentPair have none.
	Version int `json:"version"`
}

// facts reads the run's manifest. Without one, it returns the zero value.
func (r Run) facts() (found facts, err error) {
	data, err := r.ReadManifest()
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	if err := json.Unmarshal(data, &found); err != nil {
		return facts{}, fmt.Errorf("manifest %s: %w", r.ManifestPath(), err)
	}
	return found, nil
}

// IsLog reports whether the run only holds a log, which a mirror or oacp bridge send writes. No pair of
// agents works on such a run, whatever its state says.
func (m *Manifest) IsLog() bool { return m.PrimaryAgent == "" && m.Prompt == "" }

// Repository returns the path of the run's repository from its manifest, and "" if there is no
// manifest.
func (r Run) Repository() (string, error) {
	facts, err := r.facts()
	return facts.RepoPath, err
}

// Beginning returns when the run of the log at path began: the created_at of the manifest beside the
// log. Older messages belong to earlier runs. The log need not exist yet.
//
// The time is zero if there is no manifest, or if the run is the first of its repository and no pair of agents
// works on it: such a run also gets the messages that existed before it.
func Beginning(path string) (time.Time, error) {
	path, err := resolve(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("beginning of the run: %w", err)
	}
	folder := filepath.Dir(path)
	facts, err := Run{Folder: folder}.facts()
	if err != nil || facts.CreatedAt.IsZero() || !facts.IsLog() {
		return facts.CreatedAt, err
	}
	runs, err := runsIn(filepath.Dir(folder))
	if err != nil {
		return time.Time{}, err
	}
	if id := RunNumber(path); id == 0 || len(runs) == 0 || runs[0].ID >= id {
		return time.Time{}, nil
	}
	return facts.CreatedAt, nil
}

// Earlier returns the path of the log of the run before that of the log at path, and "" if there is none.
func Earlier(path string) (log string, err error) {
	if path, err = resolve(path); err != nil {
		return "", fmt.Errorf("the run before: %w", err)
	}
	id := RunNumber(path)
	if id == 0 {
		return "", nil
	}
	runs, err := runsIn(filepath.Dir(filepath.Dir(path)))
	for _, r := range runs {
		if r.ID < id {
			log = r.BridgePath()
		}
	}
	return log, err
}

// RunState returns the state in which the run of the log at path has ended, or "" if the run is open, and whether
// oacp pair drives it, and so works its records. A log without a manifest is open.
func RunState(path string) (ended string, paired bool, err error) {
	if path, err = resolve(path); err != nil {
		return "", false, fmt.Errorf("state of the run: %w", err)
	}
	facts, err := Run{Folder: filepath.Dir(path)}.facts()
	if facts.State == StateCompleted || facts.State == StateFailed {
		ended = facts.State
	}
	return ended, facts.Version > 0, err
}
