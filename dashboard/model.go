package dashboard

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Changed tells a Model that something has happened in a workspace.
type Changed struct{}

const (
	// refreshEvery is how often a Model looks without being told.
	refreshEvery = 2 * time.Second
	// gathering is how long changes are collected before a Model looks.
	gathering = 50 * time.Millisecond
	// followEvery is how often the log of a run that is shown is looked at.
	followEvery = 500 * time.Millisecond
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
	work     work
	snapshot Snapshot
	ready    bool // there is a snapshot

	width, height int
	focus         pane
	selected      [panes]int
	rows          [panes][]row
	// laid are the rows as they are shown at the width.
	laid [panes]laid
	// only is the agent whose messages alone are listed, if not empty.
	only target
	// conversation is shown instead of the panes.
	conversation *conversation

	// Looking is due, under way, and due once more behind that.
	scheduled, looking, again bool
}

// laid is a header and rows as text.
type laid struct {
	header string
	rows   []string
}

// NewModel makes a Model, which uses the Source until it is closed.
func NewModel(ctx context.Context, source *Source) *Model {
	return &Model{ctx: ctx, source: source, focus: messagesPane, scheduled: true}
}

// Close waits until nothing is read any more. It is for when the program and
// the context have ended.
func (m *Model) Close() { m.work.close() }

type (
	tickMsg     struct{}
	lookMsg     struct{}
	snapshotMsg struct {
		snapshot Snapshot
		err      error
	}
	readMsg struct {
		conversation *conversation
		reading      reading
	}
	followMsg struct{ conversation *conversation }
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
		m.resize(msg.Width, msg.Height)
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
	case readMsg:
		return m, m.takeReading(msg)
	case followMsg:
		if msg.conversation == m.conversation {
			return m, m.read(msg.conversation)
		}
	}
	return m, nil
}

// resize fits what is shown into a terminal of another size.
func (m *Model) resize(width, height int) {
	m.height = height
	if width == m.width {
		return
	}
	m.width = width
	m.layOut()
	if m.conversation != nil {
		m.conversation.resize(width)
	}
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
	return m.work.command(func() tea.Msg {
		snapshot, err := m.source.Gather(m.ctx)
		return snapshotMsg{snapshot, err}
	})
}

// take takes a snapshot.
func (m *Model) take(msg snapshotMsg) tea.Cmd {
	m.looking = false
	if msg.err != nil {
		return tea.Quit // whoever ended the context knows why
	}
	before := m.snapshot
	m.snapshot = msg.snapshot
	m.layOut()
	m.ready = true
	var commands []tea.Cmd
	if m.again {
		m.again = false
		commands = append(commands, m.schedule())
	}
	if c := m.conversation; c != nil && c.expect(before.messages(target{}), m.snapshot.messages(target{})) {
		commands = append(commands, m.read(c))
	}
	return tea.Batch(commands...)
}

// layOut lays out the rows for the width. What is selected stays so.
func (m *Model) layOut() {
	grids := [panes]grid{agentsGrid(m.snapshot), runsGrid(m.snapshot), messagesGrid(m.snapshot.messages(m.only), m.snapshot.At)}
	for p, g := range grids {
		before := m.rows[p]
		m.rows[p] = g.rows
		m.laid[p].header, m.laid[p].rows = g.lines(max(1, m.width-len(noMark)))
		m.selected[p] = m.reselect(pane(p), before)
	}
}

// reselect finds the row that was selected. In the list of messages the last
// one stays the last, and elsewhere the first the first, until another is
// chosen.
func (m *Model) reselect(p pane, before []row) int {
	rows, at := m.rows[p], m.selected[p]
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

// read reads a conversation, once at a time.
func (m *Model) read(c *conversation) tea.Cmd {
	if c.reading {
		c.again = true
		return nil
	}
	c.reading = true
	due := c.due()
	return m.work.command(func() tea.Msg { return readMsg{c, c.reader.read(m.ctx, due)} })
}

// takeReading takes what was read of a conversation.
func (m *Model) takeReading(msg readMsg) tea.Cmd {
	c := msg.conversation
	if c.reading = false; c != m.conversation {
		return nil // it is not shown any more
	}
	c.take(msg.reading)
	if c.again {
		c.again = false
		return m.read(c)
	}
	if c.run == "" {
		return nil // it is read again when a message has come
	}
	return tea.Tick(followEvery, func(time.Time) tea.Msg { return followMsg{c} })
}
