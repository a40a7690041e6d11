package main

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
)

// newTable returns a table without lines around it, so that its text can be copied and cut apart.
// On a terminal the columns to shorten share the width that the others leave; in a pipe nothing is
// cut.
func newTable(s *command.Streams, header table.Row, others int, shorten ...int) table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	if s.Color() {
		style.Color.Header = text.Colors{text.Bold}
	}
	t.SetStyle(style)
	t.AppendHeader(header)
	if s.Width > 0 {
		const least = 16
		var columns []table.ColumnConfig
		width := max(least, (s.Width-others)/len(shorten))
		cut := func(line string, width int) string { return text.Snip(line, width, "…") }
		for _, number := range shorten {
			columns = append(columns, table.ColumnConfig{Number: number, WidthMax: width, WidthMaxEnforcer: cut})
		}
		t.SetColumnConfigs(columns)
	}
	return t
}

// printTable prints the table without the blanks that align its last column.
func printTable(s *command.Streams, t table.Writer) {
	t.SuppressTrailingSpaces()
	fmt.Fprintln(s.Out, t.Render())
}

// paint colours a text on a terminal.
func paint(s *command.Streams, colors text.Colors, line string) string {
	if !s.Color() {
		return line
	}
	return colors.Sprint(line)
}

// priorityText colours what is urgent.
func priorityText(s *command.Streams, p schema.Priority) string {
	switch p {
	case schema.P0:
		return paint(s, text.Colors{text.FgRed, text.Bold}, string(p))
	case schema.P1:
		return paint(s, text.Colors{text.FgYellow}, string(p))
	}
	return visible.Line(string(p))
}
