package dashboard

import (
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/visible"
)

// messages returns the messages of all workspaces, or of one agent, the
// oldest first.
func (s Snapshot) messages(of target) []Message {
	var all []Message
	for _, w := range s.Workspaces {
		for _, m := range w.Messages {
			if of == (target{}) || of.folder == w.Dir && (m.From == of.agent || slices.Contains(m.To, of.agent)) {
				all = append(all, m)
			}
		}
	}
	if len(s.Workspaces) > 1 {
		sortMessages(all)
	}
	return all
}

// run returns the run in a folder.
func (s Snapshot) run(folder string) (Run, bool) {
	i := slices.IndexFunc(s.Runs, func(r Run) bool { return r.place.Folder == folder })
	if i < 0 || folder == "" {
		return Run{}, false
	}
	return s.Runs[i], true
}

// title names what is shown, and when.
func (s Snapshot) title() string {
	names := make([]string, len(s.Workspaces))
	for i, w := range s.Workspaces {
		names[i] = visible.Line(w.name())
	}
	title := s.At.UTC().Format(time.DateTime) + " UTC"
	if len(names) > 0 {
		title = strings.Join(names, ", ") + "  " + title
	}
	return title
}

// Frame lays out all that there is as plain text: agents, runs, messages.
// Lines are cut to the width, in columns of a terminal; 0 means not to cut.
func Frame(s Snapshot, width int) string {
	var out strings.Builder
	out.WriteString(cut(s.title(), width) + "\n")
	for _, g := range []grid{agentsGrid(s), runsGrid(s), messagesGrid(s.messages(target{}), s.At)} {
		header, rows := g.lines(width)
		out.WriteString("\n" + header + "\n")
		if len(rows) == 0 {
			out.WriteString("(none)\n")
		}
		for _, row := range rows {
			out.WriteString(row + "\n")
		}
	}
	return out.String()
}
