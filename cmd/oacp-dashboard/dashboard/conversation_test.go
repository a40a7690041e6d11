package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/clipperhouse/displaywidth"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
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
				sum += displaywidth.Rune(r)
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
	r.entries = append(r.entries, entry{head: "new"})
	c.take(r)
	if got := c.window(4)[0].text; got != want || want != "entry 2" {
		t.Errorf("after one more the screen begins with %q, before with %q, want entry 2", got, want)
	}
	c.take(reading{err: fmt.Errorf("gone")})
	if got := c.window(4)[0].text; got != "entry 2" || c.err == nil {
		t.Errorf("after a failed reading the screen begins with %q and the error is %v, want the same entry and an error", got, c.err)
	}
}

// TestReadThread checks that a conversation shows the stage of each message.
func TestReadThread(t *testing.T) {
	w := mailboxtest.New(t, "claude", "codex")
	s := &source{Workspaces: []*mailbox.Workspace{w}, Zone: time.UTC}
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
	read := func(what string, entries int, stage string) {
		t.Helper()
		got := s.read(t.Context(), target{message: first})
		if got.err != nil || len(got.entries) != entries || !strings.HasSuffix(got.entries[0].head, " "+stage) {
			t.Errorf("%s: the reading is %+v, want %d entries, the first one %s", what, got, entries, stage)
		}
	}
	read("at first", 1, "waiting")
	post(first)
	read("after an answer", 2, "waiting")
	e, err := w.Pending(t.Context(), string(first), "codex")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Acknowledge(e); err != nil {
		t.Fatal(err)
	}
	read("after it left the inbox", 2, "done")
}

// TestReadStructured checks that a structured body is shown as oacp read shows it.
func TestReadStructured(t *testing.T) {
	w := mailboxtest.New(t, "claude", "codex")
	body := schema.Value{Kind: schema.Mapping, Pairs: []schema.Pair{{Key: "port", Value: schema.TextValue("8080")}}}
	receipt, err := w.Send(t.Context(), schema.Message{
		From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question, Subject: "x", Body: body,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &source{Workspaces: []*mailbox.Workspace{w}, Zone: time.UTC}
	got := s.read(t.Context(), target{message: receipt.Message.ID})
	if got.err != nil || len(got.entries) != 1 || got.entries[0].text != "port: \"8080\"\n" {
		t.Errorf("the reading is %+v, want the body as YAML", got)
	}
}

func TestLongConversation(t *testing.T) {
	var r reading
	for i := range maxEntries + 3 {
		r.add(entry{head: fmt.Sprint(i), text: strings.Repeat("漢", maxText/3+1)})
	}
	if len(r.entries) != maxEntries || r.omitted != 3 || r.entries[0].head != "3" {
		t.Errorf("%d entries are held from %s on, %d are omitted, want %d from 3 on, 3", len(r.entries), r.entries[0].head, r.omitted, maxEntries)
	}
	if size := len(r.entries[0].text); size > maxText+40 {
		t.Errorf("an entry holds a text of %d bytes, want at most %d", size, maxText)
	}
}
