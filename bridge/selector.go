package bridge

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/oacp-go/oacp/internal/git"
)

// Selector selects a log: a file, or the log of a run of a repository.
type Selector struct {
	// File is the path of the log. If it is set, the other fields are ignored.
	File string
	// Root is the folder of all runs; empty means DefaultRoot.
	Root string
	// Repository is the path of the repository. If it is empty, the repository is the top of the git
	// repository around Dir or, elsewhere, Dir itself.
	Repository string
	// Dir is the folder that the user works in.
	Dir string
	// RunID is the number of the run; 0 means the latest run, or run 1 if there is none.
	RunID int
	// MayMake allows a RunID that does not exist.
	MayMake bool
}

// Location is the log that a Selector selects.
type Location struct {
	// Path is the log's file, which need not exist yet.
	Path string
	// Run is the run of the log. Its ID is 0 for a file whose folder is not named like a run.
	Run Run
	// Missing reports that the run does not exist; Make makes it.
	Missing bool

	root, repository string
}

// Select returns the selected log and makes nothing. A file need not exist, but its folder must. The
// error matches ErrNoRun if RunID names a run that does not exist, unless MayMake is set.
func (s Selector) Select() (Location, error) {
	if s.File != "" {
		path, err := filepath.Abs(s.File)
		if err == nil {
			_, err = os.Stat(filepath.Dir(path) + string(filepath.Separator)) // a folder, not a file
		}
		if err != nil {
			return Location{}, fmt.Errorf("bridge log: %w", err)
		}
		return Location{Path: path, Run: Run{ID: RunNumber(path), Folder: filepath.Dir(path)}}, nil
	}
	root, repository, err := s.Folders()
	if err != nil {
		return Location{}, err
	}
	repositoryID, err := RepositoryID(repository)
	if err != nil {
		return Location{}, err
	}
	runs, err := Runs(root, repositoryID)
	if err != nil {
		return Location{}, err
	}
	id := max(s.RunID, 1)
	if s.RunID == 0 && len(runs) > 0 {
		id = runs[len(runs)-1].ID
	}
	run := Run{repositoryID, id, filepath.Join(root, repositoryID, strconv.Itoa(id))}
	l := Location{run.BridgePath(), run, !slices.Contains(runs, run), root, repository}
	if s.RunID != 0 && !s.MayMake {
		return l, l.Err()
	}
	return l, nil
}

// Folders returns the folder of all runs and the selected repository.
func (s Selector) Folders() (root, repository string, err error) {
	root, repository = s.Root, s.Repository
	if root == "" {
		if root, err = DefaultRoot(); err != nil {
			return "", "", err
		}
	}
	if repository == "" {
		repository, err = findRepository(s.Dir)
	}
	return root, repository, err
}

// Err returns an error that matches ErrNoRun if the run does not exist.
func (l Location) Err() error {
	if !l.Missing {
		return nil
	}
	return fmt.Errorf("%s: %w: run %d of repository %s in %s", l.repository, ErrNoRun, l.Run.ID, l.Run.RepositoryID, l.root)
}

// Make makes the run if it does not exist. It may be called more than once.
func (l Location) Make(now time.Time) error {
	if !l.Missing {
		return nil
	}
	_, err := MakeRun(l.root, l.repository, l.Run.ID, now)
	return err
}

// findRepository returns the top of the git repository around a folder or, elsewhere, the folder itself.
func findRepository(folder string) (string, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", fmt.Errorf("repository: %w", err)
	}
	top, err := git.Top(folder)
	return cmp.Or(top, folder), err
}
