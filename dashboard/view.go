package dashboard

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/oacp-go/oacp/internal/visible"
)

// style is how a line looks. None is needed to understand it.
type style string

const (
	plain   style = ""
	bold    style = "\x1b[1m"
	faint   style = "\x1b[2m"
	reverse style = "\x1b[7m"
	reset   style = "\x1b[m"
)

// line is a line of the screen.
type line struct {
	text  string
	style style
}

// What the keys do, the most needed first: in a conversation, and in each
// pane.
var (
	conversationKeys = []string{"q quit", "esc back", "end follow", "up/down scroll"}
	panesKeys        = [panes][]string{
		agentsPane:   {"q quit", "tab runs", "enter its messages", "up/down select"},
		runsPane:     {"q quit", "tab messages", "enter conversation", "up/down select"},
		messagesPane: {"q quit", "tab agents", "enter conversation", "up/down select"},
	}
)

// help joins as much of what the keys do as there is room for.
func help(keys []string, width int) string {
	line := keys[0]
	for _, key := range keys[1:] {
		if more := line + between + key; len(more) <= width {
			line = more
		}
	}
	return line
}

// View shows the screen.
func (m *Model) View() tea.View {
	var out strings.Builder
	for i, l := range m.screen() {
		if i > 0 {
			out.WriteByte('\n')
		}
		if l.style == plain {
			out.WriteString(l.text)
			continue
		}
		out.WriteString(string(l.style) + l.text + string(reset))
	}
	view := tea.NewView(out.String())
	view.AltScreen = true
	return view
}

// screen returns as many lines as the screen has, none wider than it.
func (m *Model) screen() []line {
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
	lines = append(lines[:max(0, min(len(lines), m.height-1))], line{help(keys, m.width), faint})
	for i := range lines {
		lines[i].text = cut(lines[i].text, m.width)
	}
	return lines
}

// conversationHeight is how many lines of the screen a conversation has. The
// others are its title, what there is to say about it, and the keys.
func (m *Model) conversationHeight() int { return max(1, m.height-3) }

// conversationHead names the conversation, and says what is not shown of it.
func (m *Model) conversationHead() []line {
	c := m.conversation
	about := line{"", faint}
	switch {
	case c.err != nil:
		about = line{visible.Line(c.err.Error()), bold}
	case !c.ready:
		about.text = "reading"
	case c.omitted > 0:
		about.text = fmt.Sprintf("the latest %d are shown, %d older ones are not", len(c.entries), c.omitted)
	case len(c.entries) == 0:
		about.text = "(none)"
	}
	title := c.title
	if run, found := m.snapshot.run(c.run); found {
		title = fmt.Sprintf("%s  %s  %s  %s", c.title, run.stateText(), run.iterationText(), run.task())
	}
	return []line{{visible.Line(title), bold}, about}
}

// paneLines lays out the panes below the title, or only the one in focus
// where there is no room for all.
func (m *Model) paneLines() []line {
	var sizes [panes]int
	all := 0
	for p, rows := range m.rows {
		sizes[p] = max(1, len(rows))
		all += sizes[p]
	}
	const title, keys, above = 1, 1, 2 // above each pane are a blank and its header
	const fewest = 3                   // rows a pane, on average, that are worth to be shown beside others
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

// counted says which rows of how many are shown, if there is room for it.
func counted(first, last, all, room int) string {
	for _, form := range []string{"  (%d to %d of %d)", " %d-%d/%d"} {
		if count := fmt.Sprintf(form, first, last, all); len(count) <= room {
			return count
		}
	}
	return ""
}

// share divides the room: a quarter each for agents and runs at the most, as
// long as messages need the rest.
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

// The marks before the selected row, the header of the pane in focus, and
// everything else.
const (
	selectedMark = "> "
	focusMark    = "* "
	noMark       = "  "
)

// pane lays out a pane with so many rows that the selected one is among them.
func (m *Model) pane(p pane, height int) []line {
	header, rows := m.laid[p].header, m.laid[p].rows
	top := max(0, m.selected[p]-height+1)
	end := min(len(rows), top+height)
	if len(rows) > height {
		header += counted(top+1, end, len(rows), m.width-len(noMark)-text.StringWidth(header))
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
