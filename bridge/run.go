package bridge

import (
	"cmp"
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
)

// ErrNoRun says that there is no folder for a run.
var ErrNoRun = errors.New("no such run")

// Run is one run of a repository: a folder <root>/<repository id>/<run id> that holds manifest.json,
// bridge.jsonl and transcript.jsonl (AgentPair's architecture page, "Run Manager").
type Run struct {
	RepositoryID string
	ID           int
	Folder       string
}

// BridgePath is the path of the run's bridge log.
func (r Run) BridgePath() string { return filepath.Join(r.Folder, logName) }

// ManifestPath is the path of the run's manifest.
func (r Run) ManifestPath() string { return filepath.Join(r.Folder, "manifest.json") }

// TranscriptPath is the path of the run's transcript.
func (r Run) TranscriptPath() string { return filepath.Join(r.Folder, "transcript.jsonl") }

// Open opens the run's bridge log, which is empty where the file does not exist. Records sent without a run
// id get this run's, whatever the options say.
func (r Run) Open(options *Options) (*Log, error) {
	var settings Options
	if options != nil {
		settings = *options
	}
	settings.RunID = r.ID
	return Open(r.BridgePath(), &settings)
}

// DefaultRoot is the folder AgentPair keeps runs in, .agentpair/runs in the user's home.
func DefaultRoot() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("folder of runs: %w", err)
	}
	return filepath.Join(home, ".agentpair", "runs"), nil
}

// RepositoryID is the name of a repository's folder of runs: the first 16 hexadecimal digits of the SHA-256
// of its absolute path. Symbolic links are not resolved, as AgentPair does not resolve them.
func RepositoryID(repository string) (string, error) {
	path, err := filepath.Abs(repository)
	if err != nil {
		return "", fmt.Errorf("repository %s: %w", repository, err)
	}
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8]), nil
}

// isRepositoryID reports whether a name is 16 lower-case hexadecimal digits.
func isRepositoryID(name string) bool {
	return len(name) == 16 && strings.Trim(name, "0123456789abcdef") == ""
}

// repositoryFolder checks a repository id before a path is built from it.
func repositoryFolder(root, repositoryID string) (string, error) {
	if !isRepositoryID(repositoryID) {
		return "", fmt.Errorf("repository id %q is not 16 lower-case hexadecimal digits", repositoryID)
	}
	return filepath.Join(root, repositoryID), nil
}

// Repositories lists the ids of the repositories that have a folder under root, sorted. A root that does
// not exist has none.
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

// Runs lists the runs of a repository by number. A repository without a folder has none.
func Runs(root, repositoryID string) ([]Run, error) {
	folder, err := repositoryFolder(root, repositoryID)
	if err != nil {
		return nil, err
	}
	return runsIn(folder)
}

// runsIn lists the runs in a repository's folder.
func runsIn(folder string) ([]Run, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var runs []Run
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil || id < 1 || strconv.Itoa(id) != e.Name() || !e.IsDir() {
			continue
		}
		runs = append(runs, Run{filepath.Base(folder), id, filepath.Join(folder, e.Name())})
	}
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.ID, b.ID) })
	return runs, nil
}

// FindRun returns the run with the given number. If there is none the error matches ErrNoRun.
func FindRun(root, repositoryID string, id int) (Run, error) {
	runs, err := Runs(root, repositoryID)
	if err != nil {
		return Run{}, err
	}
	for _, run := range runs {
		if run.ID == id {
			return run, nil
		}
	}
	return Run{}, fmt.Errorf("%w: run %d of repository %s in %s", ErrNoRun, id, repositoryID, root)
}

// NewRun makes the folder of a new run, with the number after the greatest there is; the first is 1. Of
// several processes at once each gets a run of its own.
func NewRun(root, repositoryID string) (Run, error) {
	folder, err := repositoryFolder(root, repositoryID)
	if err != nil {
		return Run{}, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return Run{}, fmt.Errorf("new run: %w", err)
	}
	runs, err := Runs(root, repositoryID)
	if err != nil {
		return Run{}, err
	}
	next := 1
	if len(runs) > 0 {
		next = runs[len(runs)-1].ID + 1
	}
	for ; ; next++ {
		run := Run{repositoryID, next, filepath.Join(folder, strconv.Itoa(next))}
		switch err := os.Mkdir(run.Folder, 0o700); {
		case err == nil:
			return run, nil
		case !errors.Is(err, fs.ErrExist):
			return Run{}, fmt.Errorf("new run: %w", err)
		}
	}
}
