package mailbox

import "time"

// An outbox copy has a modification time that is MovedBack before it was written, less what exceeds
// a multiple of MovedStep, so that readers can tell a renamed file from one written in place.
const (
	MovedBack = 20 * time.Millisecond
	MovedStep = time.Millisecond
)

// markMoved marks the copy, which is not published yet. Nothing but speed depends on the mark.
func (c *stagedCopy) markMoved() {
	if info, err := c.file.Stat(); err == nil {
		_ = c.dir.SetModified(c.entry, info.ModTime().Add(-MovedBack).Truncate(MovedStep))
	}
}
