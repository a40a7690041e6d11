package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
)

// ErrNoRun reports a run that does not exist.
var ErrNoRun = failure.New("unknown_run", "no such run", "oacp bridge lists the runs; --repo names another repository, --bridge another log")

// Run is one run of a repository: a folder <root>/<repository id>/<run id> that holds
// manifest.json, bridge.jsonl and transcript.jsonl (AgentPair's architecture page, "Run Manager").
type Run struct {
	RepositoryID string
	ID           int
	Folder       string
}

// logName is the file name of a run's log.
const logName = "bridge.jsonl"

// BridgePath returns the path of the run's bridge log.
func (r Run) BridgePath() string { return filepath.Join(r.Folder, logName) }

// ManifestPath returns the path of the run's manifest.
func (r Run) ManifestPath() string { return filepath.Join(r.Folder, "manifest.json") }

// TranscriptPath returns the path of the run's transcript.
func (r Run) TranscriptPath() string { return filepath.Join(r.Folder, "transcript.jsonl") }

// Open opens the run's bridge log, which is empty if the file does not exist. Records sent without
// a run ID get this run's, whatever the options say.
func (r Run) Open(options *Options) (*Log, error) {
	settings := *cmp.Or(options, &Options{})
	settings.RunID = r.ID
	return Open(r.BridgePath(), &settings)
}

// DefaultRoot returns the folder in which AgentPair keeps runs, .agentpair/runs in the user's home.
func DefaultRoot() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("folder of runs: %w", err)
	}
	return filepath.Join(home, ".agentpair", "runs"), nil
}

// RepositoryID returns the name of a repository's folder of runs: the first 16 hexadecimal digits
// of the SHA-256 of its absolute path. As in AgentPair, symbolic links are not resolved.
func RepositoryID(repository string) (string, error) {
	path, err := filepath.Abs(repository)
	if err != nil {
		return "", fmt.Errorf("repository %s: %w", repository, err)
	}
	return repositoryID(path), nil
}

func repositoryID(absolute string) string {
	sum := sha256.Sum256([]byte(absolute))
	return hex.EncodeToString(sum[:8])
}

func isRepositoryID(name string) bool {
	return len(name) == 16 && strings.Trim(name, "0123456789abcdef") == ""
}

// repositoryFolder checks a repository ID before it builds a path from it.
func repositoryFolder(root, repositoryID string) (string, error) {
	if !isRepositoryID(repositoryID) {
		return "", fmt.Errorf("repository id %q is not 16 lower-case hexadecimal digits", repositoryID)
	}
	return filepath.Join(root, repositoryID), nil
}

// Repositories returns the IDs of the repositories that have a folder under root, sorted. A root
// that does not exist has none.
func Repositories(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list repositories: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && isRepositoryID(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// Runs returns the runs of the repositories. It sorts the runs of each repository by number. A
// repository without a folder has none.
func Runs(root string, repositoryIDs ...string) (all []Run, err error) {
	for _, id := range repositoryIDs {
		folder, err := repositoryFolder(root, id)
		if err != nil {
			return nil, err
		}
		runs, err := runsIn(folder)
		if err != nil {
			return nil, err
		}
		all = append(all, runs...)
	}
	return all, nil
}

func runsIn(folder string) ([]Run, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var runs []Run
	for _, e := range entries {
		if id := runNumber(e.Name()); id > 0 && e.IsDir() {
			runs = append(runs, Run{filepath.Base(folder), id, filepath.Join(folder, e.Name())})
		}
	}
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.ID, b.ID) })
	return runs, nil
}

// runNumber returns the number of the run whose folder has the name, and 0 for any other name.
func runNumber(name string) int {
	id, err := strconv.Atoi(name)
	if err != nil || id < 1 || strconv.Itoa(id) != name {
		return 0
	}
	return id
}

// RunNumber returns the number of the run that a log at an absolute path belongs to, and 0 if its
// folder is not named like a run.
func RunNumber(path string) int { return runNumber(filepath.Base(filepath.Dir(path))) }

// NewRun makes the folder of a new run. The first run has the number 1, each later one the next number.
// If several processes call NewRun at once, each gets its own run.
func NewRun(root, repositoryID string) (Run, error) {
	runs, err := Runs(root, repositoryID)
	if err != nil {
		return Run{}, err
	}
	next := 1 + lastRemoved(filepath.Join(root, repositoryID))
	if len(runs) > 0 {
		next = max(next, runs[len(runs)-1].ID+1)
	}
	for ; ; next++ {
		run, made, err := makeFolder(root, repositoryID, next)
		if err != nil || made {
			return run, err
		}
	}
}

// MakeRun makes the run of a repository with the given number unless it exists. It makes the folder and
// a manifest, because AgentPair ignores a run without one.
func MakeRun(root, repository string, id int, now time.Time) (Run, error) {
	if id < 1 {
		return Run{}, fmt.Errorf("new run: %d is not the number of a run, the first is 1", id)
	}
	repository, err := filepath.Abs(repository)
	if err != nil {
		return Run{}, fmt.Errorf("new run: %w", err)
	}
	run, made, err := makeFolder(root, repositoryID(repository), id)
	if err == nil && made {
		// These are the fields that AgentPair expects of every run.
		err = run.WriteManifest(map[string]any{
			"id": id, "repo_path": repository, "repo_id": run.RepositoryID, "prompt": "", "state": "working",
			"primary_agent": "", "review_mode": "", "max_iterations": 0, "current_iteration": 0,
			"done_signal": SignalDone, "created_at": now.UTC(), "updated_at": now.UTC(),
		})
	}
	if err != nil {
		return Run{}, fmt.Errorf("new run: %w", err)
	}
	return run, nil
}

// makeFolder makes the folder of a run. made reports whether it did not exist.
func makeFolder(root, repositoryID string, id int) (run Run, made bool, err error) {
	folder, err := repositoryFolder(root, repositoryID)
	if err != nil {
		return Run{}, false, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return Run{}, false, err
	}
	run = Run{repositoryID, id, filepath.Join(folder, strconv.Itoa(id))}
	err = os.Mkdir(run.Folder, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return run, false, nil
	}
	return run, err == nil, err
}

// Status counts the records of the run's log.
func (r Run) Status(ctx context.Context) (status Status, err error) {
	log, err := r.Open(nil)
	if err != nil {
		return status, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return log.Status(ctx)
}
