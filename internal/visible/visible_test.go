package visible

import (
	"testing"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	tests := []struct{ text, line, lines string }{
		{"plain", "plain", "plain"},
		{"ünïcode 漢字 👩‍💻", "ünïcode 漢字 👩‍💻", "ünïcode 漢字 👩‍💻"},
		{"a\nb\tc\rd", `a\nb\tc\rd`, "a\nb\tc\\rd"},
		{"\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`, `\x1b[31mred\x1b[0m`},
		{"\u009b31m", `\u009b31m`, `\u009b31m`},
		{"evil\u202egnp.exe", `evil\u202egnp.exe`, `evil\u202egnp.exe`},
		{"a\u2066b\u2069", `a\u2066b\u2069`, `a\u2066b\u2069`},
		{"line\u2028break", `line\u2028break`, `line\u2028break`},
		{"bad \xff byte, good \ufffd", `bad \xff byte, good ` + "\ufffd", `bad \xff byte, good ` + "\ufffd"},
		{"tag \U000e0041", `tag \U000e0041`, `tag \U000e0041`},
		{"\x00\x7f", `\x00\x7f`, `\x00\x7f`},
		{"1\ufe0f\u20e3 ❤\ufe0f\u200d🔥 می\u200cخواهم", "1\ufe0f\u20e3 ❤\ufe0f\u200d🔥 می\u200cخواهم", "1\ufe0f\u20e3 ❤\ufe0f\u200d🔥 می\u200cخواهم"},
		{"a\ufe0f\u200db\u200c\u200c", `a\ufe0f\u200db\u200c\u200c`, `a\ufe0f\u200db\u200c\u200c`},
		{"❤\ufe0f\ufe0f\u200d\u200d", "❤\ufe0f" + `\ufe0f\u200d\u200d`, "❤\ufe0f" + `\ufe0f\u200d\u200d`},
		{"\u2800", `\u2800`, `\u2800`},
	}
	for _, test := range tests {
		if got := Line(test.text); got != test.line {
			t.Errorf("Line(%q) is %q, want %q", test.text, got, test.line)
		}
		if got := Lines(test.text); got != test.lines {
			t.Errorf("Lines(%q) is %q, want %q", test.text, got, test.lines)
		}
	}
}

// FuzzEscape checks that the result has no characters that a terminal interprets, and that escaping
// twice changes nothing.
func FuzzEscape(f *testing.F) {
	for _, seed := range []string{"", "plain", "\x1b]0;x\a", "a\r\nb", "\xc3\x28", "\u202e\u2066", "👩‍💻\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line := Line(text)
		if !utf8.ValidString(line) {
			t.Fatalf("Line(%q) is %q, which is not UTF-8", text, line)
		}
		for _, r := range line {
			if r < 0x20 || 0x7f <= r && r < 0xa0 || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 {
				t.Fatalf("Line(%q) is %q, which holds %U", text, line, r)
			}
		}
		if again := Line(line); again != line {
			t.Fatalf("Line of %q is %q, want no change", line, again)
		}
	})
}

func TestCut(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{Cut("äöü", 2), "äö"}, {Cut("äöü", 3), "äöü"}, {Cut("", 1), ""},
		{Short("äöü", 3), "äöü"}, {Short("äö üx", 4), "äö…"}, {Short("äöüx", 3), "äö…"},
		{CutBytes("äöü", 3), "ä"}, {CutBytes("äöü", 6), "äöü"}, {CutBytes("ä", 1), ""},
		{ShortBytes("äöü", 5), "äö…"}, {ShortBytes("äöü", 6), "äöü"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}
