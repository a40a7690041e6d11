package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

func TestWrap(t *testing.T) {
	tests := []struct {
		content string
		width   int
		want    string
	}{
		{"", 10, ""},
		{"short", 10, "short"},
		{"exactly 10", 10, "exactly 10"},
		{"the words stay whole", 10, "the words|stay whole"},
		{"just at the  edge", 7, "just at|the|edge"},
		{"  indented text", 10, "  indented|text"},
		{"incomprehensibilities are long", 10, "incomprehe|nsibilitie|s are long"},
		{"    incomprehensibilities", 10, "    incomp|rehensibil|ities"},
		{"a\n\nb\n\n", 10, "a||b"},
		{"漢字漢字漢字", 5, "漢字|漢字|漢字"},
		{"ab 漢字", 5, "ab|漢字"},
		{"a\tb", 10, "a    b"},
		{"\x1b[2J and more", 10, `\x1b[2J|and more`},
		{"wide 漢", 1, "w|i|d|e|漢"},
		{"blanks       ", 8, "blanks"},
		{"             ", 8, ""},
	}
	for _, test := range tests {
		var got []string
		for _, l := range wrap(test.content, test.width, plain) {
			got = append(got, l.text)
		}
		if got := strings.Join(got, "|"); got != test.want {
			t.Errorf("%q in %d columns is %q, want %q", test.content, test.width, got, test.want)
		}
	}
}

// FuzzWrap checks that no line is too wide and that only blanks are lost.
func FuzzWrap(f *testing.F) {
	f.Add("the words stay whole, incomprehensibilities do not", uint8(10))
	f.Add("漢字 漢字漢字\n\n\x1b[2J\te\u0301 \xff", uint8(3))
	f.Fuzz(func(t *testing.T, content string, width uint8) {
		columns := max(2, int(width)) // the widest character has two
		squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
		var got, want strings.Builder
		for _, l := range wrap(content, columns, plain) {
			sum := 0
			for _, r := range l.text {
				sum += text.RuneWidth(r)
			}
			if sum > columns {
				t.Errorf("line %q is %d columns wide, want at most %d", l.text, sum, columns)
			}
			got.WriteString(l.text)
		}
		for _, l := range wrap(content, 1<<30, plain) {
			want.WriteString(l.text)
		}
		if squeeze(got.String()) != squeeze(want.String()) {
			t.Errorf("%q in %d columns is %q, want all of %q", content, columns, got.String(), want.String())
		}
	})
}

// TestScroll compares the view with a window on all lines.
func TestScroll(t *testing.T) {
	for _, count := range []int{0, 1, 2, 7} {
		for _, height := range []int{1, 4, 30} {
			c := &transcript{follow: true}
			c.resize(30)
			c.take(numbered(count, 3))
			var all []string
			for _, l := range c.lines {
				all = append(all, l.text)
			}
			last := max(0, len(all)-height)
			top := last
			check := func(what string) {
				t.Helper()
				var got []string
				for _, l := range c.window(height) {
					got = append(got, l.text)
				}
				want := all[top:min(top+height, len(all))]
				if strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("%d entries in %d lines, after %s:\ngot  %q\nwant %q", count, height, what, got, want)
				}
				if c.follow != (top == last) {
					t.Errorf("%d entries in %d lines, after %s: follow is %v, want true at the end only", count, height, what, c.follow)
				}
			}
			check("opening")
			for _, by := range []int{-1, -5, 3, -100, 1, 100, -2, 8, -40, 5} {
				c.move(by, height)
				top = max(0, min(top+by, last))
				check(fmt.Sprint("moving by ", by))
			}
			c.move(len(c.lines), height)
			top = last
			check("going to the end")
			c.move(-len(c.lines), height)
			top = 0
			check("going to the beginning")
		}
	}
}

// TestConversationStays checks that the view stays in place while entries arrive.
func TestConversationStays(t *testing.T) {
	c := &transcript{follow: true}
	c.resize(200)
	r := numbered(10, 1)
	c.take(r)
	c.move(-len(c.lines), 4)
	c.move(6, 4) // to the head of entry 2, behind a blank
	want := c.window(4)[0].text
	r.entries = append(r.entries, &entry{head: "new"})
	c.take(r)
	if got := c.window(4)[0].text; got != want || want != "entry 2" {
		t.Errorf("after one more the screen begins with %q, before with %q, want entry 2", got, want)
	}
	c.take(reading{changed: true, err: fmt.Errorf("gone")})
	if got := c.window(4)[0].text; got != "entry 2" || c.err == nil {
		t.Errorf("after a failed reading the screen begins with %q and the error is %v, want the same entry and an error", got, c.err)
	}
}

