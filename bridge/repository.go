package bridge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// FindRepository returns the repository to whose runs somebody working in a folder belongs. In a git
// repository that is the nearest folder, from that one up to the top, that has runs below root, or else the
// top; elsewhere it is the folder itself. AgentPair always takes the folder it was started in, which may be
// any of them.
func FindRepository(root, folder string) (string, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", fmt.Errorf("repository: %w", err)
	}
	withRuns := ""
	for at := folder; ; at = filepath.Dir(at) {
		id, err := RepositoryID(at)
		if err != nil {
			return "", err
		}
		runs, err := exists(filepath.Join(root, id))
		if err != nil {
			return "", err
		}
		if runs && withRuns == "" {
			withRuns = at
		}
		top, err := exists(filepath.Join(at, ".git")) // a file in a worktree
		switch {
		case err != nil:
			return "", err
		case top && withRuns != "":
			return withRuns, nil
		case top:
			return at, nil
		case at == filepath.Dir(at):
			return folder, nil
		}
	}
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// LatestRun returns the run of a repository with the greatest number. If there is none the error matches
// ErrNoRun.
func LatestRun(root, repositoryID string) (Run, error) {
	runs, err := Runs(root, repositoryID)
	if err == nil && len(runs) == 0 {
		err = fmt.Errorf("%w: repository %s has none in %s", ErrNoRun, repositoryID, root)
	}
	if err != nil {
		return Run{}, err
	}
	return runs[len(runs)-1], nil
}

// MakeRun returns the run of a repository with the given number, and makes it where there is none: its
// folder, and a manifest, without which AgentPair passes a run over.
func MakeRun(root, repository string, id int, now time.Time) (Run, error) {
	repository, err := filepath.Abs(repository)
	if err != nil {
		return Run{}, fmt.Errorf("new run: %w", err)
	}
	repositoryID, err := RepositoryID(repository)
	if err != nil {
		return Run{}, err
	}
	run, err := FindRun(root, repositoryID, id)
	if !errors.Is(err, ErrNoRun) {
		return run, err
	}
	if id < 1 {
		return Run{}, fmt.Errorf("new run: %d is no number of a run, the first is 1", id)
	}
	run = Run{repositoryID, id, filepath.Join(root, repositoryID, strconv.Itoa(id))}
	if err := os.MkdirAll(run.Folder, 0o700); err != nil {
		return Run{}, fmt.Errorf("new run: %w", err)
	}
	if err := run.writeManifest(repository, now.UTC()); err != nil {
		return Run{}, fmt.Errorf("new run: %w", err)
	}
	return run, nil
}

// RunNumber returns the number of the run that a log at the path belongs to, which is the name of its folder;
// 0 where that is no number of a run.
func RunNumber(path string) int {
	path, err := filepath.Abs(path)
	if err != nil {
		return 0
	}
	name := filepath.Base(filepath.Dir(path))
	id, err := strconv.Atoi(name)
	if err != nil || id < 1 || strconv.Itoa(id) != name {
		return 0
	}
	return id
}

// logName is what the log of a run is called.
const logName = "bridge.jsonl"

// FindLogs returns the logs that a path stands for: the file itself or, of a folder, the files called
// bridge.jsonl in it and below, in the order of their paths. Where there is none the error matches
// fs.ErrNotExist.
func FindLogs(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("bridge log: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var logs []string
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && entry.Name() == logName {
			logs = append(logs, name)
		}
		return err
	})
	if err == nil && len(logs) == 0 {
		err = fmt.Errorf("there is no %s in the folder %s: %w", logName, path, fs.ErrNotExist)
	}
	return logs, err
}
