package dashboard

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// numbered are entries with so many lines of text each.
func numbered(entries, lines int) reading {
	r := reading{changed: true}
	for i := range entries {
		var text strings.Builder
		for l := range lines {
			fmt.Fprintf(&text, "  line %d of the body with some words in it to be wrapped at the edge of the screen\n", l)
		}
		r.entries = append(r.entries, &entry{id: fmt.Sprint(i), head: fmt.Sprint("entry ", i), text: text.String()})
	}
	return r
}

// showing returns a model of the size that shows the sample.
func showing(t *testing.T, width, height int) *Model {
	t.Helper()
	m := NewModel(t.Context(), NewSource(Config{}))
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	m.Update(snapshotMsg{snapshot: sample()})
	return m
}

// keys are the names that special keys have, and their codes.
var keys = map[string]rune{"up": tea.KeyUp, "down": tea.KeyDown, "tab": tea.KeyTab, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "end": tea.KeyEnd, "home": tea.KeyHome, "pgup": tea.KeyPgUp}

func press(t *testing.T, m *Model, names ...string) (last tea.Cmd) {
	t.Helper()
	for _, name := range names {
		key := tea.Key{Code: keys[name]}
		if key.Code == 0 {
			key = tea.Key{Code: rune(name[0]), Text: name}
		}
		if got := tea.KeyPressMsg(key).String(); got != name {
			t.Fatalf("key is %q, want %q", got, name)
		}
		_, last = m.Update(tea.KeyPressMsg(key))
	}
	return last
}

func screenText(m *Model) string {
	var out strings.Builder
	for _, l := range m.screen() {
		out.WriteString(l.text + "\n")
	}
	return out.String()
}

func TestScreen(t *testing.T) {
	for _, size := range []struct{ width, height int }{{40, 12}, {60, 20}, {80, 24}, {120, 40}} {
		m := showing(t, size.width, size.height)
		checkGolden(t, fmt.Sprintf("screen_%dx%d.txt", size.width, size.height), screenText(m))
		press(t, m, "tab", "down", "down")
		checkGolden(t, fmt.Sprintf("screen_agents_%dx%d.txt", size.width, size.height), screenText(m))
		press(t, m, "tab", "tab", "enter")
		said := entry{head: "2026-03-04 10:19:00  claude -> codex,gemini  question P0", subject: "evil \x1b[2J",
			text: "a\tb\nlong " + strings.Repeat("漢字 ", 60) + "\n" + strings.Repeat("漢字", 70) + "\n\x1b]52;c;x\a\n"}
		m.Update(readMsg{m.conversation, reading{changed: true, entries: []*entry{&said, &said}, omitted: 7}})
		checkGolden(t, fmt.Sprintf("screen_thread_%dx%d.txt", size.width, size.height), screenText(m))
	}
}

// TestScreenFits has every view in every size: as many lines as the screen
// has, none wider, and nothing in them that a terminal acts on.
func TestScreenFits(t *testing.T) {
	for width := 1; width < 130; width += 7 {
		for height := 1; height < 45; height += 3 {
			m := showing(t, width, height)
			for _, key := range []string{"tab", "down", "end", "tab", "home", "tab", "pgup", "enter", "up", "end", "esc"} {
				press(t, m, key)
				if c := m.conversation; c != nil {
					c.take(numbered(5, 3))
				}
				screen := screenText(m)
				checkPlain(t, screen, width)
				if got := strings.Count(screen, "\n"); got != height {
					t.Fatalf("%dx%d after %s: %d lines, want %d", width, height, key, got, height)
				}
			}
		}
	}
}

// TestNarrow has what matters most in sight on terminals that are narrow.
func TestNarrow(t *testing.T) {
	for _, width := range []int{40, 60, 80} {
		m := showing(t, width, 12)
		press(t, m, "home")
		for _, want := range []string{"SUBJECT", "Message 0", "\nq quit"} {
			if screen := screenText(m); !strings.Contains(screen, want) {
				t.Errorf("%d columns have no %q:\n%s", width, want, screen)
			}
		}
		press(t, m, "tab", "tab")
		for _, want := range []string{"TASK", "Fix the", "stopped"} {
			if screen := screenText(m); !strings.Contains(screen, want) {
				t.Errorf("%d columns have no %q:\n%s", width, want, screen)
			}
		}
	}
}

