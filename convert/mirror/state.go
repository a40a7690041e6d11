package mirror

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// In a workspace, stateName is the folder of what mirrors keep, and lettersName that of dead
// letters whose sender the workspace does not know.
const (
	stateName   = "state/mirror"
	lettersName = stateName + "/dead_letter"
)

// maxState bounds a state file in bytes.
const maxState = 1 << 30

// seen is what a mirror has seen in one direction. It may be deleted at any time. Two directions
// never share a file, so that two processes need not agree on one.
type seen struct {
	// Log is the path of the log, for people.
	Log string `json:"log"`
	// Delivered is, on the way in, the place in the log before which everything is dealt with.
	Delivered bridge.Cursor `json:"delivered,omitempty"`
	// Recorded is, on the way out, a place behind everything that was recorded. A log that does not
	// have it is another one.
	Recorded bridge.Cursor `json:"recorded,omitempty"`
	// Bound says what belonged in the log. With another bound, the outboxes are listed again.
	Bound string `json:"bound,omitempty"`
	// Outboxes is the state of each outbox at the last pass.
	Outboxes map[schema.AgentName]outbox `json:"outboxes,omitempty"`
}

// outbox is what a mirror has seen of an outbox.
type outbox struct {
	// Modified is when the folder was last modified. It is zero if the folder must be listed again.
	Modified time.Time `json:"modified,omitzero"`
	// Files counts the files that were dealt with.
	Files int `json:"files"`
	// files are their keys, sorted.
	files []fileKey
}

// A fileKey identifies a file of an outbox as it was found.
type fileKey uint64

// keySize is the size of a stored fileKey in bytes.
const keySize = 8

// keyOf returns the key of an outbox file. Names are used again, so size and time are parts of it.
func keyOf(agent schema.AgentName, name string, info fs.FileInfo) fileKey {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d/%d", agent, name, info.Size(), info.ModTime().UnixNano()))
	return fileKey(binary.BigEndian.Uint64(sum[:]))
}

// stateFile is the path below the workspace of what is kept about a log in one direction.
func stateFile(log *bridge.Log, direction Direction) string {
	sum := sha256.Sum256([]byte(log.Path()))
	name := stateName + "/" + hex.EncodeToString(sum[:8])
	if direction == In {
		return name + "-in.json"
	}
	return name + "-out.state"
}

// loadSeen reads what save wrote. A missing or damaged file counts as empty.
func loadSeen(w *mailbox.Workspace, log *bridge.Log, direction Direction) seen {
	data, err := durable.ReadFile(w.Root(), w.Dir(), stateFile(log, direction), maxState)
	s, whole := parseSeen(data)
	if err != nil || !whole {
		s = seen{}
	}
	s.Log = log.Path()
	return s
}

func parseSeen(data []byte) (s seen, whole bool) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if decoder.Decode(&s) != nil {
		return s, false
	}
	_, keys, _ := bytes.Cut(data[decoder.InputOffset():], []byte("\n"))
	for _, agent := range slices.Sorted(maps.Keys(s.Outboxes)) {
		box := s.Outboxes[agent]
		if box.Files < 0 || box.Files > len(keys)/keySize {
			return s, false
		}
		for i := range box.Files {
			box.files = append(box.files, fileKey(binary.LittleEndian.Uint64(keys[i*keySize:])))
		}
		keys = keys[box.Files*keySize:]
		s.Outboxes[agent] = box
	}
	return s, len(keys) == 0
}

// save writes a line of JSON and then the keys of the files of each outbox, in the order of the agents.
func (s seen) save(w *mailbox.Workspace, log *bridge.Log, direction Direction) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	for _, agent := range slices.Sorted(maps.Keys(s.Outboxes)) {
		for _, key := range s.Outboxes[agent].files {
			data = binary.LittleEndian.AppendUint64(data, uint64(key))
		}
	}
	if err := w.MakeStateFolder(stateName); err != nil {
		return err
	}
	return durable.ReplaceFile(w.Root(), w.Dir(), stateFile(log, direction), data, 0o644)
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
