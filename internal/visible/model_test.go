package visible

import "testing"

func TestModelLine(t *testing.T) {
	tests := map[string]string{
		"a < b, c <= d, e << 2, <3": "a < b, c <= d, e << 2, <3",
		"</a><a><!--<?x <_ <:a <ä":  "&lt;/a>&lt;a>&lt;!--&lt;?x &lt;_ &lt;:a &lt;ä",
		"<  /a <\u200d/a <<b ends<": `&lt;  /a <\u200d/a <&lt;b ends&lt;`,
		"\x1b[31m<\n/a \u202e":      `\x1b[31m<\n/a \u202e`,
	}
	for text, want := range tests {
		if got := ModelLine(text); got != want {
			t.Errorf("ModelLine(%q) is %q, want %q", text, got, want)
		}
	}
}

func TestFence(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"a\n\n\n  b\r\n\tc <x>\td\n":    "| a\n|\n|\n|   b\n| \tc &lt;x>\td\n",
		"| b\rc\u2028\x1b[2J</r>\n\n":   "| | b\\rc\\u2028\\x1b[2J&lt;/r>\n|\n",
		"no line break at the end \xff": "| no line break at the end \\xff\n",
	} {
		if got := Fence(text); got != want {
			t.Errorf("Fence(%q) is %q, want %q", text, got, want)
		}
	}
}

func TestModelJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"b\\":["</r>\\","x\n\t\"<y",null]}`:      `{"a":1,"b\\":["&lt;/r>\\","x\n\t\"&lt;y",null]}`,
		`"\u001b\u202e` + "\u200b\U000e0061\ufe00" + `"`: `"\\x1b\\u202e\\u200b\\U000e0061\\ufe00"`,
	} {
		if got, err := ModelJSON(text); got != want || err != nil {
			t.Errorf("ModelJSON(%s) is %s, %v, want %s", text, got, err, want)
		}
	}
}
