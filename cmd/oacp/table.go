package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/clipperhouse/displaywidth"
	"github.com/fatih/color"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
)

// A table aligns rows in columns without lines around them, so that its text can be copied and cut
// apart. It is our own because a library of tables makes every command start later.
type table struct {
	s    *command.Streams
	rows [][]string
	// The columns in shorten, counted from 1, are cut if the table is wider than the terminal. A width
	// of 0 cuts nothing.
	width   int
	shorten []int
}

// row holds the values of the cells of a row.
type row []any

// cells measures cells, which may be coloured.
var cells = displaywidth.Options{ControlSequences: true}

// newTable returns a table with a header. On a terminal the columns to shorten share the width that
// the others leave; in a pipe nothing is cut.
func newTable(s *command.Streams, header row, shorten ...int) *table {
	t := &table{s: s, width: s.Width, shorten: shorten}
	for i, name := range header {
		header[i] = paint(s, colors{color.Bold}, fmt.Sprint(name))
	}
	t.add(header)
	return t
}

func (t *table) add(values row) {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = fmt.Sprint(value)
		if !t.s.OutTerminal {
			texts[i] = visible.ModelLine(texts[i])
		}
	}
	t.rows = append(t.rows, texts)
}

// print prints the lines of the table.
func (t *table) print(s *command.Streams) {
	for _, line := range t.lines() {
		fmt.Fprintln(s.Out, line)
	}
}

// lines returns the header and the rows without the blanks that align the last column.
func (t *table) lines() []string {
	widths := make([]int, len(t.rows[0]))
	for _, texts := range t.rows {
		for i, text := range texts {
			widths[i] = max(widths[i], cells.String(text))
		}
	}
	t.narrow(widths)
	lines := make([]string, len(t.rows))
	for n, texts := range t.rows {
		var line strings.Builder
		for i, text := range texts {
			text = cells.TruncateString(text, widths[i], "…")
			line.WriteString(text + strings.Repeat(" ", widths[i]-cells.String(text)+2))
		}
		lines[n] = strings.TrimRight(line.String(), " ")
	}
	return lines
}

// narrow cuts the widest columns, as far as the table is wider than the terminal.
func (t *table) narrow(widths []int) {
	const least = 16
	total := 0
	for _, width := range widths {
		if width > 0 {
			total += width + 2
		}
	}
	for excess := total - 2 - t.width; t.width > 0 && excess > 0 && len(t.shorten) > 0; excess-- {
		widest := slices.MaxFunc(t.shorten, func(a, b int) int { return widths[a-1] - widths[b-1] })
		if widths[widest-1] <= least {
			return
		}
		widths[widest-1]--
	}
}

// colors are how a text looks on a terminal.
type colors []color.Attribute

// paint colours a text on a terminal.
func paint(s *command.Streams, as colors, line string) string {
	if !s.Color() || len(as) == 0 || line == "" {
		return line
	}
	c := color.New(as...)
	c.EnableColor() // Streams have decided
	return c.Sprint(line)
}

// priorityText colours what is urgent.
func priorityText(s *command.Streams, p schema.Priority) string {
	switch p {
	case schema.P0:
		return paint(s, colors{color.FgRed, color.Bold}, string(p))
	case schema.P1:
		return paint(s, colors{color.FgYellow}, string(p))
	}
	return visible.Line(string(p))
}
