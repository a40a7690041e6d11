package dashboard

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
)

// grid is rows of cells below a header. The last column takes what the others
// leave.
type grid struct {
	columns []column
	rows    []row
}

// column is a column of a grid.
type column struct {
	name string
	// number has its cells aligned on the right.
	number bool
	// forgo is when the column is given up for want of room, the one with the
	// least number first. One with none stays.
	forgo int
}

// row is a row of a grid, and what it is about.
type row struct {
	target target
	cells  []string
}

// target is what a row is about: an agent of the workspace in a folder, the
// run in a folder, or a message. Of a row that is about none it is empty.
type target struct {
	folder  string
	agent   schema.AgentName
	message schema.ID
}

const (
	between = "  "
	// widest is how wide a column but the last can be where the width is
	// bounded, and narrowest how much is kept for the last one if it needs it.
	widest    = 20
	narrowest = 12
)

// lines lays out the header and the rows, each cut to the width; 0 means not
// to cut. All text is escaped here.
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

// escape returns the cells as they can be shown, the header's first, and how
// wide the columns are.
func (g grid) escape(width int) (escaped [][]string, widths []int) {
	header := make([]string, len(g.columns))
	for i, c := range g.columns {
		header[i] = c.name
	}
	most := max(1, min(widest, width/3))
	widths = make([]int, len(g.columns))
	for _, row := range append([]row{{cells: header}}, g.rows...) {
		cells := make([]string, len(row.cells))
		for i, cell := range row.cells {
			cells[i] = visible.Line(cell)
			if width > 0 && i < len(row.cells)-1 {
				cells[i] = cut(cells[i], most)
			}
			widths[i] = max(widths[i], text.StringWidth(cells[i]))
		}
		escaped = append(escaped, cells)
	}
	return escaped, widths
}

// keep returns the columns that there is room for.
func (g grid) keep(widths []int, width int) []int {
	kept := make([]int, len(g.columns))
	room := width
	for i := range kept {
		kept[i] = i
		room -= widths[i] + len(between)
	}
	last := widths[len(widths)-1]
	room += last + len(between) // what there is for the last column
	for width > 0 && room < min(narrowest, last) {
		least := -1
		for at, c := range kept {
			if g.columns[c].forgo > 0 && (least < 0 || g.columns[c].forgo < g.columns[kept[least]].forgo) {
				least = at
			}
		}
		if least < 0 {
			break
		}
		room += widths[kept[least]] + len(between)
		kept = append(kept[:least], kept[least+1:]...)
	}
	return kept
}

// cut shortens a text to the number of columns; 0 means not to.
func cut(line string, width int) string {
	if width == 0 || text.StringWidth(line) <= width {
		return line
	}
	return text.Snip(line, width, "…")
}
