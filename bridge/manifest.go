package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// manifest is what AgentPair writes down about a run; its own run has more to say.
type manifest struct {
	ID               int       `json:"id"`
	RepositoryPath   string    `json:"repo_path"`
	RepositoryID     string    `json:"repo_id"`
	Prompt           string    `json:"prompt"`
	State            string    `json:"state"`
	PrimaryAgent     string    `json:"primary_agent"`
	ReviewMode       string    `json:"review_mode"`
	MaxIterations    int       `json:"max_iterations"`
	CurrentIteration int       `json:"current_iteration"`
	DoneSignal       string    `json:"done_signal"`
	CreatedAt        time.Time `json:"created_at"`
	UpdatedAt        time.Time `json:"updated_at"`
}

// writeManifest writes the manifest of a run that nobody drives, unless there is one.
func (r Run) writeManifest(repository string, now time.Time) error {
	data, err := json.MarshalIndent(manifest{
		ID: r.ID, RepositoryPath: repository, RepositoryID: r.RepositoryID, State: "working",
		DoneSignal: string(SignalDone), CreatedAt: now, UpdatedAt: now,
	}, "", "  ")
	if err != nil {
		return err
	}
	file, err := os.OpenFile(r.ManifestPath(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = file.Write(append(data, '\n'))
	return errors.Join(err, file.Close())
}

// maxManifest bounds what is read of a manifest.
const maxManifest = 1 << 20

// Repository returns the path of the run's repository, as its manifest tells; nothing where there is no
// manifest.
func (r Run) Repository() (string, error) {
	var m struct {
		RepositoryPath string `json:"repo_path"`
	}
	_, err := readManifest(r.Folder, &m)
	return m.RepositoryPath, err
}

// Beginning returns when the run began whose log stands at the path, which may not exist yet: what is older
// belongs to the runs before it. It is the time at which the manifest beside the log says that the run was
// created, and zero where there is no beginning: without a manifest, and for a repository's first run if no
// pair of agents works on it, for then it was made to hold what there was.
func Beginning(path string) (time.Time, error) {
	path, err := resolve(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("beginning of the run: %w", err)
	}
	var m struct {
		Prompt       string    `json:"prompt"`
		PrimaryAgent string    `json:"primary_agent"`
		CreatedAt    time.Time `json:"created_at"`
	}
	folder := filepath.Dir(path)
	found, err := readManifest(folder, &m)
	if err != nil || !found {
		return time.Time{}, err
	}
	if m.PrimaryAgent != "" || m.Prompt != "" {
		return m.CreatedAt, nil
	}
	runs, err := runsIn(filepath.Dir(folder))
	if err != nil {
		return time.Time{}, err
	}
	if id := RunNumber(path); id == 0 || len(runs) == 0 || runs[0].ID >= id {
		return time.Time{}, nil
	}
	return m.CreatedAt, nil
}

// readManifest reads the manifest in a run's folder into m, if there is one.
func readManifest(folder string, m any) (found bool, err error) {
	path := Run{Folder: folder}.ManifestPath()
	file, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close() // it is only read
	if err := json.NewDecoder(io.LimitReader(file, maxManifest)).Decode(m); err != nil {
		return false, fmt.Errorf("manifest %s: %w", path, err)
	}
	return true, nil
}
