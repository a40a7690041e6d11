package watch

import (
	"errors"
	"fmt"
	"time"
)

// saveDue takes in what was saved and begins to save the cursors whose time
// has come.
func (w *Watcher) saveDue() {
	for len(w.saved) > 0 {
		w.saveDone(<-w.saved)
	}
	now := time.Now()
	for _, t := range w.targets {
		c := t.cursor
		if c == nil || !c.dirty {
			continue
		}
		// One that cannot be saved holds nothing up.
		tooMany := c.unsaved >= maxUnsaved && c.failure == ""
		for tooMany && c.saving {
			w.saveDone(<-w.saved)
		}
		if !c.saving && (tooMany || !now.Before(c.saveAt)) {
			c.save(w.saved)
		}
	}
}

// nextSave returns when the next cursor is to be saved, and the zero time if
// none is.
func (w *Watcher) nextSave() time.Time {
	var next time.Time
	for _, t := range w.targets {
		if c := t.cursor; c != nil && c.dirty && !c.saving && (next.IsZero() || c.saveAt.Before(next)) {
			next = c.saveAt
		}
	}
	return next
}

// saveDone takes in the end of saving, and reports a failure once.
func (w *Watcher) saveDone(result saveResult) {
	c := result.cursor
	c.saved(result, time.Now())
	text := ""
	if result.err != nil {
		text = result.err.Error()
	}
	if text != "" && c.failure == "" {
		for _, t := range w.targets {
			if t.cursor == c {
				w.fail(t, fmt.Errorf("%w: %w", ErrCursor, result.err))
			}
		}
	}
	c.failure = text
}

// flush saves all cursors and waits until they are.
func (w *Watcher) flush() error {
	w.awaitSaves()
	var failed []error
	for _, t := range w.targets {
		c := t.cursor
		if c == nil || !c.dirty {
			continue
		}
		if err := c.file.write(c.path); err != nil {
			failed = append(failed, fmt.Errorf("%w: %w", ErrCursor, err))
			continue
		}
		c.dirty = false
	}
	return errors.Join(failed...)
}

// awaitSaves waits until no cursor is being saved.
func (w *Watcher) awaitSaves() {
	for _, t := range w.targets {
		for t.cursor != nil && t.cursor.saving {
			result := <-w.saved
			result.cursor.saved(result, time.Now())
		}
	}
}
