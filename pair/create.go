package pair

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
)

// Create makes a new run of the repository below root, the folder of all
// runs, and a session that drives it. Any number of processes may do so at
// once. An error of a setting names it. A *BegunError says that the run is
// there all the same.
func Create(root, repository string, settings Settings, options Options) (*Session, error) {
	settings, err := settings.forNewRun()
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
		Version: Version, RepoPath: repository, RepoID: repositoryID, Prompt: settings.Prompt, State: Init,
		PrimaryAgent: settings.Agent, ReviewMode: settings.Review, MaxIterations: settings.MaxIterations,
		ProofCommand: settings.Proof, DoneSignal: settings.Done, CreatedAt: now, UpdatedAt: now,
	}
	if settings.Worktree {
		if manifest.BaseCommit, err = baseCommit(repository); err != nil {
			return nil, err
		}
	}
	run, err := bridge.NewRun(root, repositoryID)
	if err != nil {
		return nil, err
	}
	manifest.ID = run.ID
	if settings.Worktree {
		manifest.WorktreePath = worktreePath(run)
	}
	begun := false
	s, err := open(run, options, func() (Manifest, error) {
		err := manifest.write(run)
		begun = err == nil
		return manifest, err
	})
	switch {
	case err != nil && begun:
		return nil, &BegunError{Run: run.ID, Err: err}
	case err != nil:
		discard(run)
	}
	return s, err
}

// BegunError says that Create has made a run, but no session that drives it.
// The run can be resumed.
type BegunError struct {
	Run int
	Err error
}

// Error says what stood in the way.
func (e *BegunError) Error() string { return e.Err.Error() }

// Unwrap returns what stood in the way.
func (e *BegunError) Unwrap() error { return e.Err }

// discard removes the folder of a run that was never begun, unless somebody
// else has put something into it. What stays says of itself that it was never
// begun.
func discard(run bridge.Run) {
	lock := lockOf(run)
	for _, path := range []string{lock.Path, lock.Note, run.Folder} {
		_ = os.Remove(path)
	}
}

// Resume makes a session that goes on with a run where it stopped. A
// *BusyError says that another process drives it; ReadManifest tells what
// other errors there are.
func Resume(run bridge.Run, options Options) (*Session, error) {
	options.fill()
	return open(run, options, func() (Manifest, error) { return ReadManifest(run) })
}

// open takes the run's lock, and then what it locks.
func open(run bridge.Run, options Options, load func() (Manifest, error)) (_ *Session, err error) {
	s := &Session{run: run, options: options, drivers: make(map[Agent]agent.Driver), stopDelay: stopDelay}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.hold, err = takeLock(run, options.Now()); err != nil {
		return nil, err
	}
	if s.manifest, err = load(); err != nil {
		return nil, err
	}
	if s.log, err = run.Open(&bridge.Options{Now: options.Now, Warn: options.Warn}); err != nil {
		return nil, err
	}
	if s.transcript, err = openTranscript(run.TranscriptPath()); err != nil {
		return nil, err
	}
	return s, s.note(Entry{Type: EntryStart, State: s.manifest.State, Content: s.manifest.Prompt})
}
