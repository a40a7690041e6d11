package dashboard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

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
	conversationKeys = []string{"q quit", "? keys", "esc back", "end follow", "up/down scroll"}
	panesKeys        = [panes][]string{
		agentsPane:   {"q quit", "? keys", "tab runs", "enter its messages", "up/down select"},
		runsPane:     {"q quit", "? keys", "tab messages", "enter conversation", "up/down select"},
		messagesPane: {"q quit", "? keys", "tab agents", "enter conversation", "up/down select"},
	}
)

// helpKeys are all keys and what they do, in words that fit into 40 columns.
var helpKeys = [][2]string{
	{"up, down", "select a row, or scroll"},
	{"pgup, pgdn", "the same by half a screen"},
	{"home, end", "first, last; end follows"},
	{"enter", "messages, or conversation"},
	{"esc", "back; all messages again"},
	{"tab", "next pane; with shift, back"},
	{"?", "these keys"},
	{"q, ctrl-c", "quit"},
}

func helpLines() []line {
	lines := []line{{"Keys", bold}, {}}
	for _, k := range helpKeys {
		lines = append(lines, line{fmt.Sprintf("%-10s%s%s", k[0], between, k[1]), plain})
	}
	return lines
}

// screen returns as many lines as the screen has, none wider than it.
func (m *model) screen() []line {
	lines, keys := []line{{m.snapshot.title(), bold}}, panesKeys[m.focus]
	if m.only != (target{}) {
		keys = slices.Insert(slices.Clone(keys), 1, "esc all messages")
		lines[0].text = "messages of " + string(m.only.agent) + " only  " + lines[0].text
	}
	switch {
	case m.help:
		lines, keys = helpLines(), []string{"q quit", "any other key goes back"}
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
	if run, found := m.snapshot.run(c.run); found {
		title = fmt.Sprintf("%s  %s  %s  %s", c.title, run.stateText(), run.iterationText(), run.task())
	}
	return []line{{visible.Line(title), bold}, notice}
}

// paneLines lays out the panes below the title, or only the one in focus if they do not fit.
func (m *model) paneLines() []line {
	var sizes [panes]int
	all := 0
	for p, g := range m.grids {
		sizes[p] = max(1, len(g.rows))
		all += sizes[p]
	}
	const title, keys, above = 1, 1, 2 // above each pane are a blank line and its header
	const fewest = 3                   // the average number of rows below which one pane is better than three
	room := m.height - title - keys - above*int(panes)
	if room < fewest*int(panes) && room < all {
		return m.pane(m.focus, max(1, m.height-title-keys-above))
	}
	var lines []line
	for p, height := range share(room, sizes) {
		lines = append(lines, m.pane(pane(p), height)...)
	}
	return lines
}

// share divides the room: at most a quarter each for agents and runs unless messages leave more.
func share(room int, sizes [panes]int) [panes]int {
	var heights [panes]int
	for p := agentsPane; p < messagesPane; p++ {
		heights[p] = min(sizes[p], max(1, room/4))
	}
	heights[messagesPane] = room - heights[agentsPane] - heights[runsPane]
	spare := max(0, heights[messagesPane]-sizes[messagesPane])
	for p := agentsPane; p < messagesPane; p++ {
		more := max(0, min(spare, sizes[p]-heights[p]))
		heights[p] += more
		heights[messagesPane] -= more
		spare -= more
	}
	return heights
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
		if used += text.RuneWidth(r); used > width && i > 0 {
			return i
		}
	}
	return len(line)
}
