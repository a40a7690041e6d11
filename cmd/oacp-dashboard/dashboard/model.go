package dashboard

import (
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/bridge"
)

// far is a move beyond the first or last line.
const far = 1 << 30

// pane is a part of the screen.
type pane int

const (
	agentsPane pane = iota
	runsPane
	messagesPane
	panes
)

// model is the state of the live view. It handles one event at a time.
type model struct {
	snapshot Snapshot
	ready    bool // there is a snapshot
	left     bool // the user has left the view

	width, height int
	focus         pane
	selected      [panes]int
	grids         [panes]grid
	// only is the agent whose messages alone are listed, unless empty.
	only target
	// conversation, if not nil, replaces the panes.
	conversation *transcript
}

func newModel() *model { return &model{focus: messagesPane} }

func (m *model) resize(width, height int) {
	m.height = height
	if m.conversation != nil && width != m.width {
		m.conversation.resize(width)
	}
	m.width = width
}

// take shows a new snapshot.
func (m *model) take(snapshot Snapshot) {
	m.snapshot = snapshot
	m.layOut()
	m.ready = true
}

// layOut makes the rows of the panes. The selected ones stay selected.
func (m *model) layOut() {
	for p, g := range m.snapshot.grids(m.only) {
		before := m.grids[p].rows
		m.grids[p] = g
		m.selected[p] = m.reselect(pane(p), before)
	}
}

// reselect returns the new index of the selected row. If the last message was selected, the last one stays
// selected. In a pane without focus the first row stays selected.
func (m *model) reselect(p pane, before []row) int {
	rows, at := m.grids[p].rows, m.selected[p]
	switch {
	case p == messagesPane && (!m.ready || at >= len(before)-1):
		return max(0, len(rows)-1)
	case p != messagesPane && p != m.focus && at == 0:
		return 0
	case at < len(before):
		found := slices.IndexFunc(rows, func(r row) bool { return r.target == before[at].target })
		if found >= 0 {
			return found
		}
	}
	return max(0, min(at, len(rows)-1))
}

// press handles a key by its name.
func (m *model) press(key string) {
	switch key {
	case "q", "Ctrl-C":
		m.left = true
	case "Esc", "Backspace", "Backspace2":
		m.back()
	case "Tab", "Right":
		m.turn(1)
	case "Backtab", "Left":
		m.turn(panes - 1)
	case "Up", "k":
		m.move(-1)
	case "Down", "j":
		m.move(1)
	case "PgUp":
		m.move(-max(1, m.height/2))
	case "PgDn":
		m.move(max(1, m.height/2))
	case "Home", "g":
		m.move(-far)
	case "End", "G":
		m.move(far)
	case "Enter":
		m.open()
	}
}

// turn moves the focus to another pane.
func (m *model) turn(by pane) {
	if m.conversation == nil {
		m.focus = (m.focus + by) % panes
	}
}

// move moves the selection, or scrolls the conversation.
func (m *model) move(by int) {
	if m.conversation != nil {
		m.conversation.move(by, m.conversationHeight())
		return
	}
	m.selected[m.focus] = max(0, min(m.selected[m.focus]+by, len(m.grids[m.focus].rows)-1))
}

// open shows the messages of the selected agent, or the conversation of the selected run or
// message.
func (m *model) open() {
	rows := m.grids[m.focus].rows
	if m.conversation != nil || len(rows) == 0 {
		return
	}
	selected := rows[m.selected[m.focus]]
	c := &transcript{of: selected.target, follow: true}
	switch of := selected.target; {
	case of.agent != "":
		m.only, m.focus = of, messagesPane
		m.layOut()
		m.move(far)
		return
	case of.message != "":
		c.title = "Conversation: " + selected.cells[len(selected.cells)-1]
	case of.run != (bridge.Run{}):
		c.title = fmt.Sprintf("Run %d", of.run.ID)
	default:
		return
	}
	c.resize(m.width)
	m.conversation = c
}

// back leaves the conversation, or lists all messages again.
func (m *model) back() {
	switch {
	case m.conversation != nil:
		m.conversation = nil
	case m.only != target{}:
		m.only = target{}
		m.layOut()
	}
}

// opened returns the target of the conversation on the screen, or an empty one.
func (m *model) opened() target {
	if m.conversation == nil {
		return target{}
	}
	return m.conversation.of
}
