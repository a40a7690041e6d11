package dashboard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/clipperhouse/displaywidth"

	"github.com/oacp-go/oacp/internal/visible"
)

// style is how a line looks. The view is clear without styles.
type style uint8

const (
	plain style = iota
	bold
	faint
	reverse
)

// line is a line of the screen.
type line struct {
	text  string
	style style
}

// The keys in a conversation and in each pane, the most important first.
var (
	conversationKeys = []string{"q quit", "esc back", "end follow", "up/down scroll"}
	panesKeys        = [panes][]string{
		agentsPane:   {"q quit", "tab runs", "enter its messages", "up/down select"},
		runsPane:     {"q quit", "tab messages", "enter conversation", "up/down select"},
		messagesPane: {"q quit", "tab agents", "enter conversation", "up/down select"},
	}
)

// screen returns as many lines as the screen has, none wider than it.
func (m *model) screen() []line {
	lines, keys := []line{{m.snapshot.title(), bold}}, panesKeys[m.focus]
	if m.only != (target{}) {
		keys = slices.Insert(slices.Clone(keys), 1, "esc all messages")
		lines[0].text = "messages of " + string(m.only.agent) + " only  " + lines[0].text
	}
	switch {
	case !m.ready:
		lines = []line{{"reading", plain}}
	case m.conversation != nil:
		keys = conversationKeys
		lines = append(m.conversationHead(), m.conversation.window(m.conversationHeight())...)
	default:
		lines = append(lines, m.paneLines()...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, line{})
	}
	lines = append(lines[:max(0, min(len(lines), m.height-1))], line{strings.Join(keys, between), faint})
	for i := range lines {
		lines[i].text = cut(lines[i].text, m.width)
	}
	return lines
}

// conversationHeight is the number of lines for a conversation: all but title, notice and keys.
func (m *model) conversationHeight() int { return max(1, m.height-3) }

// conversationHead returns the title of the conversation and a notice about what is missing.
func (m *model) conversationHead() []line {
	c := m.conversation
	notice := line{"", faint}
	switch {
	case c.err != nil:
		notice = line{visible.Line(c.err.Error()), bold}
	case !c.ready:
		notice.text = "reading"
	case c.omitted > 0:
		notice.text = fmt.Sprintf("the latest %d are shown, %d older ones are not", len(c.entries), c.omitted)
	case len(c.entries) == 0:
		notice.text = "(none)"
	}
	title := c.title
	if run, found := m.snapshot.run(c.of.run); found {
		title = fmt.Sprintf("%s  %s  %s  %s", c.title, run.stateText(), run.iterationText(), run.task())
	}
	return []line{{visible.Line(title), bold}, notice}
}

// paneLines lays out the panes below the title: at most a third each for agents and runs, and the rest for messages.
func (m *model) paneLines() (lines []line) {
	const title, keys, above = 1, 1, 2 // above each pane are a blank line and its header
	room := m.height - title - keys - above*int(panes)
	left := room
	for p, g := range m.grids {
		height := left
		if pane(p) != messagesPane {
			height = min(max(1, len(g.rows)), room/3)
		}
		height = max(1, height)
		left -= height
		lines = append(lines, m.pane(pane(p), height)...)
	}
	return lines
}

// The marks before the selected row, the header of the pane in focus, and all other lines.
const (
	selectedMark = "> "
	focusMark    = "* "
	noMark       = "  "
)

// pane lays out a pane with so many rows, one of which is the selected one.
func (m *model) pane(p pane, height int) []line {
	header, rows := m.grids[p].lines(max(1, m.width-len(noMark)))
	top := max(0, m.selected[p]-height+1)
	end := min(len(rows), top+height)
	if len(rows) > height {
		header += fmt.Sprintf("  %d-%d/%d", top+1, end, len(rows))
	}
	headerMark := noMark
	if p == m.focus {
		headerMark = focusMark
	}
	lines := []line{{}, {headerMark + header, bold}}
	if len(rows) == 0 {
		return append(lines, line{noMark + "(none)", faint})
	}
	for i := top; i < end; i++ {
		if p == m.focus && i == m.selected[p] {
			lines = append(lines, line{selectedMark + rows[i], reverse})
			continue
		}
		lines = append(lines, line{noMark + rows[i], plain})
	}
	return lines
}

// wrap escapes a text and breaks its lines between words, so that none is wider than the width in
// columns of a terminal. It breaks a word that is wider.
func wrap(content string, width int, style style) []line {
	var lines []line
	content = strings.ReplaceAll(strings.TrimRight(content, "\n"), "\t", "    ")
	for part := range strings.SplitSeq(visible.Lines(content), "\n") {
		for {
			end := fit(part, width)
			if end == len(part) {
				lines = append(lines, line{part, style})
				break
			}
			if part[end] != ' ' {
				blank := strings.LastIndexByte(part[:end], ' ')
				if blank > 0 && strings.TrimLeft(part[:blank], " ") != "" {
					end = blank
				}
			}
			lines = append(lines, line{strings.TrimRight(part[:end], " "), style})
			if part = strings.TrimLeft(part[end:], " "); part == "" {
				break
			}
		}
	}
	return lines
}

// fit returns how many bytes of a line fit, at least those of one character.
func fit(line string, width int) int {
	used := 0
	for i, r := range line {
		if used += displaywidth.Rune(r); used > width && i > 0 {
			return i
		}
	}
	return len(line)
}
