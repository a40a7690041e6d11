package dashboard

import (
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/visible"
)

// allMessages returns the messages of all workspaces, the oldest first.
func (s Snapshot) allMessages() []Message {
	var all []Message
	for _, w := range s.Workspaces {
		all = append(all, w.Messages...)
	}
	if len(s.Workspaces) > 1 {
		sortMessages(all)
	}
	return all
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
	for _, g := range []grid{agentsGrid(s), runsGrid(s), messagesGrid(s.allMessages(), s.At)} {
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
