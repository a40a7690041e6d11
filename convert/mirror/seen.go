package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// In a workspace, stateName is the folder of what mirrors keep, and lettersName that of dead letters whose sender the
// workspace does not know.
const (
	stateName   = "state/mirror"
	lettersName = stateName + "/dead_letter"
)

// stateFile is the path below the workspace, without extension, of what is kept about a log in one direction. Two
// directions never share a file, so that two processes need not agree on one.
func stateFile(log *bridge.Log, direction Direction) string {
	sum := sha256.Sum256([]byte(log.Path()))
	return stateName + "/" + hex.EncodeToString(sum[:8]) + "-" + string(direction)
}

// seen is what a mirror has seen in one direction. It may be deleted at any time.
type seen struct {
	// Log is the path of the log, for people.
	Log string `json:"log"`
	// Delivered is, on the way into the mailboxes, the place in the log before which everything is dealt with.
	Delivered bridge.Cursor `json:"delivered,omitempty"`
	// Recorded is, on the way into the log, a place behind everything that was recorded. A log that does not have
	// it is another one.
	Recorded bridge.Cursor `json:"recorded,omitempty"`
	// Bound is what belonged in the log; see outward. With another one the outboxes are listed again.
	Bound string `json:"bound,omitempty"`
	// Outboxes has, for each outbox of which everything is dealt with, when it was last modified.
	Outboxes map[schema.AgentName]time.Time `json:"outboxes,omitempty"`
}

// loadSeen reads what save wrote. A file that is missing or damaged is as good as an empty one.
func loadSeen(w *mailbox.Workspace, log *bridge.Log, direction Direction) (s seen) {
	data, err := w.Root().ReadFile(stateFile(log, direction) + ".json")
	if err != nil || json.Unmarshal(data, &s) != nil {
		s = seen{}
	}
	s.Log = log.Path()
	return s
}

func (s seen) save(w *mailbox.Workspace, log *bridge.Log, direction Direction) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := w.MakeStateFolder(stateName); err != nil {
		return err
	}
	return durable.Replace(filepath.Join(w.Dir(), stateFile(log, direction)+".json"), append(data, '\n'), 0o644)
}

// hasPlace reports whether the log has a place. Every log has the empty one.
func hasPlace(ctx context.Context, log *bridge.Log, place bridge.Cursor) (bool, error) {
	if place == "" {
		return true, nil
	}
	for _, err := range log.Records(ctx, place) {
		var line *bridge.LineError
		switch {
		case errors.Is(err, bridge.ErrUnknownCursor):
			return false, nil
		case errors.As(err, &line):
			return true, nil
		}
		return err == nil, err
	}
	return true, nil
}
