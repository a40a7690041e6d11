package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"
	"github.com/fatih/color"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A table aligns rows in columns without lines around them, so that its text can be copied and cut
// apart. It is not from a library, because that would slow down the start of every command.
type table struct {
	s    *command.Streams
	rows [][]string
}

// row holds the values of the cells of a row.
type row []any

// cells measures cells, which may be coloured.
var cells = displaywidth.Options{ControlSequences: true}

// newTable returns a table with a header. On a terminal, lines are cut at its width; in a pipe they are not.
func newTable(s *command.Streams, header row) *table {
	t := &table{s: s}
	for i, name := range header {
		header[i] = paint(s, bold, fmt.Sprint(name))
	}
	t.add(header...)
	return t
}

func (t *table) add(values ...any) {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = fmt.Sprint(value)
		if !t.s.OutTerminal || t.s.InAgent() {
			texts[i] = visible.Untagged(texts[i])
		}
	}
	t.rows = append(t.rows, texts)
}

// print prints the lines of the table.
func (t *table) print() {
	for _, line := range t.lines() {
		fmt.Fprintln(t.s.Out, line)
	}
}

// lines returns the header and the rows, without blanks at their ends.
func (t *table) lines() []string {
	widths := make([]int, len(t.rows[0]))
	for _, texts := range t.rows {
		for i, text := range texts {
			widths[i] = max(widths[i], cells.String(text))
		}
	}
	lines := make([]string, len(t.rows))
	for n, texts := range t.rows {
		var line strings.Builder
		for i, text := range texts {
			line.WriteString(text + strings.Repeat(" ", widths[i]-cells.String(text)+2))
		}
		lines[n] = strings.TrimRight(line.String(), " ")
		if t.s.Width > 0 {
			lines[n] = cells.TruncateString(lines[n], t.s.Width, "…")
		}
	}
	return lines
}

// colors are the attributes of a text on a terminal.
type colors []color.Attribute

var (
	bold   = colors{color.Bold}
	red    = colors{color.FgRed}
	green  = colors{color.FgGreen}
	yellow = colors{color.FgYellow}
	urgent = colors{color.FgRed, color.Bold}
)

// paint colours a text on a terminal.
func paint(s *command.Streams, as colors, line string) string {
	if !s.Color() || len(as) == 0 || line == "" {
		return line
	}
	c := color.New(as...)
	c.EnableColor() // s.Color has decided
	return c.Sprint(line)
}

// subjectText returns the subject for a table with further columns behind it. On a terminal, it takes at
// most half the width.
func subjectText(s *command.Streams, subject string) string {
	subject = visible.Line(subject)
	if s.Width > 0 {
		subject = cells.TruncateString(subject, s.Width/2, "…")
	}
	return subject
}

// priorityText returns the priority, coloured on a terminal if it is P0 or P1.
func priorityText(s *command.Streams, p schema.Priority) string {
	return paint(s, map[schema.Priority]colors{schema.P0: urgent, schema.P1: yellow}[p], visible.Line(string(p)))
}

// printField prints a name and a value, which begins in the same column for all names.
func printField(s *command.Streams, name, value string) {
	const width = 20
	label := paint(s, bold, visible.Line(name+":"))
	s.Printf("%s%*s%s\n", label, max(1, width-len(name)-1), "", visible.Line(value))
}

// printIndented prints the output of an agent, indented to set it apart.
func printIndented(s *command.Streams, output string) {
	for line := range strings.Lines(output) {
		s.Printf("    %s\n", visible.Line(strings.TrimRight(line, "\r\n")))
	}
}

// A liveOutput is the output of a command that prints while agents work. If it fails, their work goes on.
type liveOutput struct {
	// err is the first error of the output.
	err error
	// gone is called when nobody reads the output any more.
	gone func()
}

// flush flushes the output after a print that returned the error.
func (o *liveOutput) flush(s *command.Streams, err error) {
	if err = errors.Join(err, s.Out.Flush()); err == nil || o.err != nil {
		return
	}
	if o.err = command.OutputError(err); errors.Is(o.err, failure.ErrOutputClosed) {
		o.gone()
	}
}

// shortIDs returns the short form of each message's id, or the whole id if another one has the same
// short form, or a question mark if there is none.
func shortIDs(entries []mailbox.Entry) []string {
	short := make([]string, len(entries))
	uses := make(map[string]int, len(entries))
	for i, e := range entries {
		if e.Message != nil {
			short[i] = e.Message.ID.Short()
			uses[short[i]]++
		}
	}
	for i, e := range entries {
		if e.Message != nil && uses[short[i]] > 1 {
			short[i] = string(e.Message.ID)
		}
		short[i] = cmp.Or(visible.Line(short[i]), "?")
	}
	return short
}

// A progress shows on a terminal how much of an exchange of mail is done. If that takes less than a
// second, it shows nothing.
type progress struct {
	s     *command.Streams
	start time.Time
	shown time.Time // when the line was last drawn; zero if there is no line
}

const (
	progressAfter = time.Second
	progressEvery = 100 * time.Millisecond
)

func newProgress(s *command.Streams) *progress {
	return &progress{s: s, start: s.Now()}
}

// update is called by one goroutine at a time. With nothing done, the work starts again.
func (p *progress) update(done, total int) {
	now := p.s.Now()
	if done == 0 {
		p.clear()
		p.start = now
	}
	if !p.s.ErrTerminal || total <= 0 || now.Sub(p.start) < progressAfter || now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown = now
	// An error of the terminal does not stop the work.
	_, _ = fmt.Fprintf(p.s.Err, "\rexchanging mail %3d%% (%d/%d)\x1b[K", done*100/total, done, total)
}

// waiting prints a note about what the work waits for.
func (p *progress) waiting(what string) {
	p.clear()
	p.s.NoteWaiting(what)
}

// clear removes the line before anything else is printed.
func (p *progress) clear() {
	if !p.shown.IsZero() {
		_, _ = fmt.Fprint(p.s.Err, "\r\x1b[K")
		p.shown = time.Time{}
	}
}
