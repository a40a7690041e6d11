package track

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/schema"
)

func TestSearch(t *testing.T) {
	structured := schema.Value{Kind: schema.Mapping, Pairs: []schema.Pair{
		{Key: "key", Value: schema.TextValue("first")},
		{Key: "list", Value: schema.Value{Kind: schema.List, Items: []schema.Value{schema.TextValue("The Second"), {Kind: schema.Null}}}},
	}}
	long := strings.Repeat("a port ", 40) + "the retry of the port ends " + strings.Repeat("é ", 100)
	for _, test := range []struct {
		words, subject string
		body           schema.Value
		snippet        string
		found          bool
	}{
		{"WORLD", "s", schema.TextValue("Hello,\n  world!"), "Hello, world!", true},
		{"hello", "Hello", schema.TextValue("x"), "", true},
		{"hello x", "Hello", schema.TextValue("x"), "x", true},
		{"hello y", "Hello", schema.TextValue("x"), "", false},
		{"second first", "", structured, "first The Second", true},
		{"key", "", structured, "", false},
		{"x", "", schema.Value{}, "", false},
		{"retry port ends", "", schema.TextValue(long), "… port a port a port the retry of the port ends ", true},
		{"i", "", schema.TextValue("İİİİ"), "iiii", true},
	} {
		snippet, found := search(searchWords(test.words), test.subject, test.body)
		if found != test.found || !strings.Contains(snippet, strings.Trim(test.snippet, "… ")) || (test.snippet == "") != (snippet == "") {
			t.Errorf("%q in %q: got %q, %v, want %q, %v", test.words, SearchText(test.body), snippet, found, test.snippet, test.found)
		}
	}
}

func FuzzSearch(f *testing.F) {
	f.Add("a port", "Port of a\xff", "é")
	f.Fuzz(func(t *testing.T, words, body, before string) {
		snippet, _ := search(searchWords(words), "", schema.TextValue(strings.Repeat(before, 20)+body))
		if strings.Contains(snippet, "\n") || utf8.RuneCountInString(snippet) > 110 {
			t.Errorf("the snippet is %q", snippet)
		}
	})
}

// BenchmarkList lists 20,000 messages, without words, with words in few, and with words in all of them.
func BenchmarkList(b *testing.B) {
	const count = 20_000
	dir := b.TempDir()
	for _, box := range []string{"claude/outbox", "codex/inbox", "claude/inbox"} {
		if err := os.MkdirAll(filepath.Join(dir, "agents", box), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	body := strings.Repeat("  The server listens on another port than before.\n", 10)
	for i := range count {
		text := fmt.Sprintf("id: msg-20260313T1430Z-claude-%06d\nfrom: claude\nto: codex\ntype: notification\npriority: P2\n"+
			"created_at_utc: 2026-03-13T14:30:00Z\nsubject: Message %d\nbody: |\n%s", i, i, body)
		for _, box := range []string{"claude/outbox", "codex/inbox"} {
			name := fmt.Sprintf("20260313T1430Z_claude_notification_%06d.yaml", i)
			if err := os.WriteFile(filepath.Join(dir, "agents", box, name), []byte(text), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	w := mailboxtest.Open(b, dir)
	for text, want := range map[string]int{"": count, "port 19999": 1, "server before": count} {
		b.Run(fmt.Sprintf("text=%q", text), func(b *testing.B) {
			for b.Loop() {
				if found, err := List(b.Context(), w, Query{Text: text}); err != nil || len(found) != want {
					b.Fatalf("%d messages (%v), want %d", len(found), err, want)
				}
			}
		})
	}
}
