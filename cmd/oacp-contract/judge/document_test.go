package judge

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	deep := strings.Repeat("[", maxSchemaDepth+1) + strings.Repeat("]", maxSchemaDepth+1)
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
		"a large number":    {`{"a": [1, 1e99999999]}`, 1, 11, "too large"},
		"a long number":     {`{"maximum": ` + strings.Repeat("9", 100) + `}`, 1, 13, "too large"},
		"nesting":           {deep, 1, maxSchemaDepth + 1, "nest deeper"},
		"as deep as may be": {deep[1 : len(deep)-1], 0, 0, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse(test.text)
			problem, bad := errors.AsType[*textError](err)
			if !bad {
				if test.message != "" || err != nil {
					t.Errorf("got %v, want %q", err, test.message)
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
	root, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ at, found string }{
		{"", "{\n"}, {"a", "[10"}, {"a 0", "10,"}, {"a 1", `{"b/c"`}, {"a 1 b/c", "true"}, {"d e", `"x"`},
		{"d missing", `{"e"`}, {"a 7", "[10"}, {"missing a", "{\n"},
	}
	for _, test := range tests {
		at := strings.Fields(test.at)
		if got := text[root.find(at):]; !strings.HasPrefix(got, test.found) {
			t.Errorf("%q leads to %.10q, want %q", at, got, test.found)
		}
	}
}

func TestReferenceTo(t *testing.T) {
	const text = `{"$ref": "a.json#/x", "properties": {"$ref": {"$dynamicRef": "../b.json"}}, "items": [{"$recursiveRef": "#/c"}, {"$ref": "#/c"}]}`
	root, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"oacp://x/a.json#/x": `"a.json#/x"`, "oacp://x/a.json": `"a.json#/x"`, "oacp://b.json": `"../b.json"`, "question.schema.json#/c": `"#/c"}, {`, "c.json": "",
	} {
		offset := root.reference(address)
		if (offset < 0) != (want == "") || offset >= 0 && !strings.HasPrefix(text[offset:], want) {
			t.Errorf("the reference to %s is at %d, want %s", address, offset, want)
		}
	}
}

// FuzzParse checks that every text is parsed to an end, and that every offset is inside it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "{}", `{"a": [1, {"b": null}], "a": 2}`, "[[[[", "{\"a\":\n1} x", "\ufeff{}", "\"\\ud800\"", "{\"\xff\": 1}", `{"$ref": "%zz#/a"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		root, err := parse(text)
		if problem, ok := errors.AsType[*textError](err); err != nil && (!ok || problem.offset < 0 || problem.offset > len(text)) {
			t.Fatalf("%q: %v, want a *textError inside the text", text, err)
		}
		if err != nil {
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("%q is parsed and is not JSON", text)
		}
		for key, member := range root.members {
			if at := root.find([]string{key}); at != member.offset || at <= root.offset || at >= len(text) {
				t.Fatalf("%q: %q is at %d", text, key, at)
			}
		}
		root.reference("a.json#/a")
	})
}
