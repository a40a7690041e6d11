package pair

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/exclusive"
)

// Create makes a new run of a repository below root, the folder of all runs, and a session that
// drives it. Any number of processes may call it at once. An error about a setting names the setting.
// An error that names a run means that the run may exist, and that Resume can continue it.
func Create(root, repository string, settings Settings, options Options) (*Session, error) {
	settings, err := settings.complete()
	if err != nil {
		return nil, err
	}
	if repository, err = filepath.Abs(repository); err != nil {
		return nil, err
	}
	if root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	repositoryID, err := bridge.RepositoryID(repository)
	if err != nil {
		return nil, err
	}
	options.fill()
	now := options.Now().UTC()
	manifest := Manifest{
		Manifest: bridge.Manifest{RepoPath: repository, Prompt: settings.Prompt, PrimaryAgent: string(settings.Agent), CreatedAt: now},
		Version:  manifestVersion, RepoID: repositoryID, State: Init, ReviewMode: settings.Review, MaxIterations: settings.MaxIterations,
		ProofCommand: settings.Proof, DoneSignal: settings.Done, UpdatedAt: now,
	}
	if settings.Worktree {
		if manifest.BaseCommit, err = baseCommit(repository); err != nil {
			return nil, err
		}
	} else {
		manifest.BaseCommit = startingPoint(repository)
	}
	run, err := bridge.NewRun(root, repositoryID)
	if err != nil {
		return nil, err
	}
	manifest.ID = run.ID
	if settings.Worktree {
		manifest.WorktreePath = filepath.Join(run.Folder, "worktree") // so that no two runs share one
	}
	var s *Session
	if err = run.WriteManifest(&manifest); err == nil {
		s, err = Resume(run, options)
	}
	if err != nil {
		return nil, fmt.Errorf("run %d: %w", run.ID, err)
	}
	return s, nil
}

// Resume returns a session that continues a run. It returns a *BusyError if another process drives the
// run, or an error of ReadManifest.
func Resume(run bridge.Run, options Options) (_ *Session, err error) {
	options.fill()
	s := &Session{run: run, options: options, stopDelay: stopDelay}
	s.drivers.Most = len([]Agent{Claude, Codex})
	s.drivers.New = func(name, session string) agent.Driver {
		return s.options.NewDriver(Agent(name), s.manifest.Dir(), session)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.hold, err = lockOf(run).Take(context.Background(), options.Now()); err != nil {
		return nil, err
	}
	if s.manifest, err = ReadManifest(run); err != nil {
		return nil, err
	}
	if s.log, err = run.Open(&bridge.Options{Now: options.Now, Warn: options.Warn}); err != nil {
		return nil, err
	}
	if s.transcript, err = openTranscript(run.TranscriptPath()); err != nil {
		return nil, err
	}
	return s, nil
}

// BusyError reports that another process drives the run.
type BusyError = exclusive.HeldError

// Driven reports whether a process drives the run.
func Driven(run bridge.Run) (bool, error) {
	driven, _, err := lockOf(run).Held()
	return driven, err
}

func lockOf(run bridge.Run) exclusive.Lock {
	return exclusive.Lock{
		Open: func() (*durable.Dir, error) { return durable.OpenPath(run.Folder) },
		Name: "pair.lock", Note: "pair.json", What: fmt.Sprintf("run %d is driven", run.ID),
		Hint: "only one process drives a run; oacp pair list shows its state",
	}
}
