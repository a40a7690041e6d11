package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
)

// frame lays out a snapshot as plain text: agents, runs, messages. It cuts lines to the width, in
// columns of a terminal; 0 means any width.
func frame(s Snapshot, width int) string {
	var out strings.Builder
	out.WriteString(cut(s.title(), width) + "\n")
	for _, g := range []grid{agentsGrid(s), runsGrid(s), messagesGrid(s.messages(target{}), s.local())} {
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

// local returns the time of the snapshot in the zone of the times that people read.
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

// grid is rows of cells below a header. The last column takes what the others leave.
type grid struct {
	columns []column
	rows    []row
}

type column struct {
	name   string
	number bool // the cells are aligned on the right
	// drop is the order, from 1 on, in which columns are dropped if there is no room; 0 means
	// never.
	drop int
}

// row is a row of a grid, and its subject.
type row struct {
	target target
	cells  []string
}

// target is the subject of a row: an agent of the workspace in a folder, the run in a folder, or a
// message. It is empty for other rows.
type target struct {
	folder  string
	agent   schema.AgentName
	message schema.ID
}

const (
	between = "  "
	// widest is the width of a column, but the last, if the width of the grid is bounded, and
	// narrowest the width below which the last column does not shrink.
	widest    = 20
	narrowest = 16
)

// lines lays out the header and the rows, escapes all text, and cuts lines to the width unless it
// is 0.
func (g grid) lines(width int) (header string, rows []string) {
	escaped, widths := g.escape(width)
	kept := g.keep(widths, width)
	rows = make([]string, len(escaped))
	for i, cells := range escaped {
		var line strings.Builder
		for _, c := range kept {
			blanks := strings.Repeat(" ", widths[c]-text.StringWidth(cells[c]))
			switch {
			case c == len(cells)-1:
				line.WriteString(cells[c])
			case g.columns[c].number:
				line.WriteString(blanks + cells[c] + between)
			default:
				line.WriteString(cells[c] + blanks + between)
			}
		}
		rows[i] = cut(strings.TrimRight(line.String(), " "), width)
	}
	return rows[0], rows[1:]
}

// escape returns the escaped cells, the header's first, and the widths of the columns.
func (g grid) escape(width int) (escaped [][]string, widths []int) {
	var header row
	for _, c := range g.columns {
		header.cells = append(header.cells, c.name)
	}
	limit := max(1, min(widest, width/3))
	widths = make([]int, len(g.columns))
	for _, row := range append([]row{header}, g.rows...) {
		cells := make([]string, len(row.cells))
		for i, cell := range row.cells {
			cells[i] = visible.Line(cell)
			if width > 0 && i < len(row.cells)-1 {
				cells[i] = cut(cells[i], limit)
			}
			widths[i] = max(widths[i], text.StringWidth(cells[i]))
		}
		escaped = append(escaped, cells)
	}
	return escaped, widths
}

// keep returns the indexes of the columns for which there is room.
func (g grid) keep(widths []int, width int) []int {
	kept := make([]int, len(widths))
	last := len(widths) - 1
	room := width // for the last column
	for i := range kept {
		kept[i] = i
		if i < last {
			room -= widths[i] + len(between)
		}
	}
	for drop := 1; width > 0 && room < min(narrowest, widths[last]); drop++ {
		c := slices.IndexFunc(g.columns, func(c column) bool { return c.drop == drop })
		if c < 0 {
			break
		}
		room += widths[c] + len(between)
		kept = slices.DeleteFunc(kept, func(k int) bool { return k == c })
	}
	return kept
}

// cut shortens a line to the width unless that is 0.
func cut(line string, width int) string {
	if width == 0 || text.StringWidth(line) <= width {
		return line
	}
	return text.Snip(line, width, "…")
}
