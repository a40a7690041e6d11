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

// runFacts are what this package reads of a run's manifest.
type runFacts struct {
	RepositoryPath string    `json:"repo_path"`
	Prompt         string    `json:"prompt"`
	PrimaryAgent   string    `json:"primary_agent"`
	CreatedAt      time.Time `json:"created_at"`
}

// manifest is what AgentPair expects of every run. Package pair writes more for the runs that it
// drives.
type manifest struct {
	runFacts
	ID               int       `json:"id"`
	RepositoryID     string    `json:"repo_id"`
	State            string    `json:"state"`
	ReviewMode       string    `json:"review_mode"`
	MaxIterations    int       `json:"max_iterations"`
	CurrentIteration int       `json:"current_iteration"`
	DoneSignal       string    `json:"done_signal"`
	UpdatedAt        time.Time `json:"updated_at"`
}

// writeManifest writes the manifest of a run that no pair of agents works on.
func (r Run) writeManifest(repository string, now time.Time) error {
	data, err := json.MarshalIndent(manifest{
		runFacts: runFacts{RepositoryPath: repository, CreatedAt: now},
		ID:       r.ID, RepositoryID: r.RepositoryID, State: "working", DoneSignal: string(SignalDone), UpdatedAt: now,
	}, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(r.ManifestPath(), append(data, '\n'), 0o600)
}

// facts reads the run's manifest. Without one, they are zero.
func (r Run) facts() (facts runFacts, err error) {
	const longest = 1 << 20
	data, err := readFile(r.ManifestPath(), longest)
	if errors.Is(err, fs.ErrNotExist) {
		return facts, nil
	}
	if err != nil {
		return facts, err
	}
	if err := json.Unmarshal(data, &facts); err != nil {
		return runFacts{}, fmt.Errorf("manifest %s: %w", r.ManifestPath(), err)
	}
	return facts, nil
}

// Repository returns the path of the run's repository from its manifest, and "" if there is no
// manifest.
func (r Run) Repository() (string, error) {
	facts, err := r.facts()
	return facts.RepositoryPath, err
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
	if err != nil || facts.CreatedAt.IsZero() || facts.PrimaryAgent != "" || facts.Prompt != "" {
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
