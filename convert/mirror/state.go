package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
)

// stateName is the folder of the state of mirrors in a workspace, and lettersName that of the dead letters
// whose sender the workspace does not know.
const (
	stateName   = "state/mirror"
	lettersName = stateName + "/dead_letter"
)

// seen is how far a mirror has delivered a log. It may be deleted at any time.
type seen struct {
	// Log is the path of the log, for people.
	Log string `json:"log"`
	// Delivered is the place in the log up to which every record is delivered or a dead letter.
	Delivered bridge.Cursor `json:"delivered,omitempty"`
}

// stateFile returns the path, below the workspace, of the state about a log.
func stateFile(log *bridge.Log) string {
	sum := sha256.Sum256([]byte(log.Path()))
	return stateName + "/" + hex.EncodeToString(sum[:8]) + "-in.json"
}

// loadSeen returns the place that saveSeen wrote. A missing or damaged file counts as empty.
func loadSeen(w *mailbox.Workspace, log *bridge.Log) bridge.Cursor {
	const longest = 64 << 10
	data, err := durable.ReadFile(w.Root(), w.Dir(), stateFile(log), longest)
	var at seen
	if err != nil || json.Unmarshal(data, &at) != nil {
		return ""
	}
	return at.Delivered
}

func saveSeen(w *mailbox.Workspace, log *bridge.Log, delivered bridge.Cursor) error {
	data, err := json.Marshal(seen{log.Path(), delivered})
	if err != nil {
		return err
	}
	if err := w.MakeStateFolder(stateName); err != nil {
		return err
	}
	return durable.ReplaceFile(w.Root(), w.Dir(), stateFile(log), append(data, '\n'), 0o644)
}

// hasPlace reports whether the cursor is one of the log. Every log has the empty cursor.
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
