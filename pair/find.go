package pair

import (
	"errors"
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/bridge"
)

// FindSession returns the latest run of a repository in which an agent has
// the session. If there is none the error matches bridge.ErrNoRun; it names
// the runs whose manifest could not be read.
func FindSession(root, repositoryID, session string) (bridge.Run, error) {
	runs, err := bridge.Runs(root, repositoryID)
	if err != nil {
		return bridge.Run{}, err
	}
	var unread []error
	for _, run := range slices.Backward(runs) {
		m, err := ReadManifest(run)
		switch {
		case errors.Is(err, ErrForeignRun), errors.Is(err, ErrNeverBegun): // nothing to go on with
		case err != nil:
			unread = append(unread, err)
		case session != "" && (m.ClaudeSessionID == session || m.CodexSessionID == session):
			return run, nil
		}
	}
	err = fmt.Errorf("%w: no run of repository %s in %s has the session %q", bridge.ErrNoRun, repositoryID, root, session)
	return bridge.Run{}, errors.Join(append([]error{err}, unread...)...)
}
