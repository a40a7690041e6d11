package dashboard

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Changed tells a Model that something has happened in a workspace.
type Changed struct{}

const (
	// refreshEvery is how often a Model looks without being told.
	refreshEvery = 2 * time.Second
	// gathering is how long changes are collected before a Model looks.
	gathering = 50 * time.Millisecond
)

// pane is a part of the screen.
type pane int

const (
	agentsPane pane = iota
	runsPane
	messagesPane
	panes
)

// Model is a live view of what a Source gathers, for a tea.Program. It looks
// soon after a Changed, and every two seconds, but never twice at once.
type Model struct {
	ctx      context.Context
	source   *Source
	snapshot Snapshot
	messages []Message // of all workspaces
	ready    bool      // there is a snapshot

	width, height int
	focus         pane
	selected      [panes]int
	// thread is the conversation that is shown instead of the panes.
	thread *thread

	// Looking is due, under way, and due once more behind that.
	scheduled, looking, again bool
}

// NewModel makes a Model, which uses the Source until its program has ended.
func NewModel(ctx context.Context, source *Source) *Model {
	return &Model{ctx: ctx, source: source, focus: messagesPane, scheduled: true}
}

type (
	tickMsg     struct{}
	lookMsg     struct{}
	snapshotMsg struct {
		snapshot Snapshot
		err      error
	}
	threadMsg struct {
		id      schema.ID
		entries []mailbox.Entry
		err     error
	}
)

func tick() tea.Cmd {
	return tea.Tick(refreshEvery, func(time.Time) tea.Msg { return tickMsg{} })
}

// Init begins to look.
func (m *Model) Init() tea.Cmd {
	return tea.Batch(tick(), func() tea.Msg { return lookMsg{} })
}

// Update takes in what happened.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.press(msg.String())
	case tickMsg:
		return m, tea.Batch(tick(), m.schedule())
	case Changed:
		return m, m.schedule()
	case lookMsg:
		return m, m.look()
	case snapshotMsg:
		return m, m.take(msg)
	case threadMsg:
		if m.thread != nil && m.thread.id == msg.id {
			m.thread.entries, m.thread.err = msg.entries, msg.err
		}
	}
	return m, nil
}

// schedule has the model look soon, once for whatever happens until then.
func (m *Model) schedule() tea.Cmd {
	if m.scheduled {
		return nil
	}
	m.scheduled = true
	return tea.Tick(gathering, func(time.Time) tea.Msg { return lookMsg{} })
}

func (m *Model) look() tea.Cmd {
	m.scheduled = false
	if m.looking {
		m.again = true
		return nil
	}
	m.looking = true
	return func() tea.Msg {
		snapshot, err := m.source.Gather(m.ctx)
		return snapshotMsg{snapshot, err}
	}
}

// take takes a snapshot. The selected message stays selected, and the last
// one stays the last.
func (m *Model) take(msg snapshotMsg) tea.Cmd {
	m.looking = false
	if msg.err != nil {
		return tea.Quit // whoever ended the context knows why
	}
	before := m.messages
	at := m.selected[messagesPane]
	last := !m.ready || at >= len(before)-1
	m.snapshot, m.messages, m.ready = msg.snapshot, msg.snapshot.allMessages(), true
	switch {
	case last:
		m.selected[messagesPane] = len(m.messages) - 1
	default:
		for i := range m.messages {
			if m.messages[i].ID == before[at].ID {
				m.selected[messagesPane] = i
			}
		}
	}
	m.clamp()
	var commands []tea.Cmd
	if m.again {
		m.again = false
		commands = append(commands, m.schedule())
	}
	if m.thread != nil && !sameMessages(before, m.messages) {
		commands = append(commands, m.readThread())
	}
	return tea.Batch(commands...)
}

func sameMessages(a, b []Message) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID {
			return false
		}
	}
	return true
}

// sizes tells how many rows each pane has.
func (m *Model) sizes() [panes]int {
	return [panes]int{len(agentsGrid(m.snapshot).rows), len(runsGrid(m.snapshot).rows), len(m.messages)}
}

// clamp keeps the selection on the rows that there are.
func (m *Model) clamp() {
	for p, size := range m.sizes() {
		m.selected[p] = max(0, min(m.selected[p], size-1))
	}
}

// press does what a key is for.
func (m *Model) press(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "esc", "backspace":
		m.thread = nil
	case "tab", "right":
		m.focus = (m.focus + 1) % panes
	case "shift+tab", "left":
		m.focus = (m.focus + panes - 1) % panes
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-max(1, m.height/2))
	case "pgdown":
		m.move(max(1, m.height/2))
	case "home", "g":
		m.move(-1 << 30)
	case "end", "G":
		m.move(1 << 30)
	case "enter":
		return m.open()
	}
	return nil
}

func (m *Model) move(by int) {
	if m.thread != nil {
		m.thread.move(by, m.width, m.height)
		return
	}
	m.selected[m.focus] += by
	m.clamp()
}

// open shows the conversation of the selected message.
func (m *Model) open() tea.Cmd {
	if m.focus != messagesPane || m.thread != nil || len(m.messages) == 0 {
		return nil
	}
	message := m.messages[m.selected[messagesPane]]
	m.thread = &thread{id: message.ID, subject: message.Subject, follow: true}
	return m.readThread()
}

func (m *Model) readThread() tea.Cmd {
	id := m.thread.id
	return func() tea.Msg {
		entries, err := m.source.thread(m.ctx, id)
		return threadMsg{id, entries, err}
	}
}
