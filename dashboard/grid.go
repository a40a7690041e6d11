package dashboard

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/oacp-go/oacp/internal/visible"
)

// grid is rows of cells below a header. The last column takes what the others
// leave.
type grid struct {
	header []string
	// numbers tells the columns that are aligned on the right.
	numbers map[int]bool
	rows    [][]string
}

const (
	between = "  "
	// widest is how wide a column but the last can be where the width is
	// bounded.
	widest = 20
)

// lines lays out the header and the rows, each cut to the width; 0 means not
// to cut. All text is escaped here.
func (g grid) lines(width int) (header string, rows []string) {
	widths := make([]int, len(g.header))
	escaped := make([][]string, 0, len(g.rows)+1)
	for _, row := range append([][]string{g.header}, g.rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = visible.Line(cell)
			if width > 0 && i < len(row)-1 {
				cells[i] = cut(cells[i], widest)
			}
			widths[i] = max(widths[i], text.StringWidth(cells[i]))
		}
		escaped = append(escaped, cells)
	}
	for _, cells := range escaped {
		var line strings.Builder
		for i, cell := range cells {
			blanks := strings.Repeat(" ", widths[i]-text.StringWidth(cell))
			switch {
			case i == len(cells)-1:
				line.WriteString(cell)
			case g.numbers[i]:
				line.WriteString(blanks + cell + between)
			default:
				line.WriteString(cell + blanks + between)
			}
		}
		rows = append(rows, cut(strings.TrimRight(line.String(), " "), width))
	}
	return rows[0], rows[1:]
}

// cut shortens a text to the number of columns; 0 means not to.
func cut(line string, width int) string {
	if width == 0 || text.StringWidth(line) <= width {
		return line
	}
	return text.Snip(line, width, "…")
}
