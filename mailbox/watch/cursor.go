package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"time"
	"unique"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

const (
	cursorsName   = "state/watch"
	cursorVersion = 1
	// maxCursorSize bounds what is read of a cursor, in bytes.
	maxCursorSize = 256 << 20
	// saveEvery is the least time between two saves of a cursor.
	saveEvery = time.Second
	// mostUnsaved is how many events are delivered before a cursor is saved, whatever the time: so a process that is
	// killed again and again gets further each time. Saving takes as long as the cursor is large, so the process
	// first does mostUnsavedTime as much of other work.
	mostUnsaved     = 64
	mostUnsavedTime = 20
)

// errCursor is wrapped by the errors of a cursor that cannot be used.
var errCursor = errors.New("watch cannot record its events")

// summary is what is remembered of a reported message: an entry of the reference implementation's
// cursor and more keys.
type summary struct {
	File     string           `json:"file"`
	From     schema.AgentName `json:"from"`
	ID       schema.ID        `json:"id,omitempty"`
	Priority schema.Priority  `json:"priority"`
	Subject  string           `json:"subject"`
	Type     schema.Type      `json:"type"`
	// Invalid marks a message that was not valid when it was reported.
	Invalid bool `json:"invalid,omitempty"`
	Version
}

// summarize copies what it keeps of a message: its texts would keep the whole file in memory. Equal
// names, priorities and types share their memory.
func summarize(name string, m *schema.Message, v Version) *summary {
	return &summary{
		File: name, From: unique.Make(m.From).Value(), ID: schema.ID(strings.Clone(string(m.ID))),
		Priority: unique.Make(m.Priority).Value(), Subject: strings.Clone(m.Subject), Type: unique.Make(m.Type).Value(), Version: v,
	}
}

// restore returns a message with what the summary has of it.
func (s summary) restore() *schema.Message {
	return &schema.Message{ID: s.ID, From: s.From, Type: s.Type, Priority: s.Priority, Subject: s.Subject}
}

// is reports whether the message is the reported one. The reference implementation records no IDs.
func (s summary) is(m *schema.Message) bool {
	if s.ID != "" {
		return s.ID == m.ID
	}
	return s.From == m.From && s.Type == m.Type && s.Priority == m.Priority && s.Subject == m.Subject
}

// record lists the reported messages of a box. It is the content of a cursor's file in the reference
// implementation's format, which ignores unknown keys.
type record struct {
	Agent    schema.AgentName   `json:"agent"`
	Messages map[string]summary `json:"messages"`
	Project  string             `json:"project"`
	StateID  string             `json:"state_id,omitempty"`
	// Unreadable has the files that were reported as errors.
	Unreadable map[string]Version `json:"unreadable,omitempty"`
	Version    int                `json:"version"`
}

func newRecord(b *box, stateID string) record {
	return record{
		Agent: b.agent, Project: b.project, StateID: stateID, Version: cursorVersion,
		Messages: make(map[string]summary), Unreadable: make(map[string]Version),
	}
}

// cursor keeps the record of a box in a file. It is locked as long as it is open.
type cursor struct {
	// name and path are those of the file.
	name, path string
	lock       *flock.Flock
	// dirty reports whether the record has changed since it was saved.
	dirty   bool
	unsaved int // events since it was saved
	savedAt time.Time
	// took is how long it took to save it last.
	took time.Duration
}

// openCursor locks the cursor of a box and reads it into the box's record. It reports whether there was
// none.
func (b *box) openCursor() (fresh bool, err error) {
	if b.name != mailbox.Inbox {
		return false, fmt.Errorf("watching %s: only inboxes have cursors", b.path)
	}
	name := string(b.agent) + ".json"
	if id := b.reported.StateID; id != "" {
		if !schema.IsNamePart(id) {
			return false, fmt.Errorf("state id %q: want 1 to 64 letters, digits, dots, underscores or hyphens", id)
		}
		name = string(b.agent) + "." + id + ".json"
	}
	dir, err := b.workspace.OpenStateFolder(cursorsName)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errCursor, err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	c, locked := &cursor{name: name, path: dir.Path(name), dirty: true}, false
	if c.lock, err = dir.NewLock(name + ".lock"); err == nil {
		locked, err = c.lock.TryLock()
	}
	if err != nil {
		return false, fmt.Errorf("%w: locking %s: %w", errCursor, c.path, err)
	}
	if !locked {
		return false, failure.New("cursor_in_use", fmt.Sprintf("another watch of %s uses %s: give this one its own state id", b.agent, c.path),
			"--state-id NAME gives this reader its own cursor")
	}
	err = c.read(dir, &b.reported)
	if errors.Is(err, fs.ErrNotExist) {
		fresh, err = true, nil
	}
	if err != nil {
		return false, errors.Join(fmt.Errorf("%w: %w", errCursor, err), c.lock.Unlock())
	}
	b.cursor = c
	return fresh, nil
}

func (c *cursor) read(dir *durable.Dir, r *record) error {
	data, err := dir.ReadFile(c.name, maxCursorSize)
	if err != nil {
		return err
	}
	var stored record
	if err := json.Unmarshal(data, &stored); err != nil {
		return fmt.Errorf("%s is damaged; without it, all messages are reported again: %w", c.path, err)
	}
	switch {
	case stored.Version != cursorVersion:
		return fmt.Errorf("%s has version %d, want %d", c.path, stored.Version, cursorVersion)
	case stored.Agent != r.Agent || stored.StateID != r.StateID:
		return fmt.Errorf("%s belongs to agent %q with state id %q", c.path, stored.Agent, stored.StateID)
	}
	maps.Copy(r.Messages, stored.Messages)
	maps.Copy(r.Unreadable, stored.Unreadable)
	return nil
}

// saveCursor saves the record of a box if it has changed and there is a cursor.
func (b *box) saveCursor() error {
	c := b.cursor
	if c == nil || !c.dirty {
		return nil
	}
	began := time.Now()
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(b.reported)
	if err == nil {
		err = durable.ReplaceFile(b.workspace.Root(), b.workspace.Dir(), cursorsName+"/"+c.name, buffer.Bytes(), 0o644)
	}
	c.savedAt = time.Now()
	c.took = c.savedAt.Sub(began)
	if err != nil {
		return fmt.Errorf("%w: %w", errCursor, err)
	}
	c.dirty, c.unsaved = false, 0
	return nil
}

// closeCursor releases the cursor, saved or not.
func (b *box) closeCursor() error {
	if b.cursor == nil {
		return nil
	}
	return b.cursor.lock.Unlock()
}