// TestReadsAgain checks that a conversation is read again after anything that may have changed it.
func TestReadsAgain(t *testing.T) {
	w := mailboxtest.New(t, "claude", "codex")
	source := newSource(config{Workspaces: []*mailbox.Workspace{w}})
	post := func(parent schema.ID) schema.ID {
		t.Helper()
		receipt, err := w.Send(t.Context(), schema.Message{
			From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question, Subject: "x", Body: schema.TextValue("text"),
			ConversationID: "conv-20260304-claude-1", ParentID: parent,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return receipt.Message.ID
	}
	first := post("")
	r := &messageReader{workspaces: source.config.Workspaces, id: first, zone: time.UTC}
	read := func(what string, entries int, stage string) {
		t.Helper()
		got := r.read(t.Context(), gather(t, source))
		if got.err != nil || len(got.entries) != entries || !strings.HasSuffix(got.entries[0].head, " "+stage) {
			t.Errorf("%s: the reading is %+v, want %d entries, the first one %s", what, got, entries, stage)
		}
		if r.read(t.Context(), gather(t, source)).changed {
			t.Errorf("%s: the conversation is read again although nothing has happened", what)
		}
	}
	read("at first", 1, "waiting")
	post(first)
	read("after an answer", 2, "waiting")
	e, err := w.Pending(t.Context(), string(first), "codex")
	if err != nil {
		t.Fatal(err)
	}
	key, err := track.KeyOf(e.Message)
	if err == nil {
		err = track.NoteNoticed(w, "codex", []track.Key{key}, track.Noticed{Session: "1a2b", Program: "codex"})
	}
	if err != nil {
		t.Fatal(err)
	}
	read("after a session noticed it", 2, "noticed")
	if err := w.Acknowledge(e); err != nil {
		t.Fatal(err)
	}
	read("after it left the inbox", 2, "acknowledged")
}

func TestBacklog(t *testing.T) {
	var b backlog
	for i := range maxEntries + 3 {
		b.add(&entry{head: fmt.Sprint(i)})
	}
	if len(b.entries) != maxEntries || b.omitted != 3 || b.entries[0].head != "3" {
		t.Errorf("%d entries are held from %s on, %d are omitted, want %d from 3 on, 3", len(b.entries), b.entries[0].head, b.omitted, maxEntries)
	}
	b = backlog{}
	for i := range 200 {
		b.add(&entry{head: fmt.Sprint(i), text: strings.Repeat("漢", maxText/3+i)})
		if size := len(b.entries[len(b.entries)-1].text); size > maxText+40 {
			t.Fatalf("an entry holds a text of %d bytes, want at most %d", size, maxText)
		}
	}
	if b.size > maxSize || len(b.entries)+b.omitted != 200 {
		t.Errorf("%d bytes are held, with %d entries and %d omitted, want at most %d bytes and 200 in all", b.size, len(b.entries), b.omitted, maxSize)
	}
}

// long returns a view of a conversation of 5,000 messages of 60 lines.
func long(b *testing.B) *model {
	b.Helper()
	m := newModel(config{})
	m.resize(80, 24)
	m.take(sample())
	m.press("Enter")
	m.conversation.take(numbered(5000, 60))
	b.ReportAllocs()
	return m
}

func BenchmarkConversationFrame(b *testing.B) {
	m := long(b)
	for b.Loop() {
		m.screen()
	}
}

// BenchmarkConversationKey measures scrolling through the conversation.
func BenchmarkConversationKey(b *testing.B) {
	m := long(b)
	for b.Loop() {
		m.press("PgUp")
	}
}

// BenchmarkConversationGrows measures the arrival of a message while the end is in view.
func BenchmarkConversationGrows(b *testing.B) {
	m := long(b)
	all := reading{changed: true, entries: m.conversation.entries}
	for b.Loop() {
		m.conversation.take(all)
		m.screen()
	}
}

// BenchmarkConversationResize measures wrapping all lines again.
func BenchmarkConversationResize(b *testing.B) {
	m := long(b)
	for i := 0; b.Loop(); i++ {
		m.resize(80+i%2, 24)
	}
}
