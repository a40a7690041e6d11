package convert

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
)

// A journal lists the outbox files whose records are in the log, a key a line. It is only appended to, so
// that remembering a file costs the same in any workspace. Behind the keys of each batch stands a line with
// the place in the log that they were recorded before: a log that lacks one of these places has lost records,
// and then nothing of the journal is believed. A line that is torn or damaged is ignored: its file is looked
// at once more, and found recorded.
type journal struct {
	path string
	keys map[fileKey]bool
}

// placeMark begins a line with a place in the log.
const placeMark = "recorded-before "

// placesToCompact is the number of places from which on a journal is worth writing anew.
const placesToCompact = 256

// loadJournal reads a journal that belongs to the log; a missing one and one of another log are empty.
func loadJournal(ctx context.Context, path string, log *bridge.Log) (*journal, error) {
	j := &journal{path: path + ".journal", keys: make(map[fileKey]bool)}
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
		var key fileKey
		if len(line) != hex.EncodedLen(len(key)) {
			continue
		}
		if _, err := hex.Decode(key[:], line); err == nil {
			j.keys[key] = true
		}
	}
	if places >= placesToCompact && last != "" {
		return j, j.rewrite(last)
	}
	return j, nil
}

// reset forgets everything.
func (j *journal) reset() error {
	clear(j.keys)
	if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the mirror's journal: %w", err)
	}
	return nil
}

// add lists files that were recorded before the place. The journal's folder is there.
func (j *journal) add(keys []fileKey, place bridge.Cursor) (err error) {
	for _, key := range keys {
		j.keys[key] = true
	}
	file, err := os.OpenFile(j.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	// What a crash left of the last line is ended by the first newline.
	_, err = file.Write(append([]byte("\n"), render(keys, place)...))
	return errors.Join(err, file.Close())
}

// keep forgets the files that no outbox has any more, when they are the most.
func (j *journal) keep(present map[fileKey]bool, place bridge.Cursor) error {
	if len(j.keys) <= 2*len(present)+placesToCompact {
		return nil
	}
	for key := range j.keys {
		if !present[key] {
			delete(j.keys, key)
		}
	}
	return j.rewrite(place)
}

// rewrite puts a journal of the same keys in place that has but one place. What another process appends
// meanwhile may get lost, as any of it may.
func (j *journal) rewrite(place bridge.Cursor) error {
	keys := make([]fileKey, 0, len(j.keys))
	for key := range j.keys {
		keys = append(keys, key)
	}
	return durable.Replace(j.path, render(keys, place), 0o644)
}

func render(keys []fileKey, place bridge.Cursor) []byte {
	lines := make([]byte, 0, len(keys)*(2*len(fileKey{})+1)+len(placeMark)+len(place)+1)
	for _, key := range keys {
		lines = append(hex.AppendEncode(lines, key[:]), '\n')
	}
	return append(append(append(lines, placeMark...), place...), '\n')
}
