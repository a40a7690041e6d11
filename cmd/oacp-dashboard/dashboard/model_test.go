package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// numbered returns numbered entries with the given number of lines each.
func numbered(entries, lines int) reading {
	var r reading
	for i := range entries {
		var text strings.Builder
		for l := range lines {
			fmt.Fprintf(&text, "  line %d of the body with some words in it to be wrapped at the edge of the screen\n", l)
		}
		r.entries = append(r.entries, entry{head: fmt.Sprint("entry ", i), text: text.String()})
	}
	return r
}

// showing returns a model of the size that shows the sample.
func showing(t *testing.T, width, height int) *model {
	t.Helper()
	m := newModel()
	m.resize(width, height)
	m.take(sample())
	return m
}

// press handles keys.
func press(m *model, keys ...string) {
	for _, key := range keys {
		m.press(key)
	}
}

func screenText(m *model) string {
	var out strings.Builder
	for _, l := range m.screen() {
		out.WriteString(l.text + "\n")
	}
	return out.String()
}

func TestScreen(t *testing.T) {
	for _, size := range []struct{ width, height int }{{80, 24}, {120, 40}} {
		m := showing(t, size.width, size.height)
		checkGolden(t, fmt.Sprintf("screen_%dx%d.txt", size.width, size.height), screenText(m))
		press(m, "Tab", "Down", "Down")
		checkGolden(t, fmt.Sprintf("screen_agents_%dx%d.txt", size.width, size.height), screenText(m))
		press(m, "Tab", "Tab", "Enter")
		said := entry{head: "2026-03-04 10:19:00  claude -> codex,gemini  question P0", subject: "evil \x1b[2J",
			text: "a\tb\nlong " + strings.Repeat("漢字 ", 60) + "\n" + strings.Repeat("漢字", 70) + "\n\x1b]52;c;x\a\n"}
		m.conversation.take(reading{entries: []entry{said, said}, omitted: 7})
		checkGolden(t, fmt.Sprintf("screen_thread_%dx%d.txt", size.width, size.height), screenText(m))
	}
}

// TestScreenFits checks every view in every size: it has as many lines as the screen, no line is
// too wide, and no line contains control characters.
func TestScreenFits(t *testing.T) {
	for width := 1; width < 130; width += 7 {
		for height := 1; height < 45; height += 3 {
			m := showing(t, width, height)
			for _, key := range []string{"Tab", "Down", "End", "Tab", "Home", "Tab", "PgUp", "Enter", "Up", "End", "Esc"} {
				press(m, key)
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

func TestSelectionFollows(t *testing.T) {
	m := showing(t, 80, 24)
	next := sample()
	more := next.Workspaces[0].Messages[29]
	more.ID, more.CreatedAt = "msg-20260304T1020Z-claude-zzzz", "2026-03-04T10:20:00Z"
	next.Workspaces[0].Messages = append(next.Workspaces[0].Messages[1:], more)
	press(m, "Up")
	m.take(next)
	if got := m.selected[messagesPane]; got != 27 {
		t.Errorf("message %d is selected, want the same as before, 27", got)
	}
	press(m, "End")
	m.take(sample())
	if got := m.selected[messagesPane]; got != 29 {
		t.Errorf("message %d is selected, want the last, 29", got)
	}
	m.take(Snapshot{})
	m.take(sample())
	if got := m.selected[messagesPane]; got != 29 {
		t.Errorf("after none, message %d is selected, want the last, 29", got)
	}
}

// TestMessagesOfAnAgent checks that the list can show only the messages from and to one agent.
func TestMessagesOfAnAgent(t *testing.T) {
	m := showing(t, 80, 40)
	next := sample()
	all := next.Workspaces[0].Messages
	all[3].From, all[5].To = "gemini", []schema.AgentName{"codex", "gemini"}
	m.take(next)
	press(m, "Tab", "Down", "Down", "Enter")
	if got := m.grids[messagesPane].rows; len(got) != 2 || !strings.Contains(got[0].cells[6], "Message 3") || m.selected[messagesPane] != 1 || m.focus != messagesPane {
		t.Errorf("the rows are %+v, of which %d is selected, want messages 3 and 5, the last one selected", got, m.selected[messagesPane])
	}
	if screen := screenText(m); !strings.Contains(screen, "messages of gemini only") || !strings.Contains(screen, "esc all messages") {
		t.Errorf("the screen does not say what is shown:\n%s", screen)
	}
	m.take(next)
	if got := len(m.grids[messagesPane].rows); got != 2 {
		t.Errorf("the next snapshot shows %d messages, want 2", got)
	}
	press(m, "Enter")
	press(m, "Esc")
	if got := len(m.grids[messagesPane].rows); m.conversation != nil || got != 2 {
		t.Errorf("back from a conversation there are %d messages, want 2", got)
	}
	press(m, "Esc")
	if got := len(m.grids[messagesPane].rows); got != 30 {
		t.Errorf("after esc there are %d messages, want all 30", got)
	}
}

// TestSelectedRunStays checks that the same run stays selected when runs change their order.
func TestSelectedRunStays(t *testing.T) {
	m := showing(t, 80, 40)
	next := sample()
	for i := range next.Runs {
		next.Runs[i].place.ID = i
	}
	m.take(next)
	press(m, "Tab", "Tab", "Down")
	later := next
	later.Runs = []Run{next.Runs[2], next.Runs[0], next.Runs[1]}
	m.take(later)
	if got := m.selected[runsPane]; got != 2 {
		t.Errorf("run %d is selected, want the same as before, 2", got)
	}
}

func TestConversationFollows(t *testing.T) {
	w := mailboxtest.New(t, "claude", "codex")
	receipt := send(t, w, "the question")
	source := &source{Workspaces: []*mailbox.Workspace{w}, Zone: time.UTC}
	m := newModel()
	m.resize(80, 24)
	look := func() {
		t.Helper()
		m.take(gather(t, source))
		if m.conversation != nil {
			m.conversation.take(source.read(t.Context(), m.opened()))
		}
	}
	look()
	press(m, "Enter")
	if press(m, "Tab"); m.focus != messagesPane {
		t.Errorf("pane %d is selected behind the conversation", m.focus)
	}
	look()
	if screen := screenText(m); !strings.Contains(screen, "\nthe question\ntext\n") {
		t.Fatalf("the conversation is\n%s", screen)
	}
	for _, text := range []string{"the answer", "and another"} {
		answer := conversation.Reply(receipt.Message, "codex", schema.Notification)
		answer.Body = schema.TextValue(text)
		if _, err := w.Send(t.Context(), answer, nil); err != nil {
			t.Fatal(err)
		}
		look()
		if screen := screenText(m); !strings.Contains(screen, "\n"+text+"\n") {
			t.Errorf("the conversation lacks %q:\n%s", text, screen)
		}
	}
	if press(m, "Esc"); m.opened() != (target{}) {
		t.Error("a conversation that is no longer shown is still read")
	}
}

func TestQuit(t *testing.T) {
	m := showing(t, 80, 24)
	if press(m, "q"); !m.left {
		t.Error("q does not leave")
	}
}
