package dashboard

import (
	"fmt"

	tea "charm.land/bubbletea/v2"
)

// press does what a key is for.
func (m *Model) press(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "esc", "backspace":
		m.back()
	case "tab", "right":
		m.turn(1)
	case "shift+tab", "left":
		m.turn(panes - 1)
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-max(1, m.height/2))
	case "pgdown":
		m.move(max(1, m.height/2))
	case "home", "g":
		m.moveToEnd(false)
	case "end", "G":
		m.moveToEnd(true)
	case "enter":
		return m.open()
	}
	return nil
}

// turn goes to another pane, of those that are shown.
func (m *Model) turn(by pane) {
	if m.conversation == nil {
		m.focus = (m.focus + by) % panes
	}
}

func (m *Model) move(by int) {
	if m.conversation != nil {
		m.conversation.move(by, m.conversationHeight())
		return
	}
	m.selected[m.focus] = max(0, min(m.selected[m.focus]+by, len(m.rows[m.focus])-1))
}

func (m *Model) moveToEnd(end bool) {
	switch {
	case m.conversation != nil:
		m.conversation.moveToEnd(end, m.conversationHeight())
	case end:
		m.selected[m.focus] = max(0, len(m.rows[m.focus])-1)
	default:
		m.selected[m.focus] = 0
	}
}

// open shows what the selected row is about: of an agent its messages, and
// of a run or a message the conversation.
func (m *Model) open() tea.Cmd {
	rows := m.rows[m.focus]
	if m.conversation != nil || len(rows) == 0 {
		return nil
	}
	selected := rows[m.selected[m.focus]].target
	c := &conversation{follow: true, unknown: true}
	switch m.focus {
	case agentsPane:
		if selected.agent != "" {
			m.showOnly(selected)
		}
		return nil
	case runsPane:
		run, found := m.snapshot.run(selected.folder)
		if !found {
			return nil
		}
		c.title, c.run, c.reader = fmt.Sprintf("Run %d", run.ID), run.place.Folder, &logReader{run: run.place}
	default:
		message := rows[m.selected[m.focus]].cells
		c.title = "Conversation: " + message[len(message)-1]
		c.reader = &messageReader{workspaces: m.source.config.Workspaces, id: selected.message}
	}
	c.resize(m.width)
	m.conversation = c
	return m.read(c)
}

// back leaves the conversation, or shows the messages of all agents again.
func (m *Model) back() {
	switch {
	case m.conversation != nil:
		m.conversation = nil
	case m.only != target{}:
		m.only = target{}
		m.layOut()
	}
}

// showOnly lists only the messages from or to an agent.
func (m *Model) showOnly(agent target) {
	m.only, m.focus = agent, messagesPane
	m.layOut()
	m.moveToEnd(true)
}
