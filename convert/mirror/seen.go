package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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

// inSeen is what the way into the mailboxes has seen. It may be deleted at any time.
type inSeen struct {
	// Log is the path of the log, for people.
	Log string `json:"log"`
	// Delivered is the place in the log before which everything is dealt with.
	Delivered bridge.Cursor `json:"delivered"`
}

// outSeen is what the way into the log has seen. It may be deleted at any time.
type outSeen struct {
	// Log is the path of the log, for people.
	Log string `json:"log"`
	// Recorded is a place in the log behind everything that was recorded. A log that does not have it is
	// another one.
	Recorded bridge.Cursor `json:"recorded"`
	// Bound is what belonged in the log; see out.bound. With another one the outboxes are listed again.
	Bound string `json:"bound"`
	// Outboxes has, for each outbox of which everything is dealt with, when it was last modified.
	Outboxes map[schema.AgentName]time.Time `json:"outboxes"`
}

// loadSeen reads a file that saveSeen wrote. One that is missing or damaged is as good as an empty one.
func loadSeen[S any](w *mailbox.Workspace, name string) (seen S) {
	data, err := w.Root().ReadFile(name + ".json")
	if err != nil || json.Unmarshal(data, &seen) != nil {
		var none S
		return none
	}
	return seen
}

func saveSeen(w *mailbox.Workspace, name string, seen any) error {
	data, err := json.MarshalIndent(seen, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s.json: %w", name, err)
	}
	if err := w.MakeStateFolder(stateName); err != nil {
		return err
	}
	return durable.Replace(filepath.Join(w.Dir(), name+".json"), append(data, '\n'), 0o644)
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