func TestSelectionFollows(t *testing.T) {
	m := showing(t, 80, 24)
	next := sample()
	more := next.Workspaces[0].Messages[29]
	more.ID, more.CreatedAt = "msg-20260304T1020Z-claude-zzzz", "2026-03-04T10:20:00Z"
	next.Workspaces[0].Messages = append(next.Workspaces[0].Messages[1:], more)
	press(t, m, "up")
	m.Update(snapshotMsg{snapshot: next})
	if got := m.selected[messagesPane]; got != 27 {
		t.Errorf("message %d is selected, want the same as before, 27", got)
	}
	press(t, m, "end")
	m.Update(snapshotMsg{snapshot: sample()})
	if got := m.selected[messagesPane]; got != 29 {
		t.Errorf("message %d is selected, want the last, 29", got)
	}
	m.Update(snapshotMsg{snapshot: Snapshot{}})
	m.Update(snapshotMsg{snapshot: sample()})
	if got := m.selected[messagesPane]; got != 29 {
		t.Errorf("after none, message %d is selected, want the last, 29", got)
	}
}

// TestMessagesOfAnAgent lists the messages from and to an agent alone.
func TestMessagesOfAnAgent(t *testing.T) {
	m := showing(t, 80, 40)
	next := sample()
	all := next.Workspaces[0].Messages
	all[3].From, all[5].To = "gemini", []schema.AgentName{"codex", "gemini"}
	m.Update(snapshotMsg{snapshot: next})
	press(t, m, "tab", "down", "down", "enter")
	if got := m.laid[messagesPane].rows; len(got) != 2 || !strings.Contains(got[0], "Message 3") || m.selected[messagesPane] != 1 || m.focus != messagesPane {
		t.Errorf("the rows are %q, of which %d is selected, want messages 3 and 5, the last one selected", got, m.selected[messagesPane])
	}
	if screen := screenText(m); !strings.Contains(screen, "messages of gemini only") || !strings.Contains(screen, "esc all messages") {
		t.Errorf("the screen does not say what is shown:\n%s", screen)
	}
	m.Update(snapshotMsg{snapshot: next})
	if got := len(m.laid[messagesPane].rows); got != 2 {
		t.Errorf("the next snapshot shows %d messages, want 2", got)
	}
	press(t, m, "enter")
	press(t, m, "esc")
	if got := len(m.laid[messagesPane].rows); m.conversation != nil || got != 2 {
		t.Errorf("back from a conversation there are %d messages, want 2", got)
	}
	press(t, m, "esc")
	if got := len(m.laid[messagesPane].rows); got != 30 {
		t.Errorf("after esc there are %d messages, want all 30", got)
	}
}

// TestSelectedRunStays has runs change their order.
func TestSelectedRunStays(t *testing.T) {
	m := showing(t, 80, 40)
	next := sample()
	for i := range next.Runs {
		next.Runs[i].place.Folder = fmt.Sprint(i)
	}
	m.Update(snapshotMsg{snapshot: next})
	press(t, m, "tab", "tab", "down")
	later := next
	later.Runs = []Run{next.Runs[2], next.Runs[0], next.Runs[1]}
	m.Update(snapshotMsg{snapshot: later})
	if got := m.selected[runsPane]; got != 2 {
		t.Errorf("run %d is selected, want the same as before, 2", got)
	}
}

