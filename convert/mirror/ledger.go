package mirror

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/jsonl"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A ledger says which message of which outbox copy was dealt with for a log, and so which messages were sent from
// this workspace. It is a file of lines:
//
//	<key of the copy> <sum of the message> <id of the message>
//	recorded-before <cursor>
//
// The second form follows each batch and names a place in the log behind the batch's records. If the log does not
// have the last such place, it is another log: all copies count as new, and only the messages stay known. Their lines
// then have a dash for the key. The file is only appended to; a line that a crash cut off or damaged is ignored, so
// that its copy is looked at again and found in the log.
type ledger struct {
	workspace *mailbox.Workspace
	name      string // below the workspace
	copies    map[copyKey]bool
	messages  map[sentMessage]bool
}

// copyKey identifies a file of an outbox as it was found.
type copyKey [16]byte

// noCopy is the key of a message whose copy is not known.
var noCopy copyKey

// A sentMessage identifies a message by id and words.
type sentMessage struct {
	id  schema.ID
	sum [8]byte
}

// ledgerLine is a line of the first form.
type ledgerLine struct {
	key copyKey
	sentMessage
}

const (
	noCopyMark = "-"
	placeMark  = "recorded-before "
)

// keyOf returns the key of an outbox copy. Names are used again, so size and time are parts of it.
func keyOf(agent schema.AgentName, name string, info fs.FileInfo) (key copyKey) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d/%d", agent, name, info.Size(), info.ModTime().UnixNano()))
	copy(key[:], sum[:])
	return key
}

// under returns the key of a copy that was left out under a bound. Under another bound, the copy is new.
func (k copyKey) under(bound string) (key copyKey) {
	sum := sha256.Sum256(append(k[:], bound...))
	copy(key[:], sum[:])
	return key
}

// identityOf identifies a message in all its words.
func identityOf(m *schema.Message) (sentMessage, error) {
	text, err := m.MarshalJSON()
	sum := sha256.Sum256(text)
	return sentMessage{m.ID, [8]byte(sum[:8])}, err
}

// wordsOf identifies a message but for its recipients: a workspace that does not know some of them has the message
// without those. Earlier versions wrote this into the ledger.
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
	data, err := w.Root().ReadFile(l.name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the mirror's ledger: %w", err)
	}
	var place bridge.Cursor
	for text := range bytes.Lines(data) {
		text, whole := bytes.CutSuffix(text, []byte("\n"))
		if !whole {
			break
		}
		if cursor, ok := bytes.CutPrefix(text, []byte(placeMark)); ok {
			place = bridge.Cursor(cursor)
		} else if line, ok := parseLine(text); ok {
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
func parseLine(text []byte) (line ledgerLine, ok bool) {
	key, rest, _ := bytes.Cut(text, []byte(" "))
	sum, id, _ := bytes.Cut(rest, []byte(" "))
	if len(sum) != hex.EncodedLen(len(line.sum)) || len(id) == 0 {
		return line, false
	}
	if _, err := hex.Decode(line.sum[:], sum); err != nil {
		return line, false
	}
	line.id = schema.ID(id)
	if string(key) == noCopyMark {
		return line, true
	}
	if len(key) != hex.EncodedLen(len(line.key)) {
		return line, false
	}
	_, err := hex.Decode(line.key[:], key)
	return line, err == nil && line.key != noCopy
}

func (l *ledger) note(line ledgerLine) {
	if line.key != noCopy {
		l.copies[line.key] = true
	}
	l.messages[line.sentMessage] = true
}

// has reports whether a copy was dealt with, also if a bound left its message out.
func (l *ledger) has(key copyKey, bound string) bool {
	return l.copies[key] || l.copies[key.under(bound)]
}

// add appends lines about copies whose records are in the log before the place.
func (l *ledger) add(lines []ledgerLine, place bridge.Cursor) error {
	for _, line := range lines {
		l.note(line)
	}
	return l.locked(func() (err error) {
		file, err := l.workspace.Root().OpenFile(l.name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return fmt.Errorf("opening the mirror's ledger: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		if _, err := jsonl.Seal(file); err != nil {
			return err
		}
		return jsonl.AppendSync(file, render(lines, place))
	})
}

// forgetCopies makes all copies new. The messages stay known.
func (l *ledger) forgetCopies() error {
	clear(l.copies)
	if len(l.messages) == 0 {
		return nil
	}
	lines := make([]ledgerLine, 0, len(l.messages))
	for m := range l.messages {
		lines = append(lines, ledgerLine{noCopy, m})
	}
	return l.locked(func() error {
		return durable.Replace(filepath.Join(l.workspace.Dir(), l.name), render(lines, ""), 0o644)
	})
}

// locked calls change while no other process changes the ledger.
func (l *ledger) locked(change func() error) (err error) {
	if err := l.workspace.MakeStateFolder(stateName); err != nil {
		return err
	}
	lock := durable.NewLock(filepath.Join(l.workspace.Dir(), l.name+".lock"))
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("locking the mirror's ledger: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return change()
}

func render(lines []ledgerLine, place bridge.Cursor) []byte {
	var text bytes.Buffer
	for _, line := range lines {
		key := noCopyMark
		if line.key != noCopy {
			key = hex.EncodeToString(line.key[:])
		}
		fmt.Fprintf(&text, "%s %x %s\n", key, line.sum, line.id)
	}
	fmt.Fprintf(&text, "%s%s\n", placeMark, place)
	return text.Bytes()
}
