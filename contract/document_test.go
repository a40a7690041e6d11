package contract

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheck(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	tests := map[string]struct {
		text         string
		line, column int
		message      string
	}{
		"an object":         {`{"a": [1, {"b": null}], "c": {}}`, 0, 0, ""},
		"true":              {"true\n", 0, 0, ""},
		"empty":             {"", 1, 1, "unexpected end of JSON"},
		"unfinished":        {"{\"a\":\n[1", 2, 3, "unexpected end of JSON"},
		"no JSON":           {"{\n  a: 1}", 2, 3, "invalid character 'a'"},
		"a comma":           {`{"a": 1,}`, 1, 9, "invalid character '}'"},
		"no word":           {`{"a": tru}`, 1, 10, "invalid character '}'"},
		"no number":         {`[1, 2.x]`, 1, 7, "invalid character 'x'"},
		"no string":         {"[\"a\nb\"]", 1, 4, "invalid character"},
		"a repeated key":    {"{\"ä\": {\"b\": 1},\n \"c\": 2, \"ä\": 3}", 2, 10, `the key "ä" is repeated`},
		"one that looks":    {`{"a": 1, "\u0061": 2}`, 1, 10, `the key "a" is repeated`},
		"two values":        {"{}\n{}", 2, 1, "after top-level value"},
		"not UTF-8":         {"{\"a\": \"ä\xff\"}", 1, 9, "not UTF-8"},
		"nesting":           {deep, 1, MaxDepth + 1, "nest deeper"},
		"as deep as may be": {deep[1 : len(deep)-1], 0, 0, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			problem := check(test.text)
			if problem == nil {
				if test.message != "" {
					t.Errorf("there is no problem, want %q", test.message)
				}
				return
			}
			line, column := position(test.text, problem.offset)
			if test.message == "" || !strings.Contains(problem.message, test.message) || line != test.line || column != test.column {
				t.Errorf("got %d:%d: %s, want %d:%d: %q", line, column, problem.message, test.line, test.column, test.message)
			}
		})
	}
}

func TestFind(t *testing.T) {
	const text = "{\n  \"a\": [10, {\"b/c\": true}],\n  \"d\": {\"e\": \"x\"}\n}"
	tests := []struct{ at, found string }{
		{"", "{\n"}, {"a", "[10"}, {"a 0", "10,"}, {"a 1", `{"b/c"`}, {"a 1 b/c", "true"}, {"d e", `"x"`},
		{"d missing", `{"e"`}, {"a 7", "[10"}, {"missing a", "{\n"},
	}
	for _, test := range tests {
		at := strings.Fields(test.at)
		if got := text[find(text, at):]; !strings.HasPrefix(got, test.found) {
			t.Errorf("%q leads to %.10q, want %q", at, got, test.found)
		}
	}
}

func TestReferences(t *testing.T) {
	const text = `{"$ref": "a.json#/x", "properties": {"$ref": {"$dynamicRef": "b.json"}}, "items": [{"$recursiveRef": "#"}, {"$ref": 3}]}`
	var got []string
	for _, r := range references(text) {
		if text[r.offset+1:r.offset+1+len(r.text)] != r.text {
			t.Errorf("%s is not at %d", r.text, r.offset)
		}
		got = append(got, r.text)
	}
	if want := []string{"a.json#/x", "b.json", "#"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	files := map[string]string{
		"a.json#/x": "a.json", "./a.json": "a.json", "https://example.com/s/a.json#x": "a.json", "../../a.json": "a.json",
		"#/x": "", "": "", "https://example.com/": "", "..": "", ".": "", "a%2fb": "b", `a%5cb`: "", "%zz": "",
	}
	for text, want := range files {
		if got, ok := (reference{text: text}).file(); ok != (want != "") || ok && got != want {
			t.Errorf("%q can mean the file %q (%v), want %q", text, got, ok, want)
		}
	}
}

// FuzzText checks that any text is walked to an end, and that every position is inside it.
func FuzzText(f *testing.F) {
	for _, seed := range []string{
		"", "{}", `{"a": [1, {"b": null}], "a": 2}`, "[[[[", "{\"a\":\n1} x", "\ufeff{}", "\"\\ud800\"", "{\"\xff\": 1}", `{"$ref": "%zz#/a"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		problem := check(text)
		if problem != nil && (problem.offset < 0 || problem.offset > len(text)) {
			t.Fatalf("%q: the offset %d is outside", text, problem.offset)
		}
		var places [][]string
		var offsets []int
		err := walkText(text, func(p place) bool {
			if !p.key {
				places, offsets = append(places, slices.Clone(p.at)), append(offsets, p.offset)
			}
			return len(places) < 50
		})
		if _, ok := errors.AsType[*textProblem](err); err != nil && !ok {
			t.Fatalf("%q: %v, want a *textProblem", text, err)
		}
		if problem != nil || !utf8.ValidString(text) {
			return
		}
		for i, at := range places {
			if got := find(text, at); got != offsets[i] {
				t.Fatalf("%q: %q is at %d, want %d", text, at, got, offsets[i])
			}
		}
		references(text)
	})
}
