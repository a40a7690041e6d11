package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

const (
	cursorsName   = "state/watch"
	cursorVersion = 1
	// maxCursorSize bounds what is read of a cursor, in bytes.
	maxCursorSize = 256 << 20
	// cursorPatience is how long a cursor in use is waited for: a scan is
	// over soon.
	cursorPatience = time.Second
	// maxUnsaved is how many changes may be out before the cursor that knows
	// of them is waited for.
	maxUnsaved = 1000
	// cursorShare bounds the time spent on saving: one part in so many.
	cursorShare = 10
	// cursorRetry is how long a cursor that could not be saved is let rest.
	cursorRetry = time.Second
)

// ErrCursor is wrapped by the errors of a cursor that cannot be used.
var ErrCursor = errors.New("the watch cannot keep its place")

// CursorInUseError says that another Watcher keeps its place in the cursor.
type CursorInUseError struct {
	Agent   schema.AgentName
	StateID string
	// Path is the cursor's file.
	Path string
}

// Error names the file and the way out.
func (e *CursorInUseError) Error() string {
	return fmt.Sprintf("another watch of %s keeps its place in %s: give this one a state id of its own", e.Agent, e.Path)
}

// cursorFile is a cursor as it is stored, in the reference implementation's
// format. That one passes over the keys it does not know.
type cursorFile struct {
	Agent    schema.AgentName       `json:"agent"`
	Messages map[string]seenMessage `json:"messages"`
	Project  string                 `json:"project"`
	StateID  string                 `json:"state_id,omitempty"`
	// Unreadable are the files that were reported as no message.
	Unreadable map[string]fileVersion `json:"unreadable,omitempty"`
	Version    int                    `json:"version"`
}

// cursor remembers across restarts what was reported of one mailbox. It is
// locked as long as it is open.
type cursor struct {
	path string
	lock *flock.Flock
	// fresh says that there was none.
	fresh bool
	// warning tells of an unreadable cursor that was set aside.
	warning error

	file cursorFile
	// dirty says that file has changed since it was last saved. At most one
	// goroutine is saving, and the next begins at saveAt or later.
	dirty, saving bool
	saveAt        time.Time
	// unsaved counts the changes since.
	unsaved int
	failure string
}

// isStateID reports whether the text is 1 to 64 letters, digits, dots,
// underscores and hyphens.
func isStateID(text string) bool {
	return 0 < len(text) && len(text) <= 64 && strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}) < 0
}

// openCursor locks and reads the cursor of a mailbox.
func openCursor(ctx context.Context, t *watched, stateID string) (*cursor, error) {
	name := string(t.agent) + ".json"
	if stateID != "" {
		if !isStateID(stateID) {
			return nil, fmt.Errorf("state id %q: want 1 to 64 letters, digits, dots, underscores or hyphens", stateID)
		}
		name = string(t.agent) + "." + stateID + ".json"
	}
	if err := t.workspace.MakeStateFolder(cursorsName); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCursor, err)
	}
	dir, err := durable.OpenDir(t.workspace.Root(), t.workspace.Dir(), cursorsName)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCursor, err)
	}
	c := &cursor{path: dir.Path(name), lock: durable.NewLock(dir.Path(name + ".lock"))}
	c.file = newCursorFile(t, stateID)
	if err := c.acquire(ctx); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	if err := errors.Join(c.read(dir, name), dir.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrCursor, err), c.lock.Unlock())
	}
	return c, nil
}

func newCursorFile(t *watched, stateID string) cursorFile {
	return cursorFile{
		Agent: t.agent, Project: t.project, StateID: stateID, Version: cursorVersion,
		Messages: make(map[string]seenMessage), Unreadable: make(map[string]fileVersion),
	}
}

func (c *cursor) acquire(ctx context.Context) error {
	patience, cancel := context.WithTimeout(ctx, cursorPatience)
	defer cancel()
	_, err := c.lock.TryLockContext(patience, 2*time.Millisecond)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case patience.Err() != nil:
		return &CursorInUseError{Agent: c.file.Agent, StateID: c.file.StateID, Path: c.path}
	}
	return fmt.Errorf("%w: locking %s: %w", ErrCursor, c.lock.Path(), err)
}

// read reads the cursor's file. One that makes no sense is set aside: then
// everything in the inbox is reported again, for nothing may be missed.
func (c *cursor) read(dir *durable.Dir, name string) error {
	data, err := dir.ReadFile(name, maxCursorSize)
	if errors.Is(err, fs.ErrNotExist) {
		c.fresh = true
		return nil
	}
	if err != nil && !errors.Is(err, durable.ErrTooLarge) {
		return err
	}
	var there cursorFile
	if err == nil {
		err = json.Unmarshal(data, &there)
	}
	if err != nil || there.Version == 0 {
		return c.setAside(err)
	}
	if there.Version != cursorVersion {
		return fmt.Errorf("%s has version %d, want %d", c.path, there.Version, cursorVersion)
	}
	if there.Agent != c.file.Agent || there.StateID != c.file.StateID {
		return fmt.Errorf("%s belongs to agent %q with state id %q", c.path, there.Agent, there.StateID)
	}
	maps.Copy(c.file.Messages, there.Messages)
	maps.Copy(c.file.Unreadable, there.Unreadable)
	return nil
}

func (c *cursor) setAside(reason error) error {
	if reason == nil {
		reason = errors.New("it is no cursor")
	}
	aside := c.path + ".unreadable"
	if err := os.Rename(c.path, aside); err != nil {
		return err
	}
	c.dirty = true
	c.warning = fmt.Errorf("the cursor %s is unreadable and was moved to %s, messages may be reported again: %w", c.path, filepath.Base(aside), reason)
	return nil
}

// apply takes in a change that is out.
func (c *cursor) apply(change change) {
	name := change.entry.Name
	delete(c.file.Messages, name)
	delete(c.file.Unreadable, name)
	if change.message != nil {
		c.file.Messages[name] = *change.message
	}
	if change.bad != nil {
		c.file.Unreadable[name] = *change.bad
	}
	c.dirty = true
	c.unsaved++
}

// saveResult is the end of saving a cursor.
type saveResult struct {
	cursor *cursor
	err    error
	took   time.Duration
}

// save saves the cursor as it is now, in a goroutine that ends by sending its
// result.
func (c *cursor) save(done chan<- saveResult) {
	snapshot := c.file
	snapshot.Messages, snapshot.Unreadable = maps.Clone(c.file.Messages), maps.Clone(c.file.Unreadable)
	c.dirty, c.saving, c.unsaved = false, true, 0
	go func() {
		began := time.Now()
		err := snapshot.write(c.path)
		done <- saveResult{c, err, time.Since(began)}
	}()
}

func (f cursorFile) write(path string) error {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(f); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return durable.Replace(path, buffer.Bytes(), 0o644)
}

// saved takes in the result of saving.
func (c *cursor) saved(result saveResult, now time.Time) {
	c.saving = false
	c.saveAt = now.Add(cursorShare * result.took)
	if result.err != nil {
		c.dirty = true
		c.saveAt = now.Add(max(cursorRetry, cursorShare*result.took))
	}
}
