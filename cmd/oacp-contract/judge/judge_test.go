package judge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// judged returns what a schema says against a body, a line for each violation.
func judged(t *testing.T, text, body string) string {
	t.Helper()
	return judgedWith(t, map[string]string{"question.schema.json": text}, body)
}

func judgedWith(t *testing.T, files map[string]string, body string) string {
	t.Helper()
	c, ready := compile(files, []string{"question"})
	if len(ready.Problems) > 0 {
		t.Fatalf("the schema does not compile: %+v", ready.Problems)
	}
	r := contract.Request{ID: 1, Names: []string{"question"}, Text: &body}
	if fields, ok, _ := validate.BodyFields(&schema.Message{Body: schema.TextValue(body)}); ok {
		data, err := fields.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		r.Fields = data
	}
	a := c.check(r)
	if a.Error != "" {
		t.Fatalf("error: %s", a.Error)
	}
	var lines []string
	for _, v := range a.Violations {
		line := strings.Join(v.At, ".") + ": " + v.Message
		if v.Key {
			line = "key " + line
		}
		if v.FreeText {
			line = "free text"
		}
		if v.Advice != "" {
			line += " (" + v.Advice + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestTypes checks how a schema reads the scalars of a body, which are all texts.
func TestTypes(t *testing.T) {
	tests := []struct{ schema, scalar, want string }{
		{`{"type": "string"}`, `42`, ""},
		{`{"type": "string"}`, `"42"`, ""},
		{`{"type": "string"}`, `true`, ""},
		{`{"type": "string"}`, `null`, "a: want text, not null"},
		{`{"type": "string", "pattern": "^[0-9]+e[0-9]+$"}`, `1234e7`, ""},
		{`{"type": "integer"}`, `42`, ""},
		{`{"type": "integer"}`, `"42"`, ""},
		{`{"type": "integer"}`, `-0`, ""},
		{`{"type": "integer"}`, `+7`, ""},
		{`{"type": "integer"}`, `1e3`, ""},
		{`{"type": "integer"}`, `4.5`, "a: want integer, not 4.5"},
		{`{"type": "integer"}`, `soon`, `a: want integer, not "soon"`},
		{`{"type": "integer"}`, `0x1f`, `a: want integer, not "0x1f"`},
		{`{"type": "integer"}`, `1_000`, `a: want integer, not "1_000"`},
		{`{"type": "integer"}`, `1e999999999`, `a: want integer, not "1e999999999"`},
		{`{"type": "number", "maximum": 2}`, `1.5`, ""},
		{`{"type": "number", "maximum": 2}`, `2.5`, "a: must be <= 2 but found 2.5"},
		{`{"type": "number"}`, `.inf`, `a: want number, not ".inf"`},
		{`{"type": "number"}`, `NaN`, `a: want number, not "NaN"`},
		{`{"type": "boolean"}`, `true`, ""},
		{`{"type": "boolean"}`, `yes`, `a: want boolean, not "yes"`},
		{`{"type": ["integer", "null"]}`, `~`, ""},
		{`{"type": ["integer", "null"]}`, `5`, ""},
		{`{"type": ["integer", "string"]}`, `5`, ""},
		{`{"type": ["integer", "string"], "minimum": 9}`, `5`, ""}, // as a text it fits
		{`{"enum": [1, 2]}`, `2`, ""},
		{`{"enum": ["1", "2"]}`, `2`, ""},
		{`{"enum": [true, "maybe"]}`, `true`, ""},
		{`{"const": 3}`, `"3"`, ""},
		{`{"const": 3}`, `4`, `a: value must be "3"`},
		{`{"allOf": [{"type": "integer"}, {"minimum": 3}]}`, `2`, "a: must be >= 3 but found 2"},
		{`{"$ref": "#/$defs/n"}`, `2`, ""},
		{`{"type": "array", "items": {"type": "integer"}}`, `[1, x]`, `a.1: want integer, not "x"`},
		{`{"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "boolean"}}`, `[1, true]`, ""},
		{`{"type": "object"}`, `[1]`, "a: want mapping, not a list"},
		{`{"type": "array"}`, `{b: 1}`, "a: want list, not a mapping"},
		{`{"format": "date-time"}`, `2026-11-22T05:00:00Z`, ""},
		{`{"format": "date"}`, `tomorrow`, "a: 'tomorrow' is not valid 'date'"},
	}
	for _, test := range tests {
		t.Run(test.schema+" "+test.scalar, func(t *testing.T) {
			text := fmt.Sprintf(`{"properties": {"a": %s}, "$defs": {"n": {"type": "integer"}}}`, test.schema)
			if got := judged(t, text, "a: "+test.scalar); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestEitherWay checks bodies that fit only if a text is read as a number in one form of several.
func TestEitherWay(t *testing.T) {
	const text = `{"oneOf": [
		{"required": ["kind", "value"], "properties": {"kind": {"const": "count"}, "value": {"type": "integer"}}},
		{"required": ["kind", "value"], "properties": {"kind": {"const": "name"}, "value": {"type": "string"}}}]}`
	for body, want := range map[string]string{
		"kind: count\nvalue: 3": "",
		"kind: name\nvalue: 3":  "",
		"kind: name":            "value",
		"kind: other\nvalue: 3": "kind: value must be",
	} {
		if got := judged(t, text, body); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

func TestFreeText(t *testing.T) {
	tests := []struct{ schema, body, want string }{
		{`{"type": "object"}`, "Please look.", "free text"},
		{`{"type": "object"}`, "- a\n- list", "free text"},
		{`{"type": ["object", "string"]}`, "Please look.", ""},
		{`{"type": "string", "maxLength": 5}`, "Note: long", ": length must be <= 5, but got 10"},
		{`{"type": "string", "maxLength": 50}`, "Note: long", ""},
		{`{"type": ["object", "string"], "required": ["a"], "pattern": "^x"}`, "b: 1", ": the field a is missing"},
		{`{"required": ["a"]}`, "Please look.", ""}, // as JSON Schema has it
	}
	for _, test := range tests {
		if got := judged(t, test.schema, test.body); got != test.want {
			t.Errorf("%s on %q: got %q, want %q", test.schema, test.body, got, test.want)
		}
	}
}

func TestWords(t *testing.T) {
	tests := []struct{ name, schema, body, want string }{
		{"the description of the missing field",
			`{"description": "all", "required": ["a", "b"], "properties": {"a": {"description": "what  it\n is"}}}`, "c: 1",
			": the field a is missing (what it is)\n: the field b is missing (all)"},
		{"the title", `{"properties": {"a": {"title": "A short one", "maxLength": 1}}}`, "a: xx", "a: length must be <= 1, but got 2 (A short one)"},
		{"an own message", `{"properties": {"a": {"enum": ["x"], "errorMessage": "say x"}}}`, "a: y", "a: say x"},
		{"an own message for a field that is missing", `{"required": ["b"], "errorMessage": "b is what we need"}`, "a: y", ": b is what we need"},
		{"a field that is not there", `{"properties": {"colour": {}}, "additionalProperties": false}`, "color: x\n\"it's \\\"q\\\"\": y",
			"key color: the schema does not have this field (did you mean colour?)\nkey it's \"q\": the schema does not have this field (the fields are colour)"},
		{"a form of several", `{"anyOf": [{"type": "array"}, {"required": ["a", "b"]}]}`, "a: 1", ": the field b is missing"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := judged(t, test.schema, test.body); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// TestReferences checks that schemas refer to files beside them, and to nothing else.
func TestReferences(t *testing.T) {
	common := map[string]string{
		"common.json": `{"$defs": {"short": {"maxLength": 1}, "again": {"$ref": "question.schema.json"}}}`,
		"other.json":  `{"$id": "https://example.com/s/other.json", "maxLength": 1}`,
	}
	const bad = "a: length must be <= 1, but got 2"
	for ref, want := range map[string]string{
		"common.json#/$defs/short":                       bad,
		"./common.json#/$defs/short":                     bad,
		"x/../common.json#/$defs/short":                  bad,
		"https://example.com/s/other.json":               bad,
		"https://example.com/s/common.json#/$defs/short": bad,
		"common.json#/$defs/again":                       "",
		"#":                                              "",
		"http://127.0.0.1:1/x.json":                      "refused",
		"https://example.com/else/other.json":            "refused",
		"file:///etc/passwd":                             "refused",
		"//example.com/common.json":                      "refused",
		"/common.json":                                   "refused",
		"../common.json":                                 "refused",
		"..%2fcommon.json":                               "refused",
		"x/common.json":                                  "refused",
		"missing.json":                                   "refused",
		"oacp://workspace/common.json":                   "refused",
		"data:application/json,{}":                       "refused",
	} {
		t.Run(ref, func(t *testing.T) {
			files := map[string]string{"question.schema.json": fmt.Sprintf(`{"properties": {"a": {"$ref": %q}}}`, ref)}
			for name, text := range common {
				files[name] = text
			}
			if want != "refused" {
				if got := judgedWith(t, files, "a: xx"); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				return
			}
			_, ready := compile(files, []string{"question"})
			if len(ready.Problems) != 1 || !strings.Contains(ready.Problems[0].Message, "not a readable .json file in the folder schemas") {
				t.Errorf("got %+v, want one refusal", ready.Problems)
			}
		})
	}
}

// TestHostileSchemas checks that a schema that is wrong on purpose gives a problem, not a crash, and
// that it names the file.
func TestHostileSchemas(t *testing.T) {
	tests := map[string]struct{ schema, message string }{
		"an unknown type":        {`{"properties": {"a": {"type": "integr"}}}`, "not a JSON Schema"},
		"a list":                 {`[]`, "not a JSON Schema"},
		"a pattern of Perl":      {`{"pattern": "(?=x)"}`, "regex"},
		"a pattern that repeats": {`{"pattern": "((a{100}){100}){100}"}`, "regex"},
		"a property pattern":     {`{"patternProperties": {"(": {}}}`, "regex"},
		"a circle":               {`{"$ref": "#"}`, "infinite loop"},
		"a larger circle":        {`{"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}`, "infinite loop"},
		"a missing definition":   {`{"$ref": "#/$defs/a"}`, "there is no question.schema.json#/$defs/a"},
		"a missing anchor":       {`{"$ref": "#here"}`, "there is no"},
		"an unknown draft":       {`{"$schema": "https://evil.example/schema"}`, "https://evil.example/schema"},
		"two with an id":         {`{"$defs": {"a": {"$id": "x"}, "b": {"$id": "x"}}}`, "same canonical"},
		"an unknown vocabulary":  {`{"$schema": "https://json-schema.org/draft/2020-12/schema", "$vocabulary": {"https://evil.example/v": true}}`, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, ready := compile(map[string]string{"question.schema.json": test.schema}, []string{"question"})
			if len(ready.Problems) != 1 {
				t.Fatalf("got %+v, want one problem", ready.Problems)
			}
			p := ready.Problems[0]
			if !strings.Contains(p.Message, test.message) || p.File != "question.schema.json" {
				t.Errorf("got %+v, want %q", p, test.message)
			}
		})
	}
}

// TestHostileBodies checks that a body that is made to take long or to crash ends with an answer.
func TestHostileBodies(t *testing.T) {
	const tree = `{"$ref": "#/$defs/t", "$defs": {"t": {"type": ["object", "string"], "additionalProperties": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/t"}]}}}}`
	const strict = `{"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "additionalProperties": {"anyOf": [{"type": "array"}, {"$ref": "#/$defs/t"}]}}}}`
	for depth, want := range map[int]string{maxDepth - 1: "", maxDepth: "nests at most 100 deep", 900: "nests at most 100 deep"} {
		deep := strings.Repeat("{a: ", depth) + "x" + strings.Repeat("}", depth)
		if got := judged(t, tree, deep); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("a body of depth %d: got %.100s, want %q", depth, got, want)
		}
		if got := judged(t, strict, deep); got == "" {
			t.Errorf("a body of depth %d that does not fit: no violation", depth)
		}
	}
	var wide strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&wide, "k%d: x\n", i)
	}
	if got := judged(t, `{"additionalProperties": false}`, wide.String()); strings.Count(got, "\n")+1 != maxViolations {
		t.Errorf("a wide body has %d violations, want %d", strings.Count(got, "\n")+1, maxViolations)
	}
}

// TestServe checks a conversation in which requests are bad.
func TestServe(t *testing.T) {
	start, err := json.Marshal(contract.Start{Version: contract.Version, Names: []string{"question", "notification"}, Files: map[string]string{
		"question.schema.json": `{"required": ["a"]}`, "notification.schema.json": `{"type": 3}`,
	}})
	if err != nil {
		t.Fatal(err)
	}
	in := string(start) + "\n" + `{"id": 1, "names": ["question"], "fields": {"b": "1"}}
not JSON
{"id": 2, "names": ["notification"], "fields": {}}
{"id": 3, "names": ["question"]}
{"id": 4, "names": ["question"], "fields": {"a": "1"}}`
	var out bytes.Buffer
	if err := Serve(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 6 || !strings.Contains(lines[0], `"name":"notification"`) {
		t.Fatalf("got %d lines: %s", len(lines), out.String())
	}
	for want, part := range map[string]string{`{"id":4}`: "", `"id":1`: "the field a is missing", `"id":2`: "no schema notification", `"id":3`: "no body", `"id":0`: "cannot be read"} {
		found := false
		for _, line := range lines[1:] {
			found = found || strings.Contains(line, want) && strings.Contains(line, part)
		}
		if !found {
			t.Errorf("no line holds %s and %q: %s", want, part, out.String())
		}
	}
	for _, bad := range []string{"", "x\n", "[]\n"} {
		out.Reset()
		if err := Serve(strings.NewReader(bad), &out); (err != nil) != (bad != "") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	out.Reset()
	if err := Serve(strings.NewReader(`{"version": 99}`), &out); err != nil || out.String() != fmt.Sprintf(`{"version":%d,"problems":null}`+"\n", contract.Version) {
		t.Errorf("another version: %v, %s", err, out.String())
	}
}
