package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
)

// Manifest holds the fields of manifest.json that say which run it is. Programs that keep more in it
// embed Manifest in their own type.
type Manifest struct {
	RepoPath     string    `json:"repo_path"`
	Prompt       string    `json:"prompt"`
	PrimaryAgent string    `json:"primary_agent"`
	CreatedAt    time.Time `json:"created_at"`
}

// maxManifest bounds a manifest in bytes: the longest answer and prompt of a pair, escaped.
const maxManifest = 32 << 20

// ReadManifest returns the bytes of the run's manifest. A run that never began has none: the error
// matches fs.ErrNotExist.
func (r Run) ReadManifest() ([]byte, error) { return readFile(r.ManifestPath(), maxManifest) }

// WriteManifest replaces the run's manifest atomically by the JSON of m.
func (r Run) WriteManifest(m any) error {
	data, err := marshal(m, "  ")
	if err != nil {
		return err
	}
	return durable.Replace(r.ManifestPath(), data, 0o600)
}

// facts reads the run's manifest. Without one, they are zero.
func (r Run) facts() (facts Manifest, err error) {
	data, err := r.ReadManifest()
	if errors.Is(err, fs.ErrNotExist) {
		return facts, nil
	}
	if err != nil {
		return facts, err
	}
	if err := json.Unmarshal(data, &facts); err != nil {
		return Manifest{}, fmt.Errorf("manifest %s: %w", r.ManifestPath(), err)
	}
	return facts, nil
}

// IsLog reports whether the run was made only to hold a log, which a mirror or oacp bridge send
// writes: no pair of agents works on it, whatever its state is.
func (m *Manifest) IsLog() bool { return m.PrimaryAgent == "" && m.Prompt == "" }

// Repository returns the path of the run's repository from its manifest, and "" if there is no
// manifest.
func (r Run) Repository() (string, error) {
	facts, err := r.facts()
	return facts.RepoPath, err
}

// Beginning returns when the run of the log at path began, which need not exist yet: older messages
// belong to earlier runs. It is the created_at of the manifest beside the log. It is zero, for no
// beginning, without a manifest, and for a repository's first run unless a pair of agents works on
// it: such a run was made to hold what there was.
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
