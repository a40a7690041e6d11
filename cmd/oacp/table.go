package main

import (
	"fmt"
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
	rows [][]string
	// most is the width to which the columns in shorten, counted from 1, are cut. 0 cuts nothing.
	most    int
	shorten []int
}

// row holds the values of the cells of a row.
type row []any

// cells measures cells, which may be coloured.
var cells = displaywidth.Options{ControlSequences: true}

// newTable returns a table with a header. On a terminal the columns to shorten share the width that
// the others leave; in a pipe nothing is cut.
func newTable(s *command.Streams, header row, others int, shorten ...int) *table {
	t := &table{shorten: shorten}
	if s.Width > 0 {
		const least = 16
		t.most = max(least, (s.Width-others)/len(shorten))
	}
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
	}
	if t.most > 0 {
		for _, number := range t.shorten {
			texts[number-1] = cells.TruncateString(texts[number-1], t.most, "…")
		}
	}
	t.rows = append(t.rows, texts)
}

// print prints the table without the blanks that align its last column.
func (t *table) print(s *command.Streams) {
	widths := make([]int, len(t.rows[0]))
	for _, texts := range t.rows {
		for i, text := range texts {
			widths[i] = max(widths[i], cells.String(text))
		}
	}
	for _, texts := range t.rows {
		var line strings.Builder
		for i, text := range texts {
			line.WriteString(text + strings.Repeat(" ", widths[i]-cells.String(text)+2))
		}
		fmt.Fprintln(s.Out, strings.TrimRight(line.String(), " "))
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
