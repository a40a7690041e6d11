package live

import (
	"fmt"
	"path"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/turn/track"
)

// quietSuffix ends the name of a file with the moment at which the end of a tool call brought nothing to a session and changed
// nothing. Most events are such ones, and the state of a session with a large inbox takes long to read.
const quietSuffix = ".quiet"

func (h *Hook) quietName(session string) string {
	return path.Join(project.SessionsName(h.Agent), session+quietSuffix)
}

// moment names the state of all that decides what the end of a tool call brings to a session, and is "" if that may have changed
// just now: the times of folders are coarse.
func (h *Hook) moment(session string) string {
	if h.now().Sub(h.inboxTime()) < settled {
		return ""
	}
	moment := ""
	for _, name := range []string{
		inboxOf(h.Agent), path.Join(project.SessionsName(h.Agent), session+project.SessionSuffix), path.Join(track.TurnsFolder, track.JournalName(h.Agent)),
	} {
		var changed time.Time
		var size int64
		if info, err := h.Workspace.Root().Lstat(name); err == nil {
			changed, size = info.ModTime(), info.Size()
		}
		moment += fmt.Sprintln(changed.UnixNano(), size)
	}
	return moment
}

// isQuiet reports whether nothing has changed since the end of a tool call brought nothing.
func (h *Hook) isQuiet(e Event) bool {
	if e.Name != PostToolUse {
		return false
	}
	const most = 200
	before, err := durable.ReadFile(h.Workspace.Root(), h.Workspace.Dir(), h.quietName(e.Session), most)
	return err == nil && len(before) > 0 && string(before) == h.moment(e.Session)
}

// noteQuiet keeps the moment. Without the note, or with a part of it, the next event does all the work.
func (h *Hook) noteQuiet(session, moment string) {
	_ = h.Workspace.Root().WriteFile(h.quietName(session), []byte(moment), 0o644)
}