// TestLooksOnceAtATime has changes come while the model looks.
func TestLooksOnceAtATime(t *testing.T) {
	m := NewModel(t.Context(), NewSource(Config{}))
	if _, command := m.Update(Changed{}); command != nil {
		t.Error("a change before the first look has a command, want none: one is due")
	}
	_, look := m.Update(lookMsg{})
	if _, command := m.Update(Changed{}); command == nil {
		t.Error("a change during a look has no command, want another look")
	}
	if _, command := m.Update(lookMsg{}); command != nil {
		t.Error("a second look has begun beside the first, want none")
	}
	if _, command := m.Update(look()); command == nil || !m.scheduled {
		t.Error("after the look none is due, want the one that was put off")
	}
}

func TestConversationFollows(t *testing.T) {
	w := workspace(t, "claude", "codex")
	receipt := send(t, w, "the question")
	m := NewModel(t.Context(), NewSource(Config{Workspaces: []*mailbox.Workspace{w}}))
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	look := func() tea.Cmd {
		_, command := m.Update(lookMsg{})
		_, command = m.Update(command())
		return command
	}
	look()
	m.Update(press(t, m, "enter")())
	if screen := screenText(m); !strings.Contains(screen, "\nthe question\ntext\n") {
		t.Fatalf("the conversation is\n%s", screen)
	}
	send(t, w, "something else")
	if command := look(); command != nil {
		t.Error("a message of another conversation has come, and this one is read again")
	}
	for _, text := range []string{"the answer", "and another"} {
		answer := mailbox.Reply(receipt.Message, "codex")
		answer.Body = schema.TextValue(text)
		receipt, err := w.Send(t.Context(), answer, nil)
		if err != nil {
			t.Fatal(err)
		}
		command := look()
		if command == nil {
			t.Fatalf("%s has come, and the conversation is not read again", receipt.Message.ID)
		}
		m.Update(command())
		if screen := screenText(m); !strings.Contains(screen, "\n"+text+"\n") {
			t.Errorf("the conversation lacks %q:\n%s", text, screen)
		}
	}
}

// TestReadsOnceAtATime has messages come while the conversation is read.
func TestReadsOnceAtATime(t *testing.T) {
	m := showing(t, 80, 24)
	read := press(t, m, "enter")
	if read == nil {
		t.Fatal("enter reads nothing")
	}
	if press(t, m, "tab"); m.focus != messagesPane {
		t.Errorf("behind the conversation, pane %d is chosen", m.focus)
	}
	c := m.conversation
	if m.read(c) != nil || !c.again {
		t.Error("the conversation is read twice at once, want one reading behind the other")
	}
	if _, command := m.Update(readMsg{c, reading{}}); command == nil || c.again {
		t.Error("the reading that was put off has not begun")
	}
	press(t, m, "esc")
	if _, command := m.Update(readMsg{c, numbered(1, 1)}); command != nil || len(c.entries) != 0 {
		t.Error("a conversation that is not shown any more is still read")
	}
}

// TestCloseWaits closes a model while it looks, and asks it to look after
// that.
func TestCloseWaits(t *testing.T) {
	m := showing(t, 80, 24)
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go m.work.command(func() tea.Msg {
		close(begun)
		<-end
		close(done)
		return nil
	})()
	<-begun
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		m.Close()
		select {
		case <-done:
		default:
			t.Error("the model is closed while it works")
		}
	}()
	close(end)
	<-closed
	if got := m.work.command(func() tea.Msg { return tickMsg{} })(); got != nil {
		t.Errorf("a closed model works, and gives %v", got)
	}
}

func TestQuit(t *testing.T) {
	m := showing(t, 80, 24)
	command := press(t, m, "q")
	if _, ok := command().(tea.QuitMsg); !ok {
		t.Errorf("q gives %v, want the end", command())
	}
	_, command = m.Update(snapshotMsg{err: errors.New("stopped")})
	if _, ok := command().(tea.QuitMsg); !ok {
		t.Errorf("an ended context gives %v, want the end", command())
	}
}

func TestViewStyles(t *testing.T) {
	content := showing(t, 80, 24).View().Content
	if !strings.Contains(content, string(reverse)) || text.StringWidth(strings.Split(content, "\n")[0]) == 0 {
		t.Errorf("the view is %q, want a selected line", content)
	}
}
