package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/jsonl"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// In a workspace, stateName is the folder of what mirrors keep, and lettersName that of dead
// letters whose sender the workspace does not know.
const (
	stateName   = "state/mirror"
	lettersName = stateName + "/dead_letter"
)

// maxState bounds what is read of a file that a mirror keeps, in bytes.
const maxState = 4 << 30

// stateFile is the path below the workspace, without extension, of what is kept about a log in one
// direction. Two directions never share a file, so that two processes need not agree on one.
func stateFile(log *bridge.Log, direction Direction) string {
	sum := sha256.Sum256([]byte(log.Path()))
	return stateName + "/" + hex.EncodeToString(sum[:8]) + "-" + string(direction)
}

// seen is what a mirror has seen in one direction. It may be deleted at any time.
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
	// Outboxes has, for each outbox of which everything is dealt with, when it was last modified.
	Outboxes map[schema.AgentName]time.Time `json:"outboxes,omitempty"`
}

// loadSeen reads what save wrote. A file that is missing or damaged is as good as an empty one.
func loadSeen(w *mailbox.Workspace, log *bridge.Log, direction Direction) (s seen) {
	data, err := durable.ReadFile(w.Root(), w.Dir(), stateFile(log, direction)+".json", maxState)
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
	return durable.ReplaceFile(w.Root(), w.Dir(), stateFile(log, direction)+".json", append(data, '\n'), 0o644)
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

// A ledger says which message of which outbox copy was dealt with for a log, and so which messages
// were sent from this workspace. It is a file of lines:
//
//	<key of the copy> <sum of the message> <id of the message>
//	recorded-before <cursor>
//	forget-copies
//
// The second form follows each batch and names a place in the log behind the batch's records. If
// the log does not have the last such place, it is another log: the third form follows, and all
// copies before it count as new. The messages stay known. The file is only appended to; a line that
// a crash cut off or damaged is ignored, so that its copy is looked at again and found in the log.
type ledger struct {
	workspace *mailbox.Workspace
	name      string // below the workspace
	copies    map[copyKey]bool
	messages  map[sentMessage]bool
}

// A copyKey identifies a file of an outbox as it was found, in keyDigits hexadecimal digits.
type copyKey string

// A sentMessage identifies a message by its words, in sumDigits hexadecimal digits, and, behind a
// space, its id.
type sentMessage string

// ledgerLine is a line of the first form.
type ledgerLine struct {
	key     copyKey
	message sentMessage
}

const (
	keyDigits  = 32
	sumDigits  = 16
	placeMark  = "recorded-before "
	forgetMark = "forget-copies"
)

// keyOf returns the key of an outbox copy. Names are used again, so size and time are parts of it.
func keyOf(agent schema.AgentName, name string, info fs.FileInfo) copyKey {
	return newKey(fmt.Appendf(nil, "%s/%s/%d/%d", agent, name, info.Size(), info.ModTime().UnixNano()))
}

func newKey(text []byte) copyKey {
	sum := sha256.Sum256(text)
	return copyKey(hex.EncodeToString(sum[:])[:keyDigits])
}

// under returns the key of a copy that was left out under a bound. Under another bound, the copy is
// new.
func (k copyKey) under(bound string) copyKey {
	sum, _ := hex.DecodeString(string(k)) // keys are hexadecimal
	return newKey(append(sum, bound...))
}

// identityOf identifies a message in all its words.
func identityOf(m *schema.Message) (sentMessage, error) {
	text, err := m.MarshalJSON()
	sum := sha256.Sum256(text)
	return sentMessage(hex.EncodeToString(sum[:])[:sumDigits] + " " + string(m.ID)), err
}

// wordsOf identifies a message but for its recipients: a workspace that does not know some of them
// has the message without those.
func wordsOf(m *schema.Message) (sentMessage, error) {
	without := *m
	without.To = nil
	return identityOf(&without)
}

// loadLedger reads a ledger; a missing one is empty.
func loadLedger(ctx context.Context, w *mailbox.Workspace, log *bridge.Log) (*ledger, error) {
	l := &ledger{
		workspace: w, name: stateFile(log, Out) + ".journal",
		copies: make(map[copyKey]bool), messages: make(map[sentMessage]bool),
	}
	data, err := durable.ReadFile(w.Root(), w.Dir(), l.name, maxState)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the mirror's ledger: %w", err)
	}
	var place bridge.Cursor
	for line := range strings.Lines(string(data)) {
		line, whole := strings.CutSuffix(line, "\n")
		if cursor, ok := strings.CutPrefix(line, placeMark); ok && whole {
			place = bridge.Cursor(cursor)
		} else if line == forgetMark {
			clear(l.copies)
		} else if line, ok := parseLine(line); ok && whole {
			l.note(line)
		}
	}
	known, err := hasPlace(ctx, log, place)
	if err == nil && !known {
		err = l.forgetCopies()
	}
	return l, err
}

// parseLine reads a line of the first form, without its newline.
func parseLine(line string) (ledgerLine, bool) {
	key, message, _ := strings.Cut(line, " ")
	sum, id, _ := strings.Cut(message, " ")
	whole := len(key) == keyDigits && len(sum) == sumDigits && id != ""
	return ledgerLine{copyKey(key), sentMessage(message)}, whole
}

func (l *ledger) note(line ledgerLine) {
	l.copies[line.key] = true
	l.messages[line.message] = true
}

// add appends lines about copies whose records are in the log before the place.
func (l *ledger) add(lines []ledgerLine, place bridge.Cursor) error {
	var text strings.Builder
	for _, line := range lines {
		l.note(line)
		fmt.Fprintf(&text, "%s %s\n", line.key, line.message)
	}
	return l.append(text.String() + placeMark + string(place) + "\n")
}

// forgetCopies makes all copies new. The messages stay known.
func (l *ledger) forgetCopies() error {
	clear(l.copies)
	return l.append(forgetMark + "\n" + placeMark + "\n") // every log has the empty place
}

// append adds lines to the file. A lock keeps other processes from sealing them as torn.
func (l *ledger) append(lines string) (err error) {
	if err := l.workspace.MakeStateFolder(stateName); err != nil {
		return err
	}
	dir, err := durable.OpenDir(l.workspace.Root(), l.workspace.Dir(), stateName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	name := path.Base(l.name)
	lock := dir.NewLock(name + ".lock")
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("locking the mirror's ledger: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	file, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("opening the mirror's ledger: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := jsonl.Seal(file); err != nil {
		return err
	}
	return jsonl.AppendSync(file, []byte(lines))
}
