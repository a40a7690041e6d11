package dashboard

import (
	"cmp"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
)

// frame lays out a snapshot as plain text: agents, runs, messages. It cuts lines to the width, in
// columns of a terminal; 0 means any width.
func frame(s Snapshot, width int) string {
	var out strings.Builder
	out.WriteString(cut(s.title(), width) + "\n")
	for _, g := range s.grids(target{}) {
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

// local returns the time of the snapshot in its zone.
func (s Snapshot) local() time.Time { return s.At.In(cmp.Or(s.zone, time.UTC)) }

// title returns the names of the workspaces and the time.
func (s Snapshot) title() string {
	title := s.local().Format(time.DateTime + " MST")
	if len(s.Workspaces) == 0 {
		return title
	}
	names := make([]string, len(s.Workspaces))
	for i, w := range s.Workspaces {
		names[i] = visible.Line(w.name())
	}
	return strings.Join(names, ", ") + "  " + title
}

// grid is rows of cells below a header. The columns of numbers are aligned on the right.
type grid struct {
	header  []string
	numbers map[string]bool
	rows    []row
}

// row is a row of a grid, and its subject.
type row struct {
	target target
	cells  []string
}

// target is the subject of a row: an agent of a workspace, a run, or a message. It is empty for other rows.
type target struct {
	workspace string
	agent     schema.AgentName
	run       bridge.Run
	message   schema.ID
}

const (
	between = "  "
	// widest limits the width of every column except the last, if the width of the grid is limited.
	widest = 20
)

// lines lays out the header and the rows, escapes all text, and cuts lines to the width unless it
// is 0.
func (g grid) lines(width int) (header string, rows []string) {
	last := len(g.header) - 1
	widths := make([]int, last)
	var all [][]string
	for _, r := range append([]row{{cells: g.header}}, g.rows...) {
		cells := make([]string, len(r.cells))
		for i, cell := range r.cells {
			cells[i] = visible.Line(cell)
			if i == last {
				continue
			}
			if width > 0 {
				cells[i] = cut(cells[i], widest)
			}
			widths[i] = max(widths[i], displaywidth.String(cells[i]))
		}
		all = append(all, cells)
	}
	for _, cells := range all {
		line := ""
		for i, cell := range cells[:last] {
			blanks := strings.Repeat(" ", widths[i]-displaywidth.String(cell))
			if g.numbers[g.header[i]] {
				line += blanks + cell + between
			} else {
				line += cell + blanks + between
			}
		}
		rows = append(rows, cut(strings.TrimRight(line+cells[last], " "), width))
	}
	return rows[0], rows[1:]
}

// cut shortens a line to the width unless that is 0.
func cut(line string, width int) string {
	if width == 0 {
		return line
	}
	return displaywidth.TruncateString(line, width, "…")
}
