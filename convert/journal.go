package convert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// A journal lists the outbox files that were dealt with, a line each: the file's key, a sum of the message in it
// and the message's id. Of a message whose file is no more, there is a dash for the key. It is only appended to, so that remembering a file costs the same in any workspace.
// Behind the lines of each batch stands one with the place in the log that they were recorded before: a log
// that lacks one of these places has lost records, and then nothing of the journal is believed. A line that is
// torn or damaged is ignored: its file is looked at once more, and found recorded. So are those of journals
// that knew files by their names alone, which have no more than a key.
type journal struct {
	path  string
	files map[fileKey]recorded
	// messages are what files held, also those that are no more.
	messages map[recorded]bool
}

// recorded tells a message as it was when it was recorded: its words may be changed later, in the outbox.
type recorded struct {
	id  schema.ID
	sum [8]byte
}

func recordedAs(id schema.ID, sum [sha256.Size]byte) recorded {
	return recorded{id, [8]byte(sum[:8])}
}

// journalEntry is a line of a journal.
type journalEntry struct {
	key fileKey // noFile of a message whose file is no more
	recorded
}

// noFile is the key of no file, and noFileMark how a journal says so.
var noFile fileKey

const noFileMark = "-"

// placeMark begins a line with a place in the log.
const placeMark = "recorded-before "

// placesToCompact is the number of places from which on a journal is worth writing anew.
const placesToCompact = 256

// loadJournal reads a journal that belongs to the log; a missing one and one of another log are empty.
func loadJournal(ctx context.Context, path string, log *bridge.Log) (*journal, error) {
	j := &journal{path: path + ".journal", files: make(map[fileKey]recorded), messages: make(map[recorded]bool)}
	data, err := os.ReadFile(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the mirror's journal: %w", err)
	}
	places := 0
	var last bridge.Cursor
	for line := range bytes.Lines(data) {
		line, whole := bytes.CutSuffix(line, []byte("\n"))
		if !whole {
			break
		}
		if place, ok := bytes.CutPrefix(line, []byte(placeMark)); ok {
			last = bridge.Cursor(place)
			places++
			known, err := hasPlace(ctx, log, last)
			if err != nil {
				return nil, err
			}
			if !known {
				return j, j.reset()
			}
			continue
		}
		if entry, ok := parseEntry(line); ok {
			j.note(entry)
		}
	}
	if places >= placesToCompact && last != "" {
		return j, j.rewrite(last)
	}
	return j, nil
}

// parseEntry reads a line of a journal, without its newline.
func parseEntry(line []byte) (e journalEntry, ok bool) {
	key, rest, _ := bytes.Cut(line, []byte(" "))
	sum, id, ok := bytes.Cut(rest, []byte(" "))
	if !ok || len(sum) != hex.EncodedLen(len(e.sum)) || len(id) == 0 {
		return e, false
	}
	if _, err := hex.Decode(e.sum[:], sum); err != nil {
		return e, false
	}
	e.id = schema.ID(id)
	if string(key) == noFileMark {
		return e, true
	}
	if len(key) != hex.EncodedLen(len(e.key)) {
		return e, false
	}
	_, err := hex.Decode(e.key[:], key)
	return e, err == nil && e.key != noFile
}

func (j *journal) note(e journalEntry) {
	if e.key != noFile {
		j.files[e.key] = e.recorded
	}
	j.messages[e.recorded] = true
}

// reset forgets everything.
func (j *journal) reset() error {
	clear(j.files)
	clear(j.messages)
	if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the mirror's journal: %w", err)
	}
	return nil
}

// add lists files that were recorded before the place. The journal's folder is there.
func (j *journal) add(entries []journalEntry, place bridge.Cursor) (err error) {
	for _, e := range entries {
		j.note(e)
	}
	file, err := os.OpenFile(j.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	// What a crash left of the last line is ended by the first newline.
	_, err = file.Write(append([]byte("\n"), render(entries, place)...))
	return errors.Join(err, file.Close())
}

// keep forgets the files that no outbox has any more, when they are the most.
func (j *journal) keep(present map[fileKey]bool, place bridge.Cursor) error {
	if len(j.files) <= 2*len(present)+placesToCompact {
		return nil
	}
	for key := range j.files {
		if !present[key] {
			delete(j.files, key)
		}
	}
	return j.rewrite(place)
}

// rewrite puts a journal of the same files and messages in place that has but one place. What another process appends
// meanwhile may get lost, as any of it may.
func (j *journal) rewrite(place bridge.Cursor) error {
	entries := make([]journalEntry, 0, len(j.messages))
	filed := make(map[recorded]bool, len(j.files))
	for key, as := range j.files {
		entries = append(entries, journalEntry{key, as})
		filed[as] = true
	}
	for as := range j.messages {
		if !filed[as] {
			entries = append(entries, journalEntry{noFile, as})
		}
	}
	return durable.Replace(j.path, render(entries, place), 0o644)
}

func render(entries []journalEntry, place bridge.Cursor) []byte {
	const usual = 100 // bytes of a line
	lines := make([]byte, 0, len(entries)*usual+len(placeMark)+len(place)+1)
	for _, e := range entries {
		if e.key == noFile {
			lines = append(lines, noFileMark...)
		} else {
			lines = hex.AppendEncode(lines, e.key[:])
		}
		lines = append(lines, ' ')
		lines = append(hex.AppendEncode(lines, e.sum[:]), ' ')
		lines = append(append(lines, e.id...), '\n')
	}
	return append(append(append(lines, placeMark...), place...), '\n')
}
