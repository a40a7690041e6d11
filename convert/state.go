package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// In a workspace, stateName is the folder of what mirrors remember, and lettersName that of dead letters whose
// sender it does not know.
const (
	stateName   = "state/mirror"
	lettersName = stateName + "/dead_letter"
)

func stateFolder(w *mailbox.Workspace) string { return filepath.Join(w.Dir(), stateName) }

// statePath is the path, without extension, of what is remembered of a log in one direction. Two directions
// never share a file, so that two processes need not agree on one.
func statePath(w *mailbox.Workspace, log *bridge.Log, direction Direction) string {
	sum := sha256.Sum256([]byte(log.Path()))
	return filepath.Join(stateFolder(w), hex.EncodeToString(sum[:8])+"-"+string(direction))
}

// inwardState is what the way into the mailboxes remembers.
type inwardState struct {
	// Log is the path of the log, for people.
	Log string `json:"log"`
	// Delivered is the place in the log up to which everything is dealt with.
	Delivered bridge.Cursor `json:"delivered"`
}

// outwardState is what the way into the log remembers, besides the list of files.
type outwardState struct {
	// Log is the path of the log, for people.
	Log string `json:"log"`
	// Recorded is a place in the log behind everything that was recorded. A log that does not have it is
	// not the one that the outboxes were recorded in.
	Recorded bridge.Cursor `json:"recorded"`
	// Bound is what belonged in the log; see outward.bound. With another one the outboxes are looked at again.
	Bound string `json:"bound"`
	// Outboxes has, for each outbox of which everything was recorded, when it was last modified then.
	Outboxes map[schema.AgentName]time.Time `json:"outboxes"`
}

// loadState reads a state file. A missing or damaged one is as good as an empty one.
func loadState[S any](path string) (state S) {
	data, err := os.ReadFile(path + ".json")
	if err == nil && json.Unmarshal(data, &state) == nil {
		return state
	}
	var none S
	return none
}

// saveState puts a state file of the workspace in place.
func saveState(w *mailbox.Workspace, path string, state any) error {
	data, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s.json: %w", path, err)
	}
	if err := w.MakeStateFolder(stateName); err != nil {
		return err
	}
	return durable.Replace(path+".json", append(data, '\n'), 0o644)
}

// hasPlace reports whether a cursor marks a place in the log.
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

// fileKey stands for a file of an outbox.
type fileKey [16]byte

// keyOf returns the key of a file that was found like this. The name alone would not do: files leave an outbox,
// and their names are used again.
func keyOf(agent schema.AgentName, name string, found stamp) (key fileKey) {
	text := append(append(append(make([]byte, 0, 128), agent...), '/'), name...)
	text = fmt.Appendf(text, "/%d/%d/%d", found.size, found.modified, found.inode)
	sum := sha256.Sum256(text)
	copy(key[:], sum[:])
	return key
}

// leftOutKey is the key under which a file is listed that the bound kept out of the log: another bound does not
// find it.
func (k fileKey) leftOutKey(bound string) (key fileKey) {
	sum := sha256.Sum256(append(k[:], bound...))
	copy(key[:], sum[:])
	return key
}
